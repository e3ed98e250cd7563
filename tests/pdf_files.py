# SPDX-License-Identifier: GPL-2.0-only
"""PDFs written by hand, object by object, so that a test says what is in its file and what is wrong with it."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

POLISH = {
    "ą": "aogonek", "ć": "cacute", "ę": "eogonek", "ł": "lslash", "ń": "nacute", "ó": "oacute", "ś": "sacute",
    "ź": "zacute", "ż": "zdotaccent", "Ł": "Lslash", "Ś": "Sacute", "Ż": "Zdotaccent", "Ó": "Oacute",
}  # fmt: skip
_CODES = {letter: 128 + number for number, letter in enumerate(POLISH)}


@dataclass
class PdfPage:
    """A page: lines of (x, y, size, text) with y from the bottom, and drawing operators before them."""

    lines: Sequence[tuple[float, float, float, str]] = ()
    operators: str = ""
    rotate: int = 0
    width: float = 595
    height: float = 842
    annotations: Sequence[str] = ()
    text_operators: str = ""
    """Set before the text, like `3 Tr` for invisible text."""


@dataclass
class PdfFile:
    """Puts objects together; `bytes()` of it is the file."""

    pages: Sequence[PdfPage]
    title: str | None = None
    outline: Sequence[tuple[str, int, int, float | None]] = ()
    """(title, level from 1, page from 0, y of the destination or None)."""
    to_unicode: dict[int, int] = field(default_factory=dict)
    """Codes of the font that are said to mean other characters than they show."""
    catalog: str = ""
    image: bytes | None = None
    """Grey pixels, `image_size` of them, that pages draw with /Im Do."""
    image_size: tuple[int, int] = (1, 1)

    def __bytes__(self) -> bytes:
        objects: list[bytes] = [b"", b"", _font(4 if self.to_unicode else None), _map(self.to_unicode), self._image()]
        kids = []
        for page in self.pages:
            content = page.operators + "\n" + "".join(_line(page, *line) for line in page.lines)
            objects.append(_stream(content.encode("latin-1")))
            annotations = []
            for annotation in page.annotations:
                objects.append(annotation.encode("latin-1"))
                annotations.append(f"{len(objects)} 0 R")
            content_at = len(objects) - len(annotations)
            objects.append(
                f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {page.width} {page.height}]/Rotate {page.rotate}"
                f"/Resources<</Font<</F 3 0 R>>/XObject<</Im 5 0 R>>>>/Contents {content_at} 0 R"
                f"/Annots[{' '.join(annotations)}]>>".encode()
            )
            kids.append(len(objects))
        objects[1] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(f'{kid} 0 R' for kid in kids)}]>>".encode()
        outline = self._outline(objects, kids)
        objects[0] = f"<</Type/Catalog/Pages 2 0 R{outline}{self.catalog}>>".encode("latin-1")
        info = ""
        if self.title is not None:
            objects.append(f"<</Title <{self.title.encode('utf-16').hex()}>>>".encode())
            info = f"/Info {len(objects)} 0 R"
        return _file(objects, info)

    def _image(self) -> bytes:
        width, height = self.image_size
        head = f"/Type/XObject/Subtype/Image/Width {width}/Height {height}/BitsPerComponent 8/ColorSpace/DeviceGray"
        return _stream(self.image or b"\xff", head)

    def _outline(self, objects: list[bytes], kids: list[int]) -> str:
        if not self.outline:
            return ""
        root = len(objects) + 1
        numbers = [root + 1 + place for place in range(len(self.outline))]
        levels = [0, *[level for _, level, _, _ in self.outline]]
        parents = [
            max((other for other in range(place) if levels[other] < levels[place]), default=0)
            for place in range(1, len(levels))
        ]
        children: dict[int, list[int]] = {}
        for place, parent in enumerate(parents, 1):
            children.setdefault(parent, []).append(place)

        def family(place: int) -> str:
            own = children.get(place)
            return f"/First {root + own[0]} 0 R/Last {root + own[-1]} 0 R/Count {len(own)}" if own else ""

        objects.append(f"<</Type/Outlines{family(0)}>>".encode())
        for place, (title, _, page, y) in enumerate(self.outline, 1):
            siblings = children[parents[place - 1]]
            after = siblings.index(place) + 1
            following = f"/Next {root + siblings[after]} 0 R" if after < len(siblings) else ""
            target = f"[{kids[page]} 0 R /XYZ 0 {y} 0]" if y is not None else f"[{kids[page]} 0 R /Fit]"
            words = title.encode("utf-16").hex()
            parent = root + parents[place - 1]
            objects.append(f"<</Title <{words}>/Parent {parent} 0 R/Dest {target}{following}{family(place)}>>".encode())
        assert len(objects) == numbers[-1]
        return f"/Outlines {root} 0 R"


def paragraph(
    x: float, y: float, words: str, width: int = 60, size: float = 10
) -> list[tuple[float, float, float, str]]:
    """Wrapped lines, as a typesetter makes them, from (x, y) down; `width` in characters."""
    lines: list[str] = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [(x, y - 1.2 * size * number, size, line) for number, line in enumerate(lines)]


def _line(page: PdfPage, x: float, y: float, size: float, text: str) -> str:
    codes = bytes(_CODES.get(letter, ord(letter) if ord(letter) < 128 else 63) for letter in text)
    return f"BT {page.text_operators} /F {size} Tf {x} {y} Td <{codes.hex()}> Tj ET\n"


def _font(to_unicode: int | None) -> bytes:
    names = "".join(f"/{name}" for name in POLISH.values())
    unicode_map = f"/ToUnicode {to_unicode} 0 R" if to_unicode else ""
    # Courier's letters all have the same width: places are easy to tell.
    return (
        f"<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding<</Type/Encoding/BaseEncoding/WinAnsiEncoding"
        f"/Differences[128{names}]>>{unicode_map}>>"
    ).encode()


def _map(meanings: dict[int, int]) -> bytes:
    rows = "".join(f"<{code:02x}> <{meaning:04x}>\n" for code, meaning in meanings.items())
    return _stream(
        f"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        f"1 begincodespacerange <00> <ff> endcodespacerange\n{len(meanings)} beginbfchar\n{rows}endbfchar\n"
        f"endcmap end end".encode()
    )


def _stream(content: bytes, head: str = "") -> bytes:
    packed = zlib.compress(content)
    return f"<<{head}/Filter/FlateDecode/Length {len(packed)}>>stream\n".encode() + packed + b"\nendstream"


def _file(objects: Sequence[bytes], info: str) -> bytes:
    whole = io.BytesIO()
    whole.write(b"%PDF-1.5\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(whole.tell())
        whole.write(f"{number} 0 obj\n".encode() + content + b"\nendobj\n")
    start = whole.tell()
    rows = "".join(f"{place:010} 00000 n \n" for place in places)
    whole.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}".encode())
    whole.write(f"trailer<</Size {len(objects) + 1}/Root 1 0 R{info}>>\nstartxref\n{start}\n%%EOF\n".encode())
    return whole.getvalue()
