"""Decides what a column holds, from all of its cells: numbers of one notation, dates or words.

1.500 is one and a half in one file and fifteen hundred in another, 03/04 a day in March or in
April. The column's other cells tell, or the table's other columns; where nothing does, the column
is undecided, and nothing is computed from it.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from babel.numbers import list_currencies

from dragon.retrieval.names import month

_NUMBER = re.compile(
    r"(?P<open>\()?(?P<sign>[-−–+])?\s?(?P<before>[^\d\s(+−–-]{1,4})?\s?(?P<sign2>[-−–+])?"
    r"(?P<digits>\d[\d.,'’ ]*(?<! )|[.,]\d+)(?P<behind>[-−](?!\d))?"
    r"\s?(?P<unit>%|[^\W\d_]{1,12}[23]?|[^\w\s.,()-]{1,3})?(?P<close>\))?"
)
_GROUPED = re.compile(r"\d{1,3}(?:[ '’]\d{3})+(?:[.,]\d+)?|[^ '’]+")
_FIGURES = re.compile(r"(\d{1,4})([-./])(\d{1,2})\2(\d{1,4})(?:[T ](\d{1,2}):(\d\d).*)?")
_SPELT = re.compile(
    r"(?:\w{2,12},? )?(?:(\d{1,2})\.? ([^\W\d_]{3,12})\.?|([^\W\d_]{3,12})\.? (\d{1,2})),? (\d{4})"
)
_TIME = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)(?::[0-5]\d)?")
_MINUTES = 1440  # of a day
_LOOKED_AT = 40  # cells: a column without a number or date in them is one of words

# By unit, the base unit of what it measures, and how many of those it is.
_PREFIXES = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "c": -2, "d": -1, "m": -3, "μ": -6}
_UNITS = {
    f"{prefix}{unit}": (unit, Decimal(10) ** power)
    for unit in ("g", "m", "l", "B", "W", "Wh", "Hz", "V", "A", "Pa")
    for prefix, power in _PREFIXES.items()
} | {
    "s": ("s", Decimal(1)), "min": ("s", Decimal(60)), "h": ("s", Decimal(3600)),
    "t": ("g", Decimal(10**6)), "KB": ("B", Decimal(1000)),
}  # fmt: skip
_CODES = frozenset(list_currencies())


class Holds(StrEnum):
    """The kind of a column's cells."""

    WORDS = "words"
    NUMBERS = "numbers"
    DATES = "dates"
    UNDECIDED = "undecided"  # numbers or dates, but which is not certain


