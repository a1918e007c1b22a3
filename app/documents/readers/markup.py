"""HTML as visible text, with tables as records; and EPUB, whose chapters are HTML."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from lxml import etree, html

from app.documents.readers.archive import Archive
from app.documents.readers.common import (
    NESTED,
    NO_TEXT,
    UnreadableError,
    damaged,
    one_line,
    tidy,
    unreadable,
)
from app.documents.readers.encoding import decoded
from app.documents.readers.grid import Cell, table_lines
from dragon.localizable import Localizable, localizable

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = {"application/xhtml+xml", "text/html"}
_UNSEEN = {
    "script", "style", "noscript", "template", "iframe", "object", "svg", "math", "canvas", "head",
    "rp", "rt", "select", "button", "input", "textarea",
}  # fmt: skip
_BLOCKS = {
    "address", "article", "aside", "blockquote", "caption", "dd", "details", "dialog", "div", "dl",
    "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "main",
    "nav", "ol", "p", "pre", "section", "summary", "table", "td", "th", "tr", "ul",
}  # fmt: skip
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_UNDISPLAYED = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_DECLARED = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?([\w-]{1,40})", re.IGNORECASE)
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")  # the parser takes no text that has one
_HEAD_BYTES = 4096
_MOST_DEPTH = 200
_TO_THE_END = 65_534  # rows: the most that HTML allows


def html_text(data: bytes) -> str:
    """The visible text of a page, its title first. Raises UnreadableError."""
    root = _parsed(data)
    if root is None:
        raise UnreadableError(NO_TEXT)
    title = one_line(root.findtext(".//title") or "")
    text = tidy("".join(_pieces(root)))
    if title and title not in text[: len(title) + 8]:
        text = f"{title}\n\n{text}"
    return text


def _parsed(data: bytes) -> Any:
    declared = _DECLARED.search(data[:_HEAD_BYTES])
    page = decoded(data, declared[1].decode() if declared else "")
    text = _DECLARATION.sub("", page.text, count=1) if page else ""
    parser = html.HTMLParser(remove_comments=True, remove_pis=True)
    try:
        root = html.document_fromstring(text, parser=parser)
    except etree.ParserError:
        return None
    except etree.XMLSyntaxError:
        raise UnreadableError(damaged("HTML")) from None
    if any("depth" in error.message.lower() for error in parser.error_log):
        raise UnreadableError(NESTED)
    return root


def _pieces(root: Any) -> Iterator[str]:
    walk = etree.iterwalk(root, events=("start", "end"))
    depth = 0
    for event, element in walk:
        tag = element.tag
        depth += 1 if event == "start" else -1
        if depth > _MOST_DEPTH:
            raise UnreadableError(NESTED)
        if event == "start":
            unseen = _UNDISPLAYED.search(element.get("style", ""))
            if tag in _UNSEEN or unseen or element.get("hidden") is not None:
                walk.skip_subtree()
                continue
            if tag == "table" and not _is_for_layout(element):
                walk.skip_subtree()
                yield "\n\n" + "\n".join(table_lines(_table(element))) + "\n\n"
                continue
            yield _opening(element)
            if element.text:
                yield _spaced(element, element.text)
        else:
            following = element.getnext()
            if tag == "dt" and following is not None and following.tag == "dd":  # what it means
                yield " " if one_line("".join(element.itertext())).endswith(":") else ": "
            elif tag in _BLOCKS or tag in _HEADINGS:
                yield "\n\n" if tag in {"p", "pre", "blockquote"} or tag in _HEADINGS else "\n"
            if element.tail:
                yield _spaced(element.getparent(), element.tail)


def _opening(element: Any) -> str:
    tag = element.tag
    if tag in _HEADINGS:
        return f"\n\n{_HEADINGS[tag]} "
    if tag == "li":
        return "\n- "
    if tag == "dd" and element.getprevious() is not None and element.getprevious().tag == "dt":
        return ""  # behind its term
    if tag == "br" or tag in _BLOCKS:
        return "\n"
    return f" {element.get('alt', '')} " if tag == "img" else ""


def _spaced(element: Any, text: str) -> str:
    """Line breaks count in `pre` alone."""
    if element is not None and element.tag == "pre":
        return text
    return text.replace("\n", " ").replace("\r", " ").replace("\f", " ")


def _table(table: Any) -> list[list[Cell]]:
    """The rows of a table without those of tables within it, a caption before them."""
    rows = [
        [_cell(cell, row) for cell in row.iterchildren("td", "th")]
        for row in table.iter("tr")
        if next(row.iterancestors("table")) is table
    ]
    caption = table.findtext("caption")
    return [[Cell(caption)], *rows] if caption and not rows else rows


def _is_for_layout(table: Any) -> bool:
    """Whether it only places others: there are tables in it, and it names no columns."""
    named = (next(cell.iterancestors("table")) is table for cell in table.iter("th"))
    return table.find(".//table") is not None and not any(named)


def _span(cell: Any, name: str) -> int:
    said = cell.get(name, "")[:5]
    return (int(said) or _TO_THE_END) if said.isdecimal() else 1


def _cell(cell: Any, row: Any) -> Cell:
    heads = cell.tag == "th" or row.getparent().tag == "thead"
    return Cell("".join(_pieces(cell)), _span(cell, "rowspan"), _span(cell, "colspan"), heads)


def epub_chapters(archive: Archive) -> tuple[list[str], Localizable | None]:
    """The text of each chapter that has any, title and author first; a note of those missing."""
    root = archive.xml(_CONTAINER).find(".//{*}rootfile")
    rootfile = "" if root is None else root.get("full-path", "")
    package = archive.xml(rootfile)
    base = posixpath.dirname(rootfile)
    items = {
        item.get("id"): posixpath.normpath(posixpath.join(base, unquote(item.get("href", ""))))
        for item in package.iter("{*}item")
        if item.get("media-type") in _PAGES
    }
    order = [each.get("idref") for each in package.iter("{*}itemref")]
    names = [items[each] for each in order if each in items]
    if _locked(archive) & set(names):
        raise unreadable("file.drm", "The book is encrypted (DRM) and cannot be read.")
    names = list(dict.fromkeys(names))
    missing = [name for name in names if name not in archive.names]
    chapters = [html_text(archive.read(name)) for name in names if name in archive.names]
    chapters = [chapter for chapter in chapters if chapter.strip()]
    if not chapters:
        raise UnreadableError(NO_TEXT)
    title, author = (
        one_line(", ".join(found.text or "" for found in package.iter(f"{{*}}{each}")))
        for each in ("title", "creator")
    )
    if title:
        chapters[0] = f"{title}{f', by {author}' if author else ''}.\n\n{chapters[0]}"
    note = localizable(
        "file.note.chapters",
        "{missing} of {count} chapters are missing in the file.",
        missing=len(missing),
        count=len(names),
    )
    return chapters, note if missing else None


def _locked(archive: Archive) -> set[str]:
    """Names of encrypted entries; a book without DRM may still encrypt its fonts."""
    if _ENCRYPTION not in archive.names:
        return set()
    uris = archive.xml(_ENCRYPTION).xpath("//*[local-name()='CipherReference']/@URI")
    return {unquote(uri) for uri in uris}
