# SPDX-License-Identifier: GPL-2.0-only
"""PDFs that lost their end, as a broken download does: the pages that are whole get a new catalog.

Readers look for the way to the pages at the end of the file. Where that is gone, the pages can still be found by what
they call themselves, as long as they do not lie in compressed object streams.
"""

from __future__ import annotations

import re

_OBJECT = re.compile(rb"(?<![0-9])([0-9]{1,7})[ \t\r\n]+([0-9]{1,5})[ \t\r\n]+obj\b")
_PAGE = re.compile(rb"/Type[ \t\r\n]*/Page(?![A-Za-z])")
_MOST_PAGES = 20_000
_LONGEST_PAGE = 20_000  # bytes of a page's dictionary


def with_new_catalog(data: bytes) -> bytes | None:
    """The file with a catalog of its whole pages, in the file's order; None when there are none, or it is encrypted."""
    if b"/Encrypt" in data:
        return None  # what the key is made of was at the end
    pages: dict[int, int] = {}
    highest = 0
    for found in _OBJECT.finditer(data):
        number, generation = int(found[1]), int(found[2])
        highest = max(highest, number)
        end = data.find(b"endobj", found.end(), found.end() + _LONGEST_PAGE)
        if end < 0:
            continue
        stream = data.find(b"stream", found.end(), end)
        if _PAGE.search(data, found.end(), end if stream < 0 else stream):
            pages.pop(number, None)  # a later version of it stands where that stands
            pages[number] = generation
    if not pages or len(pages) > _MOST_PAGES:
        return None
    whole = data.rfind(b"endobj") + len(b"endobj")
    if data.find(b"stream", whole) < 0:
        data = data[:whole]  # a dictionary that does not end would take in the new ones
    tree, catalog = highest + 1, highest + 2
    kids = " ".join(f"{number} {generation} R" for number, generation in pages.items())
    end_of_file = (
        "\nendstream\nendobj\n"  # of the object that was cut
        f"{tree} 0 obj\n<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>\nendobj\n"
        f"{catalog} 0 obj\n<</Type/Catalog/Pages {tree} 0 R>>\nendobj\n"
        f"trailer\n<</Root {catalog} 0 R/Size {catalog + 1}>>\nstartxref\n0\n%%EOF\n"
    )
    return data + end_of_file.encode("ascii")
