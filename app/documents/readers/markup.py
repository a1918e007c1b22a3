"""HTML as visible text, with tables as records; EPUB, whose chapters are HTML; and Markdown.

Markdown stays as it is, except what is meant for programs: front matter becomes properties and its
title a heading, tables become one line per row, and wiki links read as they are shown.
"""

from __future__ import annotations

import datetime
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import yaml
from lxml import etree, html

from app.documents.readers.archive import Archive
from app.documents.readers.common import (
    LONGEST_PROPERTY,
    MOST_TAGS,
    NESTED,
    NO_TEXT,
    FileText,
    Properties,
    UnreadableError,
    damaged,
    decoded,
    one_line,
    tidy,
    unreadable,
)
from app.documents.readers.grid import Cell, table_lines
from dragon.localizable import localizable

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
_MARK = re.compile(r"\[.*\]|\(?\d+\)?|[*†‡§]+")  # of a note
_HEAD_BYTES = 4096
_MOST_DEPTH = 200
_TO_THE_END = 65_534  # rows: the most that HTML allows


def html_text(data: bytes) -> str:
    """The visible text of a page, its title first. Raises UnreadableError."""
    declared = _DECLARED.search(data[:_HEAD_BYTES])
    page = decoded(data, declared[1].decode() if declared else "")
    source = _DECLARATION.sub("", page.text, count=1) if page else ""
    parser = html.HTMLParser(remove_comments=True, remove_pis=True)
    try:
        root = html.document_fromstring(source, parser=parser)
    except etree.ParserError:
        raise UnreadableError(NO_TEXT) from None
    except etree.XMLSyntaxError:
        raise UnreadableError(damaged("HTML")) from None
    if any("depth" in error.message.lower() for error in parser.error_log):
        raise UnreadableError(NESTED)
    title = one_line(root.findtext(".//title") or "")
    text = tidy("".join(_pieces(root)))
    if title and title not in text[: len(title) + 8]:
        text = f"{title}\n\n{text}"
    return text


def _pieces(root: Any) -> Iterator[str]:
    walk = etree.iterwalk(root, events=("start", "end"))
    depth = 0
    for event, element in walk:
        tag = element.tag
        depth += 1 if event == "start" else -1
        if depth > _MOST_DEPTH:
            raise UnreadableError(NESTED)
        if event == "start":
            unseen = _UNDISPLAYED.search(element.get("style", "")) or _refers_to_a_note(element)
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


def _refers_to_a_note(element: Any) -> bool:
    """Whether it is the raised number of a note, which is no part of the word before it."""
    if element.tag != "a" or "#" not in element.get("href", ""):
        return False
    named = {element.get("role"), element.get("epub:type")} & {"doc-noteref", "noteref"}
    raised = element.find("sup") is not None or element.getparent().tag == "sup"
    return bool(named or (raised and _MARK.fullmatch("".join(element.itertext()).strip())))


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
    """The text with line breaks only in `pre`."""
    if element is not None and element.tag == "pre":
        return text
    return text.replace("\n", " ").replace("\r", " ").replace("\f", " ")


def _table(table: Any) -> list[list[Cell]]:
    """The rows of a table without those of tables within it, a caption before them."""
    rows: list[list[Cell]] = []
    for row in table.iter("tr"):
        if next(row.iterancestors("table")) is table:
            rows.append([])
            for cell in row.iterchildren("td", "th"):
                heads = cell.tag == "th" or row.getparent().tag == "thead"
                down, across = _span(cell, "rowspan"), _span(cell, "colspan")
                rows[-1].append(Cell("".join(_pieces(cell)), down, across, heads))
    caption = table.findtext("caption")
    return [[Cell(caption)], *rows] if caption and not rows else rows


def _is_for_layout(table: Any) -> bool:
    """Whether it is for layout: it has tables in it, and no header cells."""
    named = (next(cell.iterancestors("table")) is table for cell in table.iter("th"))
    return table.find(".//table") is not None and not any(named)


def _span(cell: Any, name: str) -> int:
    said = cell.get(name, "")[:5]
    return (int(said) or _TO_THE_END) if said.isdecimal() else 1


