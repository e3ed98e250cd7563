# SPDX-License-Identifier: GPL-2.0-only
"""PPTX: a slide is a page under its title; text, tables, groups, charts, diagrams, and the speaker's notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bigos.errors import DocumentError
from bigos.loaders.assembly import Assembly
from bigos.loaders.container import open_container
from bigos.loaders.encoding import clean
from bigos.loaders.markup import Element, attribute, descend, local, parse_xml
from bigos.loaders.ooxml_package import readable_copy
from bigos.loaders.optional import require
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed, one_line
from bigos.types import SourceFile

_REPEATED = frozenset(("dt", "ftr", "hdr", "sldNum", "sldImg"))  # placeholders that say the same on each slide
_DEFAULT_TITLES = frozenset(("powerpoint presentation", "prezentacja programu powerpoint", "slajd 1", "slide 1"))
_MAX_DEPTH = 50  # of groups in groups


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Slides in their order, hidden ones too.

    Raises:
        DocumentError: as `open_container` and `readable_copy` do; "damaged" when there is no presentation in it.
    """
    library = require("pptx", "python-pptx")
    deck = Assembly()
    copy = readable_copy(open_container(data), deck.warn)
    try:
        presentation = library.Presentation(copy)
    except (KeyError, ValueError, AttributeError) as error:
        raise DocumentError("damaged", f"there is no presentation in the package: {error}") from error
    first_title: str | None = None
    for number, slide in enumerate(_slides(presentation, deck), 1):
        if slide is None:
            continue
        _unwrap_alternatives(slide.element)
        title = _title(slide)
        first_title = first_title or title or None
        path = (title,) if title else ()
        for text in _texts(slide.shapes, 0):
            deck.add(text, page=number, heading_path=path)
        if slide.has_notes_slide:
            notes = slide.notes_slide.notes_text_frame
            if notes is not None:
                deck.add(_lines(notes), page=number, heading_path=path)
    named = one_line(clean(presentation.core_properties.title or ""))
    return deck.parsed(named if named and named.lower() not in _DEFAULT_TITLES else first_title)


def _slides(presentation: Any, deck: Assembly) -> Iterator[Any]:
    """The slides; None in the place of one that is not there, so that the others keep their numbers."""
    for reference in descend(presentation.element, "sldId"):
        try:
            yield presentation.part.related_slide(reference.rId)
        except (KeyError, AttributeError):
            deck.warn("a slide is missing from the file")
            yield None


def _unwrap_alternatives(slide: Element) -> None:
    """Put what new programs show in the place of each choice; the library does not look into them.

    PowerPoint wraps a whole text box so when there is one formula in it.
    """
    for choice in descend(slide, "AlternateContent"):
        parent = choice.getparent()
        if parent is None:
            continue
        shown = next((list(option) for option in choice if local(option) in ("Choice", "Fallback")), [])
        at = parent.index(choice)
        parent.remove(choice)
        for place, element in enumerate(shown, at):
            parent.insert(place, element)


def _title(slide: Any) -> str:
    shape = slide.shapes.title
    return one_line(clean(shape.text_frame.text.replace("\v", " "))) if shape is not None else ""


def _texts(shapes: Iterable[Any], depth: int) -> Iterator[str]:
    for shape in shapes:
        inner = getattr(shape, "shapes", None)
        if inner is not None and depth < _MAX_DEPTH:
            yield from _texts(inner, depth + 1)
        elif shape.is_placeholder and _placeholder(shape.element) in _REPEATED:
            continue
        elif getattr(shape, "has_table", False):
            rows = ([" ".join(cell.text_frame.text.split()) for cell in row.cells] for row in shape.table.rows)
            yield "\n".join(" | ".join(cells) for cells in rows if any(cells))
        elif shape.has_text_frame:
            yield _lines(shape.text_frame)
        elif local(shape.element) == "graphicFrame":
            yield from _graphic(shape)


def _placeholder(element: Element) -> str | None:
    return next((attribute(found, "type") for found in descend(element, "ph")), None)


def _lines(frame: Any) -> str:
    """Paragraphs, those below the first level as a list."""
    lines = []
    for paragraph in frame.paragraphs:
        text = "".join(_inline(paragraph._p)).strip()  # the library's own text has no formulas
        if text:
            lines.append(text if paragraph.level == 0 else "  " * (paragraph.level - 1) + "- " + text)
    return "\n".join(lines)


def _inline(paragraph: Element) -> Iterator[str]:
    """The characters of a paragraph: runs, fields, formulas."""
    for element in paragraph.iter():
        name = local(element)
        if name == "t":
            yield element.text or ""
        elif name == "br":
            yield "\n"


def _graphic(shape: Any) -> Iterator[str]:
    """What a chart or a diagram says, from the part that it is drawn from."""
    for element in shape.element.iter():
        name = local(element)
        if name not in ("chart", "relIds"):
            continue
        identity = attribute(element, "id" if name == "chart" else "dm")
        try:
            root = parse_xml(shape.part.related_part(identity).blob, recover=True)
        except (KeyError, DocumentError):
            continue
        if name == "relIds":
            for paragraph in descend(root, "p"):
                yield "".join(text.text or "" for text in descend(paragraph, "t"))
        else:
            words = [element.text.strip() for element in root.iter() if local(element) in ("t", "v") and element.text]
            yield "\n".join(dict.fromkeys(word for word in words if any(char.isalpha() for char in word)))
