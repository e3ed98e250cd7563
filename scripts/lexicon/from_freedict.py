# SPDX-License-Identifier: GPL-2.0-only
"""Write data/lexicon/freedict.tsv from FreeDict's Polish-English and English-Polish dictionaries.

usage: from_freedict.py FOLDER

FOLDER has freedict-pol-eng.dict.dz and freedict-eng-pol.dict.dz, as the Debian packages dict-freedict-pol-eng and
dict-freedict-eng-pol have them. Only words and pairs of words are taken: no explanations, no pronunciation.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HEADER = """\
# SPDX-License-Identifier: CC-BY-SA-3.0
# Words of FreeDict's Polish-English and English-Polish dictionaries (https://freedict.org), made by WikDict
# (https://www.wikdict.com, Karl Bartel) from Wiktionary (https://www.wiktionary.org) and its contributors.
# Made by scripts/lexicon/from_freedict.py, which leaves out all but single words and pairs of words.
"""
_ENTRY = re.compile(r"([^/<\d][^/<]*?)(?: /[^/]*/)? <[\w, ]+[^>]*>\s*")
_SENSE = re.compile(r"\d+\. (.*)")
_PHRASE = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+)?")
_LEADING = re.compile(r"(?:to|a|an|the|się) ")


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Every (headword, translation) of a dictionary. Below a headword are its senses; a lone one has no number."""
    word: str | None = None
    first = False
    for line in text.split("\n"):
        if entry := _ENTRY.fullmatch(line):
            word, first = entry[1].strip(), True
            continue
        sense = _SENSE.match(line)
        if word is not None and (sense or first):
            for part in (sense[1] if sense else line).split(","):
                phrase = _LEADING.sub("", re.sub(r"\(.*?\)", "", part).strip())
                if _PHRASE.fullmatch(phrase):
                    yield word, phrase
        first = False


def main(folder: Path, target: Path) -> None:
    """Read both dictionaries of `folder`; write `target`."""
    pairs: dict[str, dict[str, None]] = {}
    for name, polish_first in (("pol-eng", True), ("eng-pol", False)):
        with gzip.open(folder / f"freedict-{name}.dict.dz", "rt", encoding="utf-8") as file:
            for word, translation in entries(file.read()):
                polish, english = (word, translation) if polish_first else (translation, word)
                if re.fullmatch(r"[^\W\d_]{3,}", polish) and _PHRASE.fullmatch(english):
                    pairs.setdefault(polish, {})[english] = None
    lines = (f"{polish}\t{'|'.join(pairs[polish])}\n" for polish in sorted(pairs))
    target.write_text(HEADER + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(__file__).parents[2] / "data" / "lexicon" / "freedict.tsv")
