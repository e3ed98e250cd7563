# SPDX-License-Identifier: GPL-2.0-only
"""CSV and TSV: each row carries its columns' names, so that it is understood when it is found alone.

    Gatunek;Waga           Gatunek | Waga
    Borowik;1,2     ->     Gatunek: Borowik | Waga: 1,2

The text has the file's lines: a line end inside a quoted cell stays one.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed
from bigos.types import Block, SourceFile

_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 60
_SAMPLE_LINE = 10_000  # characters
_LONGEST_LINE = 1_000_000  # characters; what has a longer one is no table that a person made
_LONGEST_NAME = 60  # characters of a column's name
_MOST_GROWTH = 8  # times the file: column names may make the text so long, then they are left out
_BATCH = 2000  # rows joined at a time: a list of every cell would take many times the file
_DECLARED = re.compile(r"sep=(.)\n")  # the first line with which Excel names the delimiter
_NUMBER = re.compile(r"[-+(]?[\d.,\s%€$]+\)?")
_SPACES = re.compile(r"[ \t\xa0]+")


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """One block of rows, `name: value | name: value`; a row without names when the first row has none."""
    raw, _, warnings = decode(data)
    text = clean(raw)
    del raw
    declared = _DECLARED.match(text)
    delimiter = declared[1] if declared else find_delimiter(text)
    if delimiter is None or _has_long_line(text):
        return _one_block(text, warnings)
    table = _Table(text, delimiter, skip=1 if declared else 0)
    return _one_block(table.text(), (*warnings, *table.warnings))


def _one_block(text: str, warnings: tuple[str, ...]) -> Parsed:
    return Parsed(text, (Block(text, 0, line_start=1),), None, warnings)


def _has_long_line(text: str) -> bool:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end - start > _LONGEST_LINE:
            return True
        start = end + 1
    return False


def find_delimiter(text: str) -> str | None:
    """The delimiter that cuts the first lines into the same number of cells, more than one; None when none does."""
    lines = [line[:_SAMPLE_LINE] for line in text[: _SAMPLE_LINES * _SAMPLE_LINE].split("\n")[:_SAMPLE_LINES]]
    best: tuple[float, str] | None = None
    for delimiter in _DELIMITERS:
        try:
            widths = Counter(len(row) for row in csv.reader(_ended(lines), delimiter=delimiter) if row)
        except csv.Error:
            continue
        if not widths:
            return None
        width, count = max(widths.items(), key=lambda found: (found[1], found[0]))
        # As many rows alike as can be; of two that are equally regular, the one that cuts more.
        score = count / widths.total() + min(width, 20) / 1000
        if width > 1 and count >= 0.5 * widths.total() and (best is None or score > best[0]):
            best = (score, delimiter)
    return best[1] if best else None


def _ended(lines: Iterable[str]) -> Iterator[str]:
    return (line + "\n" for line in lines)


class _Table:
    """Writes rows out with their names, and no more of them than the file can bear."""

    def __init__(self, text: str, delimiter: str, skip: int) -> None:
        self._text = text
        self._delimiter = delimiter
        self._skip = skip
        self._names: list[str] | None = None
        self._allowed = _MOST_GROWTH * len(text) + 10_000
        self.warnings: list[str] = []

    def text(self) -> str:
        """All rows."""
        parts: list[str] = []
        batch: list[str] = []
        written = 0
        for line in self._rows():
            written += len(line) + 1
            batch.append(line)
            if len(batch) == _BATCH:
                parts.append("\n".join(batch))
                batch.clear()
            if self._names and written > self._allowed:
                self._names = []
                self.warnings.append("the names of the columns are left out of later rows: the text would be too long")
        parts.append("\n".join(batch))
        return "\n".join(parts)

    def _rows(self) -> Iterator[str]:
        lines = _lines(self._text)
        yield from ("" for _ in range(self._skip) if next(lines, None) is not None)
        # The last line has an end where the file has one: a quotation that nobody closes goes on to there.
        ended = itertools.chain(_ended(itertools.islice(lines, self._text.count("\n") - self._skip)), lines)
        reader = csv.reader(ended, delimiter=self._delimiter)
        first = True
        while True:
            before = reader.line_num
            try:
                row = next(reader, None)
            except csv.Error:
                # A cell that is longer than 128 KiB is a quotation mark that nobody closed.
                self.warnings.append(f"line {before + self._skip + 1} has a quotation mark without its pair")
                yield from _lines_from(self._text, before + self._skip)
                return
            if row is None:
                return
            if first and row and any(row):
                first = False
                self._names = _header(row)
                yield self._aligned(" | ".join(_cell(cell) for cell in row), reader.line_num - before)
                continue
            yield self._aligned(self._row(row), reader.line_num - before)

    def _row(self, row: list[str]) -> str:
        if not self._names:
            return " | ".join(_cell(cell) for cell in row)
        cells: list[str] = []
        for place, cell in enumerate(row):
            value = _cell(cell)
            if value:
                name = self._names[place] if place < len(self._names) else ""
                cells.append(f"{name}: {value}" if name else value)
        return " | ".join(cells)

    @staticmethod
    def _aligned(text: str, lines: int) -> str:
        """With as many line ends as the row has in the file; those of empty cells at its edges were stripped."""
        return text + "\n" * (lines - 1 - text.count("\n"))


def _lines(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _lines_from(text: str, first: int) -> Iterator[str]:
    return (line for number, line in enumerate(_lines(text)) if number >= first)


def _cell(text: str) -> str:
    return _SPACES.sub(" ", text).strip(" ")


def _header(row: list[str]) -> list[str] | None:
    """The names of the columns, when the first row can be that: words, no two alike, no numbers."""
    names = [" ".join(cell.split()) for cell in row]
    while names and not names[-1]:
        names.pop()
    filled = [name for name in names if name]
    if len(filled) < 2 or len(set(filled)) < len(filled) or len(filled) < 0.5 * len(names):
        return None
    if any(len(name) > 2 * _LONGEST_NAME or _NUMBER.fullmatch(name) for name in filled):
        return None
    return [name[:_LONGEST_NAME] for name in names]