@dataclass(frozen=True)
class Column:
    """What a column holds: `values` of the cells that have one, later days being larger.

    Numbers are in `unit`, with the most `decimals` of any, and `point` before those. `why` says
    what keeps an undecided column, of dates if `dated`, from being computed with. `either`: its
    numbers are written alike whether their mark is one of thousands or of decimals. `marked`: a
    number has a mark.
    """

    holds: Holds
    values: tuple[Decimal | None, ...] = ()
    unit: str = ""
    decimals: int = 0
    point: str = "."
    why: str = ""
    dated: bool = False
    either: bool = False
    marked: bool = True

    @cached_property
    def days(self) -> tuple[datetime.date | None, ...]:
        """Its dates, without their times; nothing for a time of any day."""
        return tuple(
            datetime.date.fromordinal(int(value) // _MINUTES)
            if self.dated and value is not None and value >= _MINUTES
            else None
            for value in self.values
        )

    def number(self, text: str) -> Decimal | None:
        """A number as it is written in a question: in the column's notation, else in another.

        None if it is none, or may be in the column's only if it has more decimals than that.
        """
        if (written := _written(text)) is None:
            return None
        own = _value(written, self.point)
        other = _value(written, "," if self.point == "." else ".")
        if own is None or other in (None, own):
            return other if own is None else own
        return own if len(written.digits.partition(self.point)[2]) <= self.decimals else None

    def shown(self, value: Decimal, decimals: int) -> str:
        """A number as the column writes its own, with so many decimals at most."""
        places = Decimal(1).scaleb(-decimals)
        # A mark of thousands where the column has none could be taken for one of decimals.
        text = f"{value.quantize(places):{',' if self.marked else ''}f}"
        if "." in text and not self.either:
            text = text.rstrip("0").rstrip(".")
        if self.point == ",":
            text = text.translate({ord(","): ".", ord("."): ","})
        if self.unit == "%" or not self.unit:
            return f"{text}{self.unit}"
        alone = unicodedata.category(self.unit[0]) == "Sc"
        return f"{self.unit}{text}" if alone and self.point == "." else f"{text} {self.unit}"


_WORDS = Column(Holds.WORDS)
_THOUSANDTHS = 3
TWO_WAYS = "its numbers may have decimals or thousands behind the mark"
"""Why nothing is computed from numbers such as 1.500 if nothing tells what they are."""


@dataclass(frozen=True)
class _Written:
    """A number as it is written: its digits with their marks, its sign and its unit."""

    digits: str
    negative: bool
    unit: str
    apart: bool  # there is a space before the unit


def columns_of(cells: Sequence[Sequence[str]]) -> tuple[Column, ...]:
    """Decide what each column of a table holds, given the cells of each."""
    orders = [_orders(column) for column in cells]
    written = [  # 01.02.2000 is no number with thousands
        [] if each else _numbers(column) for column, each in zip(cells, orders, strict=True)
    ]
    point = _one({mark for column in written for w in column if w and (mark := _certain(w))})
    order = _one({each[0] for each in orders if len(each) == 1})
    by_dates = not point and bool(order)
    if by_dates:  # they tell where a table is from, too
        dotted = any(
            "." in cell for c, each in zip(cells, orders, strict=True) if each for cell in c
        )
        point = "," if dotted else "." if order == "mdy" else ""
    found = []
    for column, numbers, possible in zip(cells, written, orders, strict=True):
        if possible:
            found.append(_dates(column, [order] if order in possible else possible))
        else:
            found.append(_column(column, numbers, point, by_dates=by_dates))
    return tuple(found)


def _one(marks: set[str]) -> str:
    return next(iter(marks)) if len(marks) == 1 else ""


# Numbers.


def _numbers(cells: Sequence[str]) -> list[_Written | None]:
    """The numbers of a column; none if it holds anything else."""
    filled = [cell for cell in cells if cell]
    if not any(map(_written, filled[:_LOOKED_AT])):
        return []
    found = [_written(cell) if cell else None for cell in cells]
    others = (cell for cell, each in zip(cells, found, strict=True) if cell and not each)
    if sum(map(bool, found)) * 2 < len(filled) or any(any(map(str.isdigit, o)) for o in others):
        return []
    if any(re.fullmatch(r"0\d+", each.digits) for each in found if each):  # a code, a phone number
        return []
    return found


def _written(cell: str) -> _Written | None:
    found = _NUMBER.fullmatch(unicodedata.normalize("NFKC", cell).strip())
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    before, behind = found["before"] or "", found["unit"] or ""
    signs = f"{found['sign'] or ''}{found['sign2'] or ''}{found['behind'] or ''}"
    if len(signs) > 1 or (before and (behind or not _currency(before))):
        return None
    if behind and not (
        behind == "%" or behind[0].isalpha() or behind[0] in "°℃" or _currency(behind)
    ):
        return None
    if not _GROUPED.fullmatch(found["digits"]):
        return None
    digits = re.sub(r"[ '’]", "", found["digits"])
    negative = bool(found["open"]) or signs in {"-", "−", "–"}
    apart = bool(re.search(r"\d\s", cell))
    return _Written(digits, negative, before or behind, apart)


def _currency(mark: str) -> bool:
    """Whether it is that of a currency: €, US$, CHF."""
    return mark in _CODES or any(unicodedata.category(each) == "Sc" for each in mark)


def _column(
    cells: Sequence[str], written: Sequence[_Written | None], table_point: str, *, by_dates: bool
) -> Column:
    if not written:
        return _WORDS
    found = [each for each in written if each]
    either = False
    told = _point(found)
    marked = all(set(each.digits) & set(".,") for each in found)
    # Dates are no proof of the mark if it is before three figures in each number.
    if not told and by_dates and marked:
        table_point = ""
    if (point := told or table_point) not in (".", ","):
        either = not point and marked
        point = "," if "," in found[0].digits else "."
        if not either:
            return Column(Holds.UNDECIDED, why=TWO_WAYS)
    values = [_value(each, point) if each else None for each in written]
    if None in (value for value, each in zip(values, written, strict=True) if each):
        return _WORDS
    units = [each.unit if each else "" for each in written]
    named = sorted({each.unit for each in found}, key=lambda unit: (-units.count(unit), unit))
    if len(named) > 1:
        measured = {_UNITS[unit][0] for unit in named if unit in _UNITS}
        if len(measured) != 1 or not all(unit in _UNITS for unit in named):
            if not all(_currency(unit) or unit in _UNITS or not unit for unit in named):
                return _WORDS
            if not all(each.apart or _currency(each.unit) or not each.unit for each in found):
                return _WORDS  # 12A and 12B are seats
            which = ", ".join(unit or "none" for unit in named[:4])
            return Column(Holds.UNDECIDED, why=f"its numbers are of several units ({which})")
        one = _UNITS[named[0]][1]
        values = [
            None if value is None else value * _UNITS[unit][1] / one
            for value, unit in zip(values, units, strict=True)
        ]
    places = (-int(v.normalize().as_tuple().exponent) for v in values if v is not None)
    decimals = _THOUSANDTHS if either else max(0, *places)
    marked = any(set(each.digits) & {".", ","} for each in found)
    return Column(
        Holds.NUMBERS, tuple(values), named[0], decimals, point, either=either, marked=marked
    )


def _value(written: _Written, point: str) -> Decimal | None:
    """The number itself; None if this is not its notation."""
    whole, _, decimals = written.digits.partition(point)
    grouping = "," if point == "." else "."
    groups = whole.split(grouping)
    sizes = [len(group) for group in groups[1:]]
    indian = sizes[-1:] == [3] and set(sizes[:-1]) <= {2}  # 12,34,567
    leads = 0 < len(groups[0]) <= 3 and groups[0] != "0"
    thousands = not sizes or (leads and (set(sizes) == {3} or indian))
    if not thousands or not set(decimals) <= set("0123456789"):
        return None
    value = Decimal(f"{''.join(groups) or '0'}.{decimals or '0'}")
    return -value if written.negative else value


def _point(numbers: Sequence[_Written]) -> str:
    """The mark of decimals of a column; "" if its numbers do not tell it."""
    certain = {mark for each in numbers if (mark := _certain(each))}
    if certain:
        return _one(certain) or "?"
    marks = {mark for each in numbers for mark in each.digits if mark in ".,"}
    if not marks:
        return "."
    # The mark is always before three digits. If it was that of decimals, every number would have
    # it; if that of thousands, every number beyond a thousand.
    plain = [len(each.digits) for each in numbers if not set(each.digits) & {".", ","}]
    if len(marks) == 1 and plain and max(plain) <= 3:
        return "," if "." in marks else "."
    return "?" if len(marks) > 1 else ""


def _certain(number: _Written) -> str:
    """The mark of decimals if this number alone tells it, or ""."""
    return _one({point for point in ".," if _value(number, point) is not None})


# Dates and times.


def _orders(cells: Sequence[str]) -> list[str]:
    """The orders of day and month in which a column's cells are dates or times, if any."""
    filled = [cell for cell in cells if cell]
    forms = _FIGURES, _SPELT, _TIME
    if not any(form.fullmatch(cell) for cell in filled[:_LOOKED_AT] for form in forms):
        return []
    dates = [cell for cell in filled if any(map(str.isdigit, cell))]
    if len(dates) * 2 < len(filled):
        return []
    dotted = any(found[2] == "." for cell in dates if (found := _FIGURES.fullmatch(cell)))
    possible = ["dmy"] if dotted else ["dmy", "mdy"]
    return [each for each in possible if all(_day(c, each) is not None for c in dates)]


def _dates(cells: Sequence[str], orders: Sequence[str]) -> Column:
    first, *others = [tuple(_day(cell, order) for cell in cells) for order in orders]
    if any(other != first for other in others):
        why = "its dates may have the day or the month first"
        return Column(Holds.UNDECIDED, why=why, dated=True)
    return Column(Holds.DATES, first, dated=True)


def _day(cell: str, order: str) -> Decimal | None:
    """A day, a time, or both, in minutes; None for anything else."""
    minutes = 0
    if found := _TIME.fullmatch(cell):
        return Decimal(60 * int(found[1]) + int(found[2]))
    if found := _FIGURES.fullmatch(cell):
        one, two, three = (int(found[n]) for n in (1, 3, 4))
        iso = len(found[1]) == 4
        year, number, day = (one, two, three) if iso else (three, two, one)
        if order == "mdy" and not iso:
            number, day = day, number
        if len(found[1]) < 3 and len(found[4]) < 3:
            year += 2000 if year < 70 else 1900
        minutes = 60 * int(found[5] or 0) + int(found[6] or 0)
    elif found := _SPELT.fullmatch(cell):
        day, year = int(found[1] or found[4]), int(found[5])
        number = month(found[2] or found[3]) or 0
    else:
        return None
    try:
        return Decimal(_MINUTES * datetime.date(year, number, day).toordinal() + minutes)
    except ValueError:
        return None
