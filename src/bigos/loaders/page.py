# SPDX-License-Identifier: GPL-2.0-only
"""What of an HTML page is its content: unseen elements, menus and banners, and the element that holds the main text.

Every rule here may be wrong for some page, so each only removes what is clearly apart from the text, and the caller
falls back to the whole page when nothing is left.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lxml import etree

Element = Any  # lxml's elements have no type information


def words(text: str) -> frozenset[str]:
    """The words of a table written as one string."""
    return frozenset(text.split())


_UNSEEN_TAGS = words(
    "script style noscript template head iframe object embed svg canvas audio video select option datalist input "
    "textarea button map rt rp rtc"  # with the readings beside Chinese and Japanese characters
)
_BOILERPLATE_TAGS = frozenset(("nav", "aside", "footer", "menu", "dialog"))
_BOILERPLATE_ROLES = words("navigation banner contentinfo search complementary menu menubar toolbar dialog alertdialog")
# Words of a class or id; only on block elements, because prose marks up its words with names like "menuitem".
_BOILERPLATE_WORDS = words(
    "nav navbar navigation docnav topnav sidenav subnav menu navmenu topmenu sidebar breadcrumb breadcrumbs cookie "
    "cookies consent gdpr rodo footer masthead skip skiplink advert advertisement ads adsense promo newsletter popup "
    "pagination pager sharing sociable banner navfooter navheader mainmenu sitemenu stopka ciasteczka okruszki "
    "navbox catlinks printfooter noprint sharedaddy addtoany cookiebot cookiebanner usercentrics osano "
    "truste trustarc borlabs klaro"
)
# What is clear only from two words together.
_BOILERPLATE_NAMES = re.compile(
    r"related[-_]?(?:posts?|articles?|stories|news|content)|(?:social|share)[-_]?(?:share|bar|buttons?|icons?|links?|media|this)"
    r"|cookie[-_]?(?:bar|box|law|info|notice|policy|msg|message|popup|consent)|\bcmp2?[-_]?(?:container|box|wrapper)"
    r"|(?:post|entry|page)[-_]?navigation|widget[-_]?area|comment[-_]?(?:form|respond)|podobne[-_]?(?:wpisy|artykuly)",
    re.IGNORECASE,
)
# Asides that belong to the text, as docutils, Sphinx and publishers write them.
_NOTES = words("footnote footnotes endnote endnotes note admonition epigraph warning tip hint important caution")
_CONSENT_DEPTH = 4  # below <body>, to which banners that ask for consent are looked for
_CONSENT_LENGTH = range(20, 1500)  # characters
_CONSENT_SHARE = 0.3  # of the page's text; what is more is a page about cookies
_COOKIES = re.compile(r"\bcookies?\b|\bciastecz|\brodo\b|\bgdpr\b", re.IGNORECASE)
_CONSENT = re.compile(
    r"akcept|zgadzam|zgod[aęąy]\b|rozumiem|odrzu[ćc]|korzystając|przeglądark|prywatności|\baccept|\bagree|\bconsent"
    r"|\breject|got it|by using|continuing|privacy",
    re.IGNORECASE,
)
_CONTENTS = words("toc contents tableofcontents spistresci")
_PERMALINK = frozenset(("¶", "§", "#", "🔗", "⚓", "\uf0c1", "↩", "↩︎"))
_BLOCKS = words("div ul ol dl table section form p center tr td")
_CONTAINERS = words("div section article table tbody tr td center form")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LINK_SHARE = 0.6
_ENOUGH_TEXT = 200  # characters outside links that make a page more than a list of links
_DENSE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class MainContent:
    """Where to read, and which elements inside are no text: menus, nearly all links, and what asks for consent."""

    element: Element
    menus: frozenset[Element]


def invisible(element: Element) -> bool:
    """Whether a reader of the page never sees this element as text."""
    if not isinstance(element.tag, str) or element.tag in _UNSEEN_TAGS:
        return True
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    style = element.get("style")
    return style is not None and _HIDDEN_STYLE.search(style[:2000]) is not None


def boilerplate(element: Element) -> bool:
    """Whether it is navigation, a banner or the like, by tag, role, class or id."""
    tag = element.tag
    if tag == "a":
        return _permalink(element)
    if tag == "aside":
        return not _is_note(element)
    if tag == "footer":
        return element.getparent() is None or element.getparent().tag not in ("blockquote", "figure")  # whom it quotes
    if tag in _BOILERPLATE_TAGS or element.get("role") in _BOILERPLATE_ROLES:
        return True
    if tag == "header":
        # An article's header has its heading; the page's has the site's name and the search box.
        return not (_is_inside_text(element) or _has_title_of_page(element))
    return _named_boilerplate(element)


def _is_inside_text(element: Element) -> bool:
    return any(parent.tag in ("article", "main") or parent.get("role") == "main" for parent in element.iterancestors())


def _is_note(aside: Element) -> bool:
    """Whether an aside is a part of the text: a footnote, a box in an article that is more than links."""
    if (aside.get("role") or "").startswith("doc-") or _NOTES & set(_WORD.findall((aside.get("class") or "").lower())):
        return True
    if not _is_inside_text(aside) or _named_boilerplate(aside, block=True):
        return False
    linked = sum(_length("".join(link.itertext())) for link in aside.iter("a"))
    return linked < _LINK_SHARE * max(_length("".join(aside.itertext())), 1)


def _has_title_of_page(header: Element) -> bool:
    """Whether it holds the heading that the page is named after (pandoc); a site's name ends the page's, or leads home.

    Of a page without a name it is the only heading of the first level.
    """
    heading = next((found for found in header.iter("h1") if found.find(".//a") is None), None)
    words_of_heading = "".join(heading.itertext()).split() if heading is not None else []
    if not words_of_heading:
        return False
    root = header.getroottree().getroot()
    title = next(root.iter("title"), None)
    words_of_title = "".join(title.itertext()).split() if title is not None else []
    if words_of_title:
        return words_of_title[: len(words_of_heading)] == words_of_heading
    return sum(1 for _ in root.iter("h1")) == 1


def _named_boilerplate(element: Element, *, block: bool = False) -> bool:
    names = f"{element.get('class') or ''} {element.get('id') or ''}"[:500]
    if element.tag not in _BLOCKS and not block:
        return "mw-editsection" in names or "mw-jump" in names
    names_in = {word.lower() for word in _WORD.findall(names)}
    if names_in & _CONTENTS and _leads_within_page(element):
        return True
    if not names_in & _BOILERPLATE_WORDS and not _BOILERPLATE_NAMES.search(names):
        return False
    return next(element.iter("main", "article", "h1"), None) is None


def _permalink(link: Element) -> bool:
    """Whether it is a heading's link to itself, which shows as a sign or not at all."""
    if not (link.get("href") or "").startswith("#"):
        return False
    text = (link.text or "").strip()
    return text in _PERMALINK and len(link) == 0


