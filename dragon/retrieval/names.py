"""Finds what names one thing in a question: a date, number, version, code or phone number.

A passage about another ticket, room or day is like the right one except for that, and no score
tells them apart. So a name must match, in any of its spellings: 3 May 2026 is 2026-05-03,
ＡＢ１２３ is AB-123; but ticket 1042 is not ticket 10420, nor part 4711-C part 4711-A.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Literal, TypeVar

from babel import Locale
from babel.numbers import get_currency_name
from babel.units import UnknownUnitError, format_unit

from dragon.retrieval.lexical import content_words

# No two of these languages use one name for different months. Units are those of the first five.
_LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "nb", "fi", "pl")
_LENGTHS: tuple[Literal["long", "short", "narrow"], ...] = ("long", "short", "narrow")
_CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY")
_ENGLISH = {"ago", "out", "set"}  # months of other languages, where a year follows
# A number after one of these is a bound, which need not match.
_COMPARING = {
    "than", "over", "under", "above", "below", "between", "before", "after", "until", "least",
    "most", "within", "since", "als", "über", "unter", "ab", "seit", "bis", "vor", "nach",
    "zwischen", "mindestens", "höchstens",
}  # fmt: skip
_DASHES = dict.fromkeys(map(ord, "\u00ad\u200b\u2060")) | dict.fromkeys(
    map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-"
)

_DAY = r"(?P<{}>\d{{1,2}})(?:st|nd|rd|th|\.|er|º)?"
_FIGURES = re.compile(
    r"(?<![\w./-])(?:(?P<y>\d{4})(?P<s>[-./])(?P<m>\d{1,2})(?:(?P=s)(?P<d>\d{1,2}))?"
    r"|(?P<a>\d{1,2})(?P<s2>[-./])(?P<b>\d{1,2})(?P=s2)(?P<y2>\d{4}|\d\d))(?![\w/-]|\.\d)(?!-\d)"
)
_PHONE = re.compile(r"(?<![\w.])\+?\(?\d[\d ()/-]{5,}\d(?![\w.]\d)")
_TOKEN = re.compile(r"\w+(?:[-./:_']\w+|,\d{3}\b)*")
_CODE = re.compile(r"(?=.*[^\W\d])(?=(?:\D*\d){2})\S+|[A-Z]\d\w?")
_NO_CODE = re.compile(r"\d+(?:st|nd|rd|th|x|s|[^\W\d_]{1,2})|\d+-[^\W\d_]{3,}|(?i:[^\W\d_]+-?\d0s)")
_LABELLED = re.compile(
    r"([^\W\d_]{1,30})\.?[\s#:№-]{1,3}((?:\d[\w./-]*)(?:\s?(?:,|[&/–-]|and|or|to|und|oder|bis|et|ou|y|o|e)\s?\d[\w./-]*)*)"
)
_NUMBERED = re.compile(r"[^\W\d_]{4,30}\s\d{1,2}\b(?![.:]\d)")
_SHORT = 2  # digits, of numbers that many things have
_RANGE = re.compile(r"(\d{1,9})\s?-\s?(\d{1,9})")
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
H = TypeVar("H")
_LEAST_PHONE = 6  # the fewest digits that two spellings of one number share


@dataclass(frozen=True)
class Name:
    """A name as written in a question, and its `form`, which all spellings of a thing share."""

    text: str
    form: str
    label: str = ""  # the word before a number: the "room" of room 13


def names(question: str) -> list[Name]:
    """The names in a question, in order; an amount, such as 3 km, is none."""
    text = _plain(question)
    found: list[Name] = []
    bounded = re.search(r"\b(?:between|zwischen)\b", text, re.IGNORECASE) is not None
    for start, end, form in _dates(text):
        found.append(Name(text[start:end], form))
        text = text[:start] + " " * (end - start) + text[end:]
    for phone in _PHONE.finditer(text):
        if len(digits := _digits(phone[0])) > _LEAST_PHONE and re.search(
            r"[ ()/-]|^\+|^0", phone[0]
        ):
            found.append(Name(phone[0], f"phone {digits}"))
            text = text[: phone.start()] + " " * len(phone[0]) + text[phone.end() :]
    tokens = list(_TOKEN.finditer(text))
    for n, token in enumerate(tokens):
        if not any(map(str.isdigit, token[0])):
            continue
        before = tokens[n - 1][0] if n else ""
        following = tokens[n + 1][0] if n + 1 < len(tokens) else ""
        if any(map(str.isalpha, token[0])):
            if _CODE.fullmatch(token[0]) and not _NO_CODE.fullmatch(token[0]):
                found.append(Name(token[0], f"code {_code(token[0])}"))
        elif before.lower() in _COMPARING or bounded or _is_an_amount(text, token, following):
            continue
        elif _labels(before):
            found.append(Name(f"{before} {token[0]}", f"number {_code(token[0])}", _label(before)))
        elif _YEAR.fullmatch(token[0]):
            found.append(Name(token[0], f"year {token[0]}"))
        elif len(_digits(token[0])) > 2:
            found.append(Name(token[0], f"number {_code(token[0])}"))
    return found


def meeting(question: str, hits: Sequence[H], texts_of: Callable[[H], Sequence[str]]) -> list[H]:
    """The hits with most of the names in a question; none unless some hit has each name.

    The texts of a hit are a passage, then what it stands under. The first with a thing of a name's
    kind decides: a line under room 12 may name room 13.
    """
    named = names(question)
    if not named:
        return list(hits)
    plain = [[_plain(text) for text in texts_of(hit)] for hit in hits]
    met = [{name for name in named if _met(name, texts)} for texts in plain]
    if not set(named) <= set().union(*met):
        return []
    most = max(map(len, met))
    return [hit for hit, each in zip(hits, met, strict=True) if len(each) == most]


def _met(name: Name, texts: Sequence[str]) -> bool:
    return next((found for text in texts if (found := _has(name, text)) is not None), False)


def _has(name: Name, text: str) -> bool | None:
    """Whether a text has the name; None if it has nothing of its kind."""
    kind, _, form = name.form.partition(" ")
    dates = [other for _, _, other in _dates(text)]
    codes = _codes(text)
    match kind:
        case "date":
            whole = [other for other in dates if not other.endswith("-00")]
            return any(_same_day(form, other) for other in dates) or (False if whole else None)
        case "year":
            said = {other[5:9] for other in dates} | set(re.findall(r"(?<!\d)\d{4}(?!\d)", text))
            return form in said or None
        case "phone":
            numbers = [_digits(other[0]) for other in _PHONE.finditer(text)]
            return any(_same_phone(form, other) for other in numbers) or (
                False if numbers else None
            )
        case "code":
            kin = {_shape(code) for code in codes}
            return form in codes or (False if _shape(form) in kin else None)
    if name.label:
        spaced = re.escape(name.label + form)  # LH 454 for LH454, and qx 7741 b for QX-7741-B
        if len(name.label) < 4 and any(re.match(rf"{spaced}(?!\d)", code) for code in codes):
            return True
        numbered = [m[2] for m in _LABELLED.finditer(text) if _label(m[1]) == name.label]
        if numbered:
            return any(_holds(each, form) for each in numbered)
        if len(form) <= _SHORT:  # studio 1 is not year 1
            return form in _codes(_NUMBERED.sub(" ", text)) or None
    return form in codes or None


def spellings(question: str) -> list[str]:
    """The words of other spellings of the dates in a question, for a search by words."""
    found: list[str] = []
    for _, _, form in _dates(_plain(question)):
        _, month_, day = form[5:].split("-")
        if day == "00":
            continue
        words = [word for word, n in _months().items() if n == int(month_)]
        words += [month_, month_.lstrip("0")]
        for each in dict.fromkeys((day, day.lstrip("0"))):
            found += [spelt for word in words for spelt in (f"{each} {word}", f"{word} {each}")]
    return found


def month(word: str) -> int | None:
    """The number of a month by its name or abbreviation, in any of the languages."""
    return _months().get(word.lower().rstrip("."))


@cache
def _months() -> dict[str, int]:
    return {
        name.lower().rstrip("."): number
        for language in _LANGUAGES
        for context in Locale(language).months.values()
        for width in ("wide", "abbreviated")
        for number, name in context[width].items()
        if not name.isdigit()
    } | {"sept": 9}


@cache
def _spelt() -> re.Pattern[str]:
    """Dates with a month by name: "Monday 14 September" has no month but September."""
    name = "|".join(sorted(map(re.escape, _months()), key=len, reverse=True))
    return re.compile(
        rf"{_DAY.format('d')}\s(?:of\s|de\s)?(?P<m>{name})\.?(?:,?\s(?:de\s)?(?P<y>\d{{4}}))?(?!\w)"
        rf"|\b(?:(?P<m2>{name})\.?\s(?:the\s)?{_DAY.format('d2')}(?![\d.:]\d)(?:,?\s(?P<y2>\d{{4}}))?"
        rf"|(?P<m3>{name})\.?,?\s(?:de\s)?(?P<y3>\d{{4}}))(?!\w)",
        re.IGNORECASE,
    )


@cache
def _amounts() -> frozenset[str]:
    """The names of units and currencies, which may follow an amount."""
    found: set[str] = set()
    for language in _LANGUAGES[:5]:
        locale = Locale(language)
        for unit in locale.unit_display_names:
            for count, length in product((1, 2), _LENGTHS):
                with suppress(UnknownUnitError):
                    found.add(format_unit(count, str(unit), length, locale=locale).lower())
        for currency in _CURRENCIES:
            found.add(currency.lower())
            found |= {get_currency_name(currency, count, locale).lower() for count in (1, 2)}
    return frozenset(re.sub(r"[\d\s]", "", name).strip(".") for name in found) - {""}


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_DASHES)


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _code(token: str) -> str:
    """Letters and digits only, but with marks between digits kept: 3.1.2 is not 31.2."""
    joined = re.sub(r"(?<=\D)[-./:_'](?=\w)|(?<=\w)[-./:_'](?=\D)", "", token.lower())
    return re.sub(r"[-/:_',]", ".", joined)


def _codes(text: str) -> set[str]:
    return {_code(token[0]) for token in _TOKEN.finditer(text)}


def _holds(numbers: str, form: str) -> bool:
    if form in _codes(numbers):
        return True
    return form.isdigit() and any(int(a) <= int(form) <= int(b) for a, b in _RANGE.findall(numbers))


def _shape(code: str) -> str:
    """The letters and runs of digits of a code, which codes of one kind share."""
    return re.sub(r"[^\W\d_]", "a", re.sub(r"\d+", "9", code))


def _label(word: str) -> str:
    return word.lower().removesuffix("s")


def _labels(word: str) -> bool:
    """Whether a word before a number says what is numbered."""
    return len(word) > 1 and word.isalpha() and bool(content_words(word))


def _is_an_amount(text: str, token: re.Match[str], following: str) -> bool:
    marks = text[max(0, token.start() - 2) : token.start()] + text[token.end() : token.end() + 2]
    return following.lower() in _amounts() or any(
        unicodedata.category(each) == "Sc" or each == "%" for each in marks
    )


def _same_phone(one: str, other: str) -> bool:
    one, other = one.lstrip("0"), other.lstrip("0")
    return min(len(one), len(other)) >= _LEAST_PHONE and (
        one.endswith(other) or other.endswith(one)
    )


# Dates. A form is "date YYYY-MM-DD", with zeros for missing parts.


@lru_cache(maxsize=4096)
def _dates(text: str) -> tuple[tuple[int, int, str], ...]:
    """Where the dates in a text begin and end, and their forms."""
    dates: list[tuple[int, int, str]] = []
    if not any(map(str.isdigit, text)):
        return ()
    for found in _FIGURES.finditer(text):
        if found["y"]:
            orders = [(found["y"], found["m"], found["d"] or "0")]
        else:
            year = found["y2"] if len(found["y2"]) == 4 else f"20{found['y2']}"
            orders = [(year, found["b"], found["a"])]
            if found["s2"] == "/":
                orders.append((year, found["a"], found["b"]))
        for order in dict.fromkeys(orders):
            if form := _form(*map(int, order)):
                dates.append((found.start(), found.end(), form))
    for found in _spelt().finditer(text):
        word = (found["m"] or found["m2"] or found["m3"]).lower()
        year, day = found["y"] or found["y2"] or found["y3"], found["d"] or found["d2"]
        number = None if word in _ENGLISH and not year else month(word)
        if number and (form := _form(int(year or 0), number, int(day or 0))):
            dates.append((found.start(), found.end(), form))
    return tuple(dates)


def _form(year: int, month_: int, day: int) -> str:
    right = 1 <= month_ <= 12 and 0 <= day <= 31
    return f"date {year:04}-{month_:02}-{day:02}" if right else ""


def _same_day(one: str, other: str) -> bool:
    """Whether two forms do not conflict, and the second has a day if the first does."""
    pairs = list(zip(one.split("-"), other[5:].split("-"), strict=True))
    said = all(int(a) == int(b) or not int(a) or not int(b) for a, b in pairs)
    return said and (not int(pairs[2][0]) or bool(int(pairs[2][1])))
