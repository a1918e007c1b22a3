"""Text that programs write: CSV, JSON, calendars (iCalendar), address books (vCard), subtitles."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from statistics import mode
from typing import Any

from app.documents.readers.common import NESTED, UnreadableError, one_line
from app.documents.readers.grid import record
from app.documents.readers.paragraphs import ENDS, glued

_DELIMITERS = ",;\t|"
_SAID = re.compile(r"\A\ufeff?sep=(.)\r?\n")
_SAMPLE = 50
_FILLED = 0.8  # of the rows of a table, at least, have several cells


def csv_rows(text: str, *, named: bool) -> list[list[str]] | None:
    """The rows of a table of delimiter-separated values, or None if the text is not one.

    `named`: the file name says that it is one; otherwise commas in prose must not count as
    delimiters, which csv.Sniffer would take them for.
    """
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    if said := _SAID.match(text):  # in the first line, as Excel has it
        return _read(text[said.end() :], said[1])
    for delimiter in sorted(_DELIMITERS, key=lambda each: -text[:10_000].count(each)):
        sample = _read(text, delimiter, _SAMPLE)
        if not named and any(cell.startswith(" ") for row in sample for cell in row):
            continue
        widths = [len(row) for row in sample]
        if not named:
            if len(widths) > 2 and min(widths) == max(widths) >= (3 if delimiter == "," else 2):
                return _read(text, delimiter)
        elif wide := [width for width in widths if width > 1]:
            # Lines above the header are narrower, as in the exports of banks.
            table = widths[widths.index(mode(wide)) :]
            if sum(width > 1 for width in table) > _FILLED * len(table):
                return _read(text, delimiter)
    return None


def _read(text: str, delimiter: str, limit: int | None = None) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return list(islice(filter(any, reader), limit))


def json_value(text: str) -> Any:
    """The value of JSON, or the list of JSON Lines. Raises ValueError and UnreadableError."""
    try:
        try:
            return json.loads(text)
        except ValueError:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
    except RecursionError:
        raise UnreadableError(NESTED) from None


def json_lines(value: Any) -> list[str]:
    """A line per object, its path followed by its scalar values, and a line per plain list."""
    lines: list[str] = []
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        path, each = todo.pop()
        inner: list[tuple[str, Any]] = []
        if (text := _plain(each)) is not None:
            lines += record([(path or None, text)])
        elif isinstance(each, list):
            inner = [(path, item) for item in each]
        else:
            fields = {one_line(name): item for name, item in each.items()}
            pairs = [(name, text) for name, item in fields.items() if (text := _plain(item))]
            lines += record([(None, path), *pairs] if pairs else [])
            if pairs and each is not value:  # nested lines name this object
                path = f"{path} ({pairs[0][0]}: {pairs[0][1]})".strip()
            inner = [
                (f"{path}.{name}" if path else name, item)
                for name, item in fields.items()
                if _plain(item) is None
            ]
        todo += reversed(inner)
    return lines


def _plain(value: Any) -> str | None:
    """A scalar or a list of scalars as text; None for anything nested."""
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ", ".join(filter(None, map(_plain, value)))
    if isinstance(value, dict | list):
        return None if value else ""
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else json.dumps(value)


# Calendars, address books and subtitles.


_CARDS = re.compile(r"\s*BEGIN:V(?:CALENDAR|CARD)\r?\n", re.IGNORECASE)
_CUE = re.compile(r"(?:00:)?(\d\d:\d\d(?::\d\d)?)[.,]\d{3} --> [^\n]*\n")
_FOLDED = re.compile(r"\n[ \t]")
_PROPERTY = re.compile(r'(?:[\w-]+\.)?([A-Za-z-]+)(?:;(?:[^:;"]|"[^"]*")*)*:(.*)')
_ESCAPED = re.compile(r"\\([nN,;\\])")
# Properties that people enter, and what they are called; the rest is for programs.
_NAMES = {
    "SUMMARY": "What", "FN": "Name", "DTSTART": "Start", "DTEND": "End", "DUE": "Due",
    "RRULE": "Repeated", "LOCATION": "Place", "DESCRIPTION": "Description", "STATUS": "Status",
    "ATTENDEE": "With", "ORGANIZER": "Organizer", "TEL": "Phone", "EMAIL": "E-mail",
    "ADR": "Address", "ORG": "Organization", "TITLE": "Title", "BDAY": "Birthday", "URL": "Link",
    "NOTE": "Note", "NICKNAME": "Nickname",
}  # fmt: skip
_DATED = ("Start", "End", "Due", "Birthday")
_PROSE = ("Description", "Note")  # lines of their own, which say what they are about


def recorded(text: str) -> str | None:
    """The text of such a file as people would write it; None if it is none of these."""
    if _CARDS.match(text):
        return "\n".join(_cards(text))
    return "\n".join(_spoken(text)) if _CUE.search(text[:200]) else None


def _cards(text: str) -> list[str]:
    """The records of events, tasks and people, then the descriptions of each."""
    records: list[str] = []
    said: list[str] = []
    fields: dict[str, str] = {}
    for line in [*_FOLDED.sub("", text).split("\n"), "BEGIN:"]:
        if line.upper().startswith("BEGIN:"):
            if fields:
                with suppress(KeyError, ValueError, OverflowError):
                    last = str(date.fromisoformat(fields["End"]) - timedelta(days=1))
                    if last >= fields.get("Start", ""):  # else a program gave the last day itself
                        fields["End"] = last
                first = {name: fields[name] for name in ("What", "Name") if name in fields}
                title = next((f"{name}: " for name in first.values()), "")
                said += [f"{title}{fields.pop(name)}" for name in _PROSE if name in fields]
                records += record((first | fields).items())
            fields = {}
        elif found := _PROPERTY.fullmatch(line.strip()):
            if (name := _NAMES.get(found[1].upper())) is None:
                continue
            value = found[2].removeprefix("mailto:").removeprefix("tel:")
            if name in _DATED:
                value = _moment(value)
            elif found[1].upper() in ("ADR", "ORG"):
                value = ", ".join(filter(None, re.split(r"(?<!\\);", value)))
            value = one_line(_ESCAPED.sub(lambda e: " " if e[1] in "nN" else e[1], value))
            fields[name] = ", ".join(filter(None, (fields.get(name), value)))
    return [*records, *([""] if said else []), *said]


def _moment(value: str) -> str:
    """A day or a time as people write it; anything else stays."""
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(value)
        if "T" not in value:
            return str(moment.date())
        if moment.tzinfo:
            return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return f"{moment:%Y-%m-%d %H:%M}"
    return value


def _spoken(text: str) -> Iterator[str]:
    """One line per sentence, with the time at which it begins."""
    said = ""
    pieces = _CUE.split(text)
    for time, cue in zip(pieces[1::2], pieces[2::2], strict=True):
        # The text of a cue ends with the number of the next one.
        words = one_line(re.sub(r"<[^>]+>", "", re.sub(r"\n\s*\n\s*\d*\s*\Z", "", cue)))
        said = glued(said, words) if said and words else said or f"{time} {words}"
        if said[-1] in ENDS:
            yield said
            said = ""
    if said:
        yield said