def _leads_within_page(element: Element) -> bool:
    """Whether it is a list of links to the page's own sections: their headings are read where they stand."""
    targets = [link.get("href") or "" for link in element.iter("a")]
    return len(targets) >= 3 and all(target.startswith("#") for target in targets)


def choose_main(root: Element) -> MainContent:
    """<main>, role=main or the only <article>; else the body without the link lists around its densest part."""
    body = root.find("body") if root.tag != "body" else root
    body = root if body is None else body
    marked = list(body.iter("main")) or [
        element for element in body.iter("div", "section", "article", "td") if element.get("role") == "main"
    ]
    if not marked:
        articles = list(body.iter("article"))
        marked = articles if len(articles) == 1 else []
    sizes = _sizes(body)
    total = sum(sizes.get(body, (0, 0)))  # a hidden body has none
    notices = _consent_notices(body, sizes, total)
    if marked:
        best = max(marked, key=lambda element: sum(sizes[element]) if element in sizes else 0)
        # An empty <main> that a script would fill, or a teaser called <article>, is not the page.
        if best in sizes and sum(sizes[best]) >= 0.2 * total and sum(sizes[best]) > 0:
            return MainContent(best, notices)
    return MainContent(body, _menus_around(body, sizes) | notices)


def _consent_notices(body: Element, sizes: dict[Element, tuple[int, int]], total: int) -> frozenset[Element]:
    """Boxes near the top of the tree that speak of cookies and ask to agree, whatever they are called."""
    found: set[Element] = set()
    waiting = [(child, 1) for child in body]
    while waiting:
        element, depth = waiting.pop()
        size = sum(sizes.get(element, (0, 0)))
        if element.tag not in ("div", "section", "aside", "form", "main", "article"):
            continue
        if size in _CONSENT_LENGTH and size < _CONSENT_SHARE * total and _asks_for_consent(element):
            found.add(element)
        elif depth < _CONSENT_DEPTH:
            waiting += [(child, depth + 1) for child in element]
    return frozenset(found)


def _asks_for_consent(element: Element) -> bool:
    if element.tag in ("main", "article") or next(element.iter("h1", "main", "article"), None) is not None:
        return False
    if next(element.iter("button", "a", "input"), None) is None:
        return False
    text = "".join(element.itertext())[: 2 * _CONSENT_LENGTH.stop]
    return _COOKIES.search(text) is not None and _CONSENT.search(text) is not None


def _sizes(body: Element) -> dict[Element, tuple[int, int]]:
    """For each seen element: characters outside links, and inside."""
    sizes: dict[Element, tuple[int, int]] = {}
    stack: list[list[int]] = [[0, 0]]
    in_link = 0
    walk = etree.iterwalk(body, events=("start", "end"))
    for event, element in walk:
        if event == "start":
            stack.append([0, 0])
            if invisible(element):
                walk.skip_subtree()
                continue
            in_link += element.tag == "a"
            stack[-1][1 if in_link else 0] += _length(element.text)
            continue
        plain, linked = stack.pop()
        if not invisible(element):
            in_link -= element.tag == "a"
            sizes[element] = (plain, linked)
            stack[-1][0] += plain
            stack[-1][1] += linked
        if element is not body:
            stack[-1][1 if in_link else 0] += _length(element.tail)
    return sizes


def _length(text: str | None) -> int:
    return len(text.strip()) if text else 0


def _menus_around(body: Element, sizes: dict[Element, tuple[int, int]]) -> frozenset[Element]:
    """On the way down to the element with most of the text, the neighbours that are link lists."""
    total = sizes.get(body, (0, 0))[0]
    if total < _ENOUGH_TEXT:
        return frozenset()
    menus: set[Element] = set()
    place = body
    while True:
        children = [child for child in place if child in sizes]
        dense = max(children, key=lambda child: sizes[child][0], default=None)
        menus.update(child for child in children if child is not dense and _is_link_list(child, sizes[child]))
        if dense is None or sizes[dense][0] < _DENSE_SHARE * total or dense.tag not in _CONTAINERS:
            return frozenset(menus)
        place = dense


def _is_link_list(element: Element, size: tuple[int, int]) -> bool:
    plain, linked = size
    if element.tag not in _BLOCKS or linked < _LINK_SHARE * (plain + linked):
        return False
    links = element.iter("a")
    return sum(1 for _ in zip(range(3), links, strict=False)) == 3 and next(element.iter("h1", "h2"), None) is None
