"""Calendars (iCalendar), address books (vCard) and subtitles, as people would write them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.documents.readers.common import one_line
from app.documents.readers.grid import record
from app.documents.readers.paragraphs import ENDS, glued

_CARDS = re.compile(r"\s*BEGIN:V(?:CALENDAR|CARD)\r?\n", re.IGNORECASE)
_CUE = re.compile(r"(?:00:)?(\d\d:\d\d(?::\d\d)?)[.,]\d{3} --> [^\n]*\n")
_FOLDED = re.compile(r"\n[ \t]")
_PROPERTY = re.compile(r'(?:[\w-]+\.)?([A-Za-z-]+)(?:;(?:[^:;"]|"[^"]*")*)*:(.*)')
_ESCAPED = re.compile(r"\\([nN,;\\])")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\dZ?)?")
# What a person has entered, as it is called; the rest is for programs.
_NAMES = {
    "SUMMARY": "What", "FN": "Name", "DTSTART": "Start", "DTEND": "End", "DUE": "Due",
    "RRULE": "Repeated", "LOCATION": "Place", "DESCRIPTION": "Description", "STATUS": "Status",
    "ATTENDEE": "With", "ORGANIZER": "Organizer", "TEL": "Phone", "EMAIL": "E-mail",
    "ADR": "Address", "ORG": "Organization", "TITLE": "Title", "BDAY": "Birthday", "URL": "Link",
    "NOTE": "Note", "NICKNAME": "Nickname",
}  # fmt: skip
_PROSE = ("Description", "Note")  # lines of their own, which say what they are about


def recorded(text: str) -> str | None:
    """The text of such a file as people would write it; None if it is none."""
    if _CARDS.match(text):
        return "\n".join(line for card in _cards(text) for line in card)
    if _CUE.search(text[:200]):
        return "\n".join(_spoken(text))
    return None


def _cards(text: str) -> Iterator[list[str]]:
    """The lines of each event, task or person."""
    fields: dict[str, str] = {}
    for line in [*_FOLDED.sub("", text).split("\n"), "BEGIN:"]:
        if line.upper().startswith("BEGIN:"):
            if fields:
                first = {name: fields[name] for name in ("What", "Name") if name in fields}
                prose = [fields.pop(name) for name in _PROSE if name in fields]
                title = next((f"{name}: " for name in first.values()), "")
                yield [*record((first | fields).items()), *(f"{title}{each}" for each in prose)]
            fields = {}
        elif found := _PROPERTY.fullmatch(line.strip()):
            if (name := _NAMES.get(found[1].upper())) is None:
                continue
            value = found[2].removeprefix("mailto:").removeprefix("tel:")
            if day := _DATE.fullmatch(value):
                value = "-".join(day.groups()[:3]) + (f" {day[4]}:{day[5]}" if day[4] else "")
            elif found[1].upper() in ("ADR", "ORG"):
                value = ", ".join(filter(None, re.split(r"(?<!\\);", value)))
            value = one_line(_ESCAPED.sub(lambda e: " " if e[1] in "nN" else e[1], value))
            fields[name] = ", ".join(filter(None, (fields.get(name), value)))


def _spoken(text: str) -> Iterator[str]:
    """A line a sentence, with the time at which it begins."""
    said = ""
    pieces = _CUE.split(text)
    for time, cue in zip(pieces[1::2], pieces[2::2], strict=True):
        # The number of the cue that follows is at the end.
        words = one_line(re.sub(r"<[^>]+>", "", re.sub(r"\n\s*\n\s*\d*\s*\Z", "", cue)))
        said = glued(said, words) if said and words else said or f"{time} {words}"
        if said[-1] in ENDS:
            yield said
            said = ""
    if said:
        yield said