def epub_text(archive: Archive) -> FileText:
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
    order = (items.get(each.get("idref")) for each in package.iter("{*}itemref"))
    names = list(dict.fromkeys(filter(None, order)))
    # A book without DRM may still encrypt its fonts.
    locked = "//*[local-name()='CipherReference']/@URI"
    uris = archive.xml(_ENCRYPTION).xpath(locked) if _ENCRYPTION in archive.names else ()
    if {unquote(uri) for uri in uris} & set(names):
        raise unreadable("file.drm", "The book is encrypted (DRM) and cannot be read.")
    missing = [name for name in names if name not in archive.names]
    texts = (html_text(archive.read(name)) for name in names if name in archive.names)
    chapters = list(filter(str.strip, texts))
    if not chapters:
        raise UnreadableError(NO_TEXT)
    title, author = (
        one_line(", ".join(found.text or "" for found in package.iter(f"{{*}}{each}")))
        for each in ("title", "creator")
    )
    if title:
        chapters[0] = f"{title}{f', by {author}' if author else ''}.\n\n{chapters[0]}"
    lacks = "{missing} of {count} chapters are missing in the file."
    note = localizable("file.note.chapters", lacks, missing=len(missing), count=len(names))
    return FileText(chapters, note if missing else None)


# Markdown.


_CODE = re.compile(r"^([ \t]*(?:```|~~~).*?(?:\n[ \t]*(?:```|~~~)|\Z))", re.MULTILINE | re.DOTALL)
_RULE = re.compile(r"[ \t]*\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*")
_ROW = r"[ \t]*\|.*\|[ \t]*"
_TABLE = re.compile(rf"^{_ROW}\n{_RULE.pattern}(?:\n{_ROW})*$", re.MULTILINE)
_BORDER = re.compile(r"(?<!\\)\|")
_FRONT = re.compile(r"---[ \t]*\n(.{0,65536}?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"\s*# ")
# Code, which is left alone, or a link [[note#heading|alias]]; a ! before it embeds the note.
_LINK = re.compile(
    r"(?P<code>(?P<ticks>`+)[^`].*?(?P=ticks))"
    r"|!?\[\[(?=\S)(?P<note>[^\[\]|#\\]*)(?:#(?P<part>[^\[\]|\\]*))?(?:\\?\|(?P<alias>[^\[\]]*))?\]\]"
)


def markdown_text(text: str) -> str:
    """The text, each row of a table with the names of its columns."""
    parts = _CODE.split(text)
    for n in range(0, len(parts), 2):  # between blocks of code
        lines = parts[n].split("\n")
        linked = (_LINK.sub(_shown, line) if "[[" in line else line for line in lines)
        parts[n] = _TABLE.sub(_records, "\n".join(linked))
    return "".join(parts)


def _records(table: re.Match[str]) -> str:
    rows = (row.strip() for row in table[0].split("\n") if not _RULE.fullmatch(row))
    cells = ([each.strip() for each in _BORDER.split(row)[1:-1]] for row in rows)
    return "\n".join(table_lines([[each.replace("\\|", "|") for each in row] for row in cells]))


def without_front_matter(text: str) -> tuple[str, Properties]:
    """The text after YAML front matter, under its title as a heading; and its properties."""
    said = None
    if found := _FRONT.match(text):
        with suppress(yaml.YAMLError, ValueError):
            said = yaml.safe_load(found[1])
    if found is None or not isinstance(said, dict):
        return text, Properties()
    title, date = _words(said.get("title")), _words(said.get("date", said.get("created")))
    tags = said.get("tags", said.get("tag"))
    tags = tags.replace(",", " ").split() if isinstance(tags, str) else tags
    named = [_words(tag) for tag in tags[:MOST_TAGS]] if isinstance(tags, list) else []
    distinct = dict.fromkeys(tag.lstrip("#") for tag in named if tag)
    body = text[found.end() :].lstrip("\n")
    if title and not _TITLE.match(body):
        body = f"# {title}\n\n{body}"
    return body, Properties(title, date, tuple(distinct))


def _words(value: object) -> str | None:
    """A plain value as text; None for a nested or empty one."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str | int | float):
        return one_line(str(value))[:LONGEST_PROPERTY] or None
    return None


def _shown(link: re.Match[str]) -> str:
    if link["code"]:
        return link["code"]
    name = link["note"].rpartition("/")[2].strip()
    part = (link["part"] or "").rpartition("#")[2].strip()
    if part.startswith("^"):  # a block, which has no name to read
        part = ""
    return (link["alias"] or "").strip() or ": ".join(filter(None, (name, part))) or link[0]
