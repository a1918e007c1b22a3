"""The text of Markdown files as it stands, but for what is there for programs.

Front matter becomes properties, its title a heading; tables become a line a row; wiki links read as
they are shown.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping

import yaml

from app.documents.readers.common import LONGEST_PROPERTY, NOTHING, Properties, one_line
from app.documents.readers.grid import table_lines

_ROW = re.compile(r"\s*\|.*\|\s*")
_RULE = re.compile(r"\s*\|(?:\s*:?-+:?\s*\|)+\s*")
_BORDER = re.compile(r"(?<!\\)\|")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_FRONT = re.compile(r"---[ \t]*\n(.{0,65536}?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_HEADING = re.compile(r"\s*# ")
_MOST_TAGS = 50
# Code, which is left alone, or [[note#heading|alias]], before which ! shows what is linked.
_LINK = re.compile(
    r"(?P<code>(?P<ticks>`+)[^`].*?(?P=ticks))"
    r"|!?\[\[(?=\S)(?P<note>[^\[\]|#\\]*)(?:#(?P<part>[^\[\]|\\]*))?(?:\\?\|(?P<alias>[^\[\]]*))?\]\]"
)


def markdown_text(text: str) -> str:
    """The text, each row of a table with its columns' names."""
    return "\n".join(_lines(text.split("\n")))


def without_front_matter(text: str) -> tuple[str, Properties]:
    """The text behind YAML front matter, under its title as a heading; and what that says."""
    found = _FRONT.match(text)
    if found is None:
        return text, NOTHING
    try:
        said = yaml.safe_load(found[1])
    except (yaml.YAMLError, ValueError):
        return text, NOTHING
    if not isinstance(said, dict):
        return text, NOTHING
    properties, body = _properties(said), text[found.end() :].lstrip("\n")
    if properties.title and not _HEADING.match(body):
        body = f"# {properties.title}\n\n{body}"
    return body, properties


def _properties(said: Mapping[object, object]) -> Properties:
    """What the keys of front matter say, whatever stands under them."""
    tags = said.get("tags", said.get("tag"))
    each = tags.replace(",", " ").split() if isinstance(tags, str) else tags
    named = [_words(tag) for tag in each[:_MOST_TAGS]] if isinstance(each, list) else []
    return Properties(
        title=_words(said.get("title")),
        date=_words(said.get("date", said.get("created"))),
        tags=tuple(dict.fromkeys(tag.lstrip("#") for tag in named if tag)),
    )


def _words(value: object) -> str | None:
    """A plain value as text; None for what is nested, or empty."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str | int | float):
        return one_line(str(value))[:LONGEST_PROPERTY] or None
    return None


def _lines(lines: list[str]) -> Iterator[str]:
    at, code = 0, False
    while at < len(lines):
        code ^= bool(_FENCE.match(lines[at]))
        end = at if code else _end_of_table(lines, at)
        if end > at:
            rows = [_cells(line) for line in lines[at:end] if not _RULE.fullmatch(line)]
            yield from table_lines(rows)
            at = end
        else:
            yield lines[at] if code else _linked(lines[at])
            at += 1


def _linked(line: str) -> str:
    """A line with its links as they are read."""
    return _LINK.sub(_shown, line) if "[[" in line else line


def _shown(link: re.Match[str]) -> str:
    if link["code"]:
        return link["code"]
    name = link["note"].rpartition("/")[2].strip()
    part = (link["part"] or "").rpartition("#")[2].strip()
    if part.startswith("^"):  # a block, which has no name to read
        part = ""
    return (link["alias"] or "").strip() or ": ".join(filter(None, (name, part))) or link[0]


def _end_of_table(lines: list[str], start: int) -> int:
    """Where the table that begins at a line ends; the same line if none begins there."""
    if not (_ROW.fullmatch(lines[start]) and start + 1 < len(lines)):
        return start
    if not _RULE.fullmatch(lines[start + 1]):
        return start
    end = start + 2
    while end < len(lines) and _ROW.fullmatch(lines[end]):
        end += 1
    return end


def _cells(line: str) -> list[str]:
    parts = _BORDER.split(_linked(line.strip()))[1:-1]
    return [part.strip().replace("\\|", "|") for part in parts]
