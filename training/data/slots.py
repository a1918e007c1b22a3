"""Fills slots: names, places and everyday things from word lists, the rest from ``numbers``."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from training.data import numbers
from training.data.grammar import Value
from training.data.names import coined, past_tense

_NAMED = ("battle", "war", "treaty", "empire")
_GENERIC = (
    "fullname", "city", "num", "code", "date", "year", "price", "colours", "time", "invented",
    "phone", "country", "person", "title", "distance", "bignum", "materials", "weekday", "percent",
    "duration", "adj", "simple_noun", "length", "mass", "compound", "temp", "pin", "org",
)  # fmt: skip
_SMALL_WORDS = ("of", "and", "for")
Maker = Callable[[random.Random], Value]


def cased(words: str) -> str:
    """A title in title case."""
    return " ".join(w if w in _SMALL_WORDS else w[:1].upper() + w[1:] for w in words.split())


class SlotFiller:
    """Makes a value for a slot by the slot's kind; other kinds are word lists."""

    def __init__(self, lists: Mapping[str, list[str]]) -> None:
        self.lists = lists

    def make(self, slot: str, rng: random.Random) -> Value:
        """A value for a slot such as ``city2``."""
        kind = slot.rstrip("0123456789")
        maker: Maker | None = getattr(self, f"_{kind}", None) or getattr(numbers, kind, None)
        if maker is not None:
            return maker(rng)
        return Value(self._name(kind, rng, 0.4 if kind in _NAMED else 0.0))

    def _pick(self, name: str, rng: random.Random) -> str:
        return rng.choice(self.lists[name])

    def _name(self, name: str, rng: random.Random, share: float) -> str:
        """An entry of a list or, for this share of the calls, an invented name."""
        return coined(rng) if rng.random() < share else self._pick(name, rng)

    def _gval(self, rng: random.Random) -> Value:
        return self.make(rng.choice(_GENERIC), rng)

    def _person(self, rng: random.Random) -> Value:
        return Value(self._name("first", rng, 0.2))

    def _surname(self, rng: random.Random) -> Value:
        return Value(self._name("last", rng, 0.3))

    def _fullname(self, rng: random.Random) -> Value:
        first, last = self._name("first", rng, 0.15), self._name("last", rng, 0.3)
        if rng.random() < 0.07:
            first = f"{first} {rng.choice(numbers.UPPER)}."
        full = f"{first} {last}"
        return Value(full, (full, full, full, last))

    def _who(self, rng: random.Random) -> Value:
        roll = rng.random()
        if roll < 0.4:
            return self._person(rng)
        relation = self._pick("relation", rng)
        my = rng.choice(("my", "my", "our"))
        if roll < 0.6:
            name = self._person(rng).text
            text = f"{my} {relation} {name}"
            return Value(text, (text, name, f"{my} {relation}", f"my {relation}"))
        if roll < 0.75:
            family = self._pick("family", rng)
            return Value(family, (family, f"my {family.lower()}", family.lower()))
        text = f"{my} {relation}"
        return Value(text, (text, f"my {relation}", f"the {relation}"))

    def _doctor(self, rng: random.Random) -> Value:
        last = self._surname(rng).text
        title = rng.choice(("Dr", "Dr", "Dr.", "Mr", "Mrs", "Ms", "Professor"))
        return Value(f"{title} {last}", (f"{title} {last}", f"{title} {last}", last))

    def _city(self, rng: random.Random) -> Value:
        roll = rng.random()
        if roll < 0.65:
            return Value(self._pick("cities", rng))
        if roll < 0.72:
            prefix = rng.choice(("Port", "San", "New", "Saint", "El", "Fort", "Santa", "North"))
            return Value(f"{prefix} {coined(rng)}")
        return Value(coined(rng))

    def _country(self, rng: random.Random) -> Value:
        return Value(self._name("countries", rng, 0.12))

    def _code(self, rng: random.Random) -> Value:
        number = numbers.digits(rng, rng.randint(2, 5))
        block = numbers.letters(rng, rng.randint(1, 3))
        word, other = self._pick("simple_noun", rng), self._pick("simple_noun", rng)
        mixed = "abcdefghjkmnpqrstuvwxyz23456789"
        forms = (
            f"{block}-{number}", f"{block}{number}", f"{word}-{number}", f"{number}-{block}",
            f"{word.capitalize()}{number}", f"{word}{other}{number}", f"{word}_{number}!",
            f"{block}-{number}-{numbers.letters(rng, 1)}{rng.randint(1, 9)}",
            f"{word.capitalize()}-{coined(rng)}-{number}", f"{coined(rng)}{number}",
            f"{word}-{number}-{other}", f"{block} {number} {number[::-1]}",
            "".join(rng.choice(mixed) for _ in range(rng.randint(6, 9))),
        )  # fmt: skip
        return Value(rng.choice(forms))

    def _email(self, rng: random.Random) -> Value:
        name, host = coined(rng).lower(), coined(rng).lower()
        end = rng.choice(("com", "org", "net", "de", "io", "example"))
        return Value(f"{name}{rng.choice(('', '.' + coined(rng).lower()))}@{host}.{end}")

    def _url(self, rng: random.Random) -> Value:
        return Value(coined(rng).lower() + rng.choice((".com", ".org", ".net", ".io/home")))

    def _address(self, rng: random.Random) -> Value:
        street = rng.choice((coined(rng), self._pick("last", rng), self._pick("street", rng)))
        kind = rng.choice(("Street", "Road", "Lane", "Avenue", "Square", "Close", "Way", "Drive"))
        number = rng.randint(1, 240)
        lane = street + rng.choice(("straat", "strasse", "gasse", "weg"))
        town = f", {self._city(rng).text}" if rng.random() < 0.3 else ""
        place = f"{number} {street} {kind}"
        return Value(rng.choice((place, place, f"{lane} {number}")) + town)

    def _place(self, rng: random.Random) -> Value:
        return self._ours(self._pick("places", rng), rng)

    def _thing(self, rng: random.Random) -> Value:
        return self._ours(self._pick("things", rng), rng)

    @staticmethod
    def _ours(noun: str, rng: random.Random) -> Value:
        article = rng.choice(("the", "the", "our", "my"))
        return Value(f"{article} {noun}", (f"the {noun}", f"{article} {noun}", f"my {noun}"))

    def _room(self, rng: random.Random) -> Value:
        return Value(f"the {self._pick('rooms', rng)}")

    def _my(self, rng: random.Random) -> Value:
        return Value(rng.choice(("my", "our", "the")), ("my", "our", "the"))

    def _verb(self, rng: random.Random) -> Value:
        base = self._pick("verbs" if rng.random() < 0.6 else "irregular", rng)
        past, part = past_tense(base)
        return Value(past, (), {"past": past, "base": base.split("/")[0], "part": part})

    def _invented(self, rng: random.Random) -> Value:
        return Value(coined(rng))

    def _brand(self, rng: random.Random) -> Value:
        return Value(coined(rng) + rng.choice(("", "", f" {rng.randint(2, 900)}", " Pro", " Max")))

    def _company(self, rng: random.Random) -> Value:
        name = rng.choice((coined(rng), self._pick("last", rng)))
        ends = ("", "Ltd", "& Sons", "Energy", "Insurance", "Motors", "Group", "Bank", "Labs")
        return Value(f"{name} {rng.choice(ends)}".strip())

    def _org(self, rng: random.Random) -> Value:
        kind = rng.choice(("University", "Museum", "Institute", "Orchestra", "Society", "Academy"))
        base = rng.choice((coined(rng), self._pick("cities", rng)))
        return Value(rng.choice((f"the {base} {kind}", f"the {kind} of {base}")))

    def _title(self, rng: random.Random) -> Value:
        noun, other = self._pick("simple_noun", rng), self._pick("simple_noun", rng)
        forms = (
            f"The {noun} of {coined(rng)}", f"The {self._pick('adj', rng)} {noun}",
            f"{noun} and {other}", f"A {noun} for {self._pick('first', rng)}",
            f"The {noun}'s {other}",
        )  # fmt: skip
        text = cased(rng.choice(forms))
        return Value(f'"{text}"' if rng.random() < 0.15 else text)

    def _river(self, rng: random.Random) -> Value:
        name = self._name("rivers", rng, 0.4)
        forms = (f"the {name}", f"the {name} River", f"the River {name}", f"the {name}")
        text = rng.choice(forms)
        return Value(text, (text, f"the {name}"))

    def _mountain(self, rng: random.Random) -> Value:
        name = self._name("last", rng, 0.7)
        return Value(rng.choice((f"Mount {name}", f"Mount {name}", f"{name} Peak", f"Mt {name}")))

    def _planet(self, rng: random.Random) -> Value:
        return Value(self._name("planets", rng, 0.35))

    def _element(self, rng: random.Random) -> Value:
        if rng.random() < 0.2:
            return Value(coined(rng).lower() + "ium")
        return Value(self._pick("elements", rng))

    def _compound(self, rng: random.Random) -> Value:
        return Value(self._pick("adj", rng) + " " + self._pick("simple_noun", rng))

    def _animal(self, rng: random.Random) -> Value:
        name = self._pick("animals", rng)
        if rng.random() < 0.25:
            kinds = ("striped", "giant", "dwarf", "northern", "red", "marsh", "grey", coined(rng))
            name = f"{rng.choice(kinds)} {name}"
        return Value(f"the {name}", (f"the {name}", f"a {name}"))

    def _pron(self, rng: random.Random) -> Value:
        sub, pos = rng.choice((("she", "her"), ("he", "his")))
        return Value(sub, (), {"sub": sub, "pos": pos})


def read_lists(path: Path) -> dict[str, list[str]]:
    """Word lists: a line ``name: entry, entry, ...`` each."""
    lists: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if ":" in line:
            name, _, entries = line.partition(":")
            lists[name.strip()] = [entry.strip() for entry in entries.split(",") if entry.strip()]
    return lists
