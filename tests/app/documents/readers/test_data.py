"""Calendars, address books and subtitles read as people would write them."""

from __future__ import annotations

import pytest

from app.documents.readers.data import recorded

CALENDAR = r"""BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Someone//
BEGIN:VEVENT
UID:1234@example.org
DTSTART;TZID="Europe/Berlin":20260314T183000
SUMMARY:Dinner with Carla
DESCRIPTION:Bring the blue folder and ask about the lease of the upper me
 adow.\nTable is under Ober.
LOCATION:Lindenhof\, Room 3
ATTENDEE;CN=Carla:mailto:carla@example.org
END:VEVENT
BEGIN:VTODO
SUMMARY:Pay rent
DUE;VALUE=DATE:20260401
END:VTODO
END:VCALENDAR
"""
PEOPLE = """BEGIN:VCARD
VERSION:3.0
N:Roth;Anna;;;
FN:Anna Roth
TEL;TYPE=CELL:+49 151 2207
item1.TEL:+49 30 11
ADR;TYPE=HOME:;;Gartenweg 4;Bern;;3000;
BDAY:19840506
PHOTO;ENCODING=b:AAAA
END:VCARD
"""
SPOKEN = """1
00:00:01,000 --> 00:00:04,000
The treasure <i>lies</i>

2
00:00:04,500 --> 00:00:06,000
behind the waterfall.

3
01:02:03,000 --> 01:02:05,000
Run!
"""


def test_an_event_is_a_record_that_names_it_first() -> None:
    assert (recorded(CALENDAR) or "").split("\n") == [
        "What: Dinner with Carla; Start: 2026-03-14 18:30; Place: Lindenhof, Room 3; "
        "With: carla@example.org",
        "What: Pay rent; Due: 2026-04-01",
        "",  # what is said of one does not divide the table
        "Dinner with Carla: Bring the blue folder and ask about the lease of the upper meadow. "
        "Table is under Ober.",
    ]


@pytest.mark.parametrize(
    ("start", "end", "read"),
    [
        ("20260704", "20260801", "Start: 2026-07-04; End: 2026-07-31"),
        ("20260704", "20260704", "Start: 2026-07-04; End: 2026-07-04"),
        ("00010101", "00010101", "Start: 0001-01-01; End: 0001-01-01"),
        (
            "20260512T120000Z",
            "20260512T123000Z",
            "Start: 2026-05-12 12:00 UTC; End: 2026-05-12 12:30 UTC",
        ),
        (
            "20260512T120000+0200",
            "20260512T200000-07:00",
            "Start: 2026-05-12 10:00 UTC; End: 2026-05-13 03:00 UTC",
        ),
        ("00010101T000000+0200", "soon", "Start: 00010101T000000+0200; End: soon"),
    ],
)
def test_whole_days_end_on_the_last_and_times_are_in_utc(start: str, end: str, read: str) -> None:
    event = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Skagen\n{}\nEND:VEVENT\nEND:VCALENDAR\n"
    assert recorded(event.format(f"DTSTART:{start}\nDTEND:{end}")) == f"What: Skagen; {read}"
    backwards = recorded(event.format(f"DTEND:{end}\nDTSTART:{start}"))
    assert backwards == f"What: Skagen; {'; '.join(reversed(read.split('; ')))}"


def test_a_person_has_all_that_was_entered() -> None:
    assert recorded(PEOPLE) == (
        "Name: Anna Roth; Phone: +49 151 2207, +49 30 11; Address: Gartenweg 4, Bern, 3000; "
        "Birthday: 1984-05-06"
    )


def test_a_sentence_over_several_cues_is_one() -> None:
    assert (recorded(SPOKEN) or "").split("\n") == [
        "00:01 The treasure lies behind the waterfall.",
        "01:02:03 Run!",
    ]
    assert recorded("The treasure lies\nbehind the waterfall.") is None
