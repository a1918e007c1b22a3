"""Finds the days that a question is about: in March, since 3 May 2024, between 3 and 10 May."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Collection
from dataclasses import dataclass

from dragon.retrieval.names import month

_DAY = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_MONTH = r"[^\W\d_]{3,12}\.?"
_YEAR = r"(?:19|20)\d\d"
_DATE = (
    rf"(?:{_YEAR}-\d\d(?:-\d\d)?|\d{{1,2}}\.\d{{1,2}}\.{_YEAR}"
    rf"|(?:the )?{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?"
    rf"|{_MONTH} (?:the )?{_DAY}(?!\d)(?:,? {_YEAR})?"
    rf"|{_MONTH}(?: {_YEAR})?|{_YEAR})(?![\w/-]|\.\d)"
)
_BOTH = re.compile(
    rf"\b(?:between|from) (?P<first>{_DATE}|(?:the )?{_DAY})"
    rf" (?:and|to|until|till) (?P<last>{_DATE})",
    re.IGNORECASE,
)
_ONE = re.compile(
    rf"\b(?P<how>since|from|after|before|until|till|up to|in|on|during|for|of"
    rf"|is|are|was|were) (?:[^\W\d_]+day,? )?(?P<date>{_DATE})",
    re.IGNORECASE,
)
_PARTS = re.compile(rf"(?P<y>{_YEAR})-(?P<m>\d\d)(?:-(?P<d>\d\d))?")
_DOTTED = re.compile(rf"(?P<d>\d{{1,2}})\.(?P<m>\d{{1,2}})\.(?P<y>{_YEAR})")
_ONWARDS = re.compile(r" on(?:wards?)?\b", re.IGNORECASE)
_TO = {"until", "till", "up to"}


@dataclass(frozen=True)
class _Date:
    """A day, a month or a year, of which some parts may be unsaid."""

    year: int | None
    month: int | None
    day: int | None

    def bounds(self, year: int) -> tuple[datetime.date, datetime.date]:
        """Its first and its last day in a year, unless it has its own. Raises ValueError."""
        year = self.year or year
        last = self.month or 12
        end = self.day or calendar.monthrange(year, last)[1]
        return datetime.date(year, self.month or 1, self.day or 1), datetime.date(year, last, end)


Within = tuple[datetime.date | None, datetime.date | None]
"""The first day and the one after the last; None where it is open."""


@dataclass(frozen=True)
class Period:
    """Days from one date to another as a question has them at `start` to `end`."""

    first: _Date | None
    last: _Date | None
    start: int
    end: int
    outside: bool = False  # its only date is left out itself
    loose: bool = False  # what is dated may be somebody of a month's name: "of May"

    def days(self, held: Collection[datetime.date]) -> Within | None:
        """Which days these are, if a year unsaid is that of the days `held`.

        None if these are of several years, or there is no such day.
        """
        said = [each for each in (self.first, self.last) if each]
        if all(each.year for each in said):
            return self._in(0)
        within = [found for year in {day.year for day in held} if (found := self._in(year))]
        if len(said) > 1:  # March, if only one of the years has days in it
            within = [(a, b) for a, b in within if a and b and any(a <= day < b for day in held)]
        return within[0] if len(within) == 1 else None

    def _in(self, year: int) -> Within | None:
        following = datetime.timedelta(days=1)
        first = end = None
        try:
            if self.first:
                day, last = self.first.bounds(year)
                first = last + following if self.outside else day
            if self.last:
                day, last = self.last.bounds(year)
                end = day if self.outside else last + following
        except (ValueError, OverflowError):
            return None
        return None if first and end and first >= end else (first, end)


def period_in(question: str) -> Period | None:
    """The period that a question names; None if it names none or several."""
    if both := _BOTH.search(question):
        last = _date(both["last"])
        first = _date(both["first"]) or _of_the_month(both["first"], last)
        if first is None or last is None:
            return None
        first = _Date(first.year or last.year, first.month, first.day)
        return Period(first, last, *both.span())
    found = [(each, date) for each in _ONE.finditer(question) if (date := _date(each["date"]))]
    if len(found) != 1:
        return None
    ((one, date),) = found
    how = one["how"].lower()
    if how in ("after", "since") or _ONWARDS.match(question, one.end()):
        return Period(date, None, *one.span(), outside=how == "after")
    if how == "before" or how in _TO:
        return Period(None, date, *one.span(), outside=how == "before")
    return Period(date, date, *one.span(), loose=how not in ("in", "during", "from"))


def _date(text: str) -> _Date | None:
    if found := _PARTS.fullmatch(text) or _DOTTED.fullmatch(text):
        day = found["d"]
        return _Date(int(found["y"]), int(found["m"]), int(day) if day else None)
    numbers = re.findall(r"\d+", text)
    years = [int(each) for each in numbers if len(each) == 4]
    days = [int(each) for each in numbers if len(each) < 3]
    named = [each for word in re.findall(r"[^\W\d_]{3,}", text) if (each := month(word))]
    others = set(re.findall(r"[^\W\d_]{3,}", text.lower())) - {"the"}
    if len(others) != len(named) or not (named or years) or (days and not named):
        return None
    year, number = years[0] if years else None, named[0] if named else None
    return _Date(year, number, days[0] if days else None)


def _of_the_month(text: str, last: _Date | None) -> _Date | None:
    """The 3 of "between 3 and 10 May"."""
    found = re.search(r"\d+", text)
    if found is None or last is None or last.day is None:
        return None
    return _Date(last.year, last.month, int(found[0]))
