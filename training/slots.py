"""Random values for slots: names, places, codes, dates, amounts and everyday things."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from training.grammar import Value

_ONSETS = "b br c ch d dr f g gr h j k kl l m n p r s sh st t tr v w y z".split()
_VOWELS = "a a e e i o o u ai ea ee ia oo ou".split()
_CODAS = ["", "", "", "n", "r", "l", "s", "m", "k", "nd", "rt", "x", "th"]
_UPPER = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = (
    "January February March April May June July August September October November December".split()
)
_NAMED = ("battle", "war", "treaty", "empire")
_NUMBERS = "two three four five six seven eight nine ten eleven twelve fifteen twenty".split()

_IRREGULAR = {
    "build": "built", "buy": "bought", "sell": "sold", "find": "found", "write": "wrote",
    "draw": "drew", "win": "won", "lose": "lost", "steal": "stole", "hide": "hid", "bring": "brought",
    "leave": "left", "make": "made", "teach": "taught", "lend": "lent", "catch": "caught",
    "break": "broke", "choose": "chose", "grow": "grew", "keep": "kept", "send": "sent",
    "throw": "threw", "sing": "sang", "give": "gave", "see": "saw", "take": "took", "lead": "led",
}  # fmt: skip
_REGULAR = (
    "paint repair discover rescue invent design visit clean borrow collect carry order open close "
    "measure test publish record translate photograph study guard plant film cook bake test burn "
    "destroy restore sign finish start abandon describe explore map found launch praise reject"
).split()


_PARTICIPLES = {
    "write": "written", "draw": "drawn", "steal": "stolen", "hide": "hidden", "break": "broken",
    "choose": "chosen", "grow": "grown", "throw": "thrown", "sing": "sung", "give": "given",
    "see": "seen", "take": "taken",
}  # fmt: skip
_GENERIC = (
    "fullname", "city", "num", "code", "date", "year", "price", "colours", "time", "invented",
    "phone", "country", "person", "title", "distance", "bignum", "materials", "weekday", "percent",
    "duration", "adj", "simple_noun", "length", "mass", "compound", "temp", "pin", "org",
)  # fmt: skip


def past_tense(verb: str) -> str:
    """Past tense of a verb."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + "ed"


class SlotFiller:
    """Makes values for slots by the slot's kind, with some of them from word lists."""

    def __init__(self, lists: Mapping[str, list[str]]) -> None:
        self.lists = lists
        self.makers: dict[str, Callable[[random.Random], Value]] = {
            "person": self.person, "fullname": self.fullname, "surname": self.surname,
            "who": self.who, "doctor": self.doctor, "city": self.city, "country": self.country,
            "code": self.code, "pin": self.pin, "date": self.date, "weekday": self.weekday,
            "month": self.month, "year": self.year, "time": self.time, "price": self.price,
            "phone": self.phone, "address": self.address, "place": self.place, "num": self.num,
            "smallnum": self.smallnum, "bignum": self.bignum, "verb": self.verb,
            "email": self.email, "company": self.company, "title": self.title, "brand": self.brand,
            "when": self.when, "season": self.plain_list, "duration": self.duration,
            "distance": self.distance, "mass": self.mass, "temp": self.temp, "decimal": self.decimal,
            "percent": self.percent, "symbol": self.symbol, "flight": self.flight, "years": self.years,
            "invented": self.invented, "river": self.river, "room": self.room, "length": self.length,
            "mountain": self.mountain, "planet": self.planet, "element": self.element,
            "org": self.org, "plate": self.plate, "url": self.url, "compound": self.compound,
            "thing": self.thing, "pron": self.pron, "animal": self.animal, "my": self.my,
            "gval": self.gval,
        }  # fmt: skip

    def make(self, slot: str, rng: random.Random) -> Value:
        """A value for a slot such as ``city2``."""
        kind = slot.rstrip("0123456789")
        maker = self.makers.get(kind)
        if maker is not None and maker != self.plain_list:
            return maker(rng)
        coined = 0.4 if kind in _NAMED else 0.0
        return Value(self.name_from(kind, rng, coined))

    def plain_list(self, rng: random.Random) -> Value:
        raise NotImplementedError

    def pick(self, name: str, rng: random.Random) -> str:
        """An entry of a word list."""
        return rng.choice(self.lists[name])

    def coined(self, rng: random.Random, low: int = 2, high: int = 3) -> str:
        """An invented name."""
        syllables = rng.randint(low, high)
        parts = [rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables)]
        word = "".join(parts) + rng.choice(_CODAS)
        if rng.random() < 0.2:
            word = word[1:] if word[0] not in "aeiou" and word[1] in "aeiou" else word
        return word.capitalize()

    def name_from(self, name: str, rng: random.Random, coined: float) -> str:
        return self.coined(rng) if rng.random() < coined else self.pick(name, rng)

    def person(self, rng: random.Random) -> Value:
        return Value(self.name_from("first", rng, 0.2))

    def surname(self, rng: random.Random) -> Value:
        return Value(self.name_from("last", rng, 0.3))

    def fullname(self, rng: random.Random) -> Value:
        first, last = self.name_from("first", rng, 0.15), self.name_from("last", rng, 0.3)
        if rng.random() < 0.07:
            first = f"{first} {rng.choice(_UPPER)}."
        full = f"{first} {last}"
        return Value(full, (full, full, full, last))

    def who(self, rng: random.Random) -> Value:
        roll = rng.random()
        if roll < 0.4:
            return self.person(rng)
        relation = self.pick("relation", rng)
        my = rng.choice(("my", "my", "our"))
        if roll < 0.6:
            name = self.person(rng).text
            doc = f"{my} {relation} {name}"
            return Value(doc, (doc, name, f"{my} {relation}", f"my {relation}"))
        if roll < 0.75:
            family = self.pick("family", rng)
            return Value(family, (family, f"my {family.lower()}", family.lower()))
        doc = f"{my} {relation}"
        return Value(doc, (doc, f"my {relation}", f"the {relation}"))

    def doctor(self, rng: random.Random) -> Value:
        last = self.surname(rng).text
        title = rng.choice(("Dr", "Dr", "Dr.", "Mr", "Mrs", "Ms", "Professor"))
        return Value(f"{title} {last}", (f"{title} {last}", f"{title} {last}", last))

    def city(self, rng: random.Random) -> Value:
        roll = rng.random()
        if roll < 0.65:
            return Value(self.pick("cities", rng))
        if roll < 0.72:
            prefix = rng.choice(("Port", "San", "New", "Saint", "El", "Fort", "Santa", "North"))
            return Value(f"{prefix} {self.coined(rng)}")
        return Value(self.coined(rng))

    def country(self, rng: random.Random) -> Value:
        return Value(self.name_from("countries", rng, 0.12))

    def code(self, rng: random.Random) -> Value:
        roll = rng.random()
        digits = "".join(rng.choice("0123456789") for _ in range(rng.randint(2, 5)))
        letters = "".join(rng.choice(_UPPER) for _ in range(rng.randint(1, 3)))
        word = self.pick("simple_noun", rng)
        forms = (
            f"{letters}-{digits}", f"{letters}{digits}", f"{word}-{digits}",
            f"{word.capitalize()}{digits}", f"{word}{self.pick('simple_noun', rng)}{digits}",
            f"{letters}-{digits}-{rng.choice(_UPPER)}{rng.randint(1, 9)}", f"{digits}-{letters}",
            f"{word.capitalize()}-{self.coined(rng)}-{digits}", f"{word}_{digits}!",
            f"{self.coined(rng)}{digits}",
            "".join(rng.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(rng.randint(6, 9))),
        )  # fmt: skip
        return Value(forms[int(roll * len(forms))])

    def pin(self, rng: random.Random) -> Value:
        return Value("".join(rng.choice("0123456789") for _ in range(rng.choice((3, 4, 4, 4, 5, 6)))))

    def plate(self, rng: random.Random) -> Value:
        a = "".join(rng.choice(_UPPER) for _ in range(rng.randint(1, 3)))
        b = "".join(rng.choice(_UPPER) for _ in range(rng.randint(1, 3)))
        n = rng.randint(10, 9999)
        return Value(rng.choice((f"{a}{n} {b}", f"{a}-{b} {n}", f"{a} {n}", f"{n} {b}")))

    def flight(self, rng: random.Random) -> Value:
        return Value(rng.choice(_UPPER) + rng.choice(_UPPER) + rng.choice(("", " ")) + str(
            rng.randint(100, 9999)))

    def symbol(self, rng: random.Random) -> Value:
        return Value(rng.choice(_UPPER) + rng.choice(("", *"abcdefghiklmnoprstuy")))

    def weekday(self, rng: random.Random) -> Value:
        return Value(rng.choice(_WEEKDAYS))

    def month(self, rng: random.Random) -> Value:
        return Value(rng.choice(_MONTHS))

    def year(self, rng: random.Random) -> Value:
        return Value(str(rng.choice((rng.randint(1400, 2029), rng.randint(1750, 2029)))))

    def date(self, rng: random.Random) -> Value:
        day, month, year = rng.randint(1, 30), rng.choice(_MONTHS), rng.randint(1990, 2029)
        suffix = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}.get(day, "th")
        forms = (
            f"{day} {month}", f"{month} {day}", f"{day} {month} {year}", f"{month} {day}{suffix}",
            f"{day}{suffix} {month}", f"{rng.choice(_WEEKDAYS)} {day} {month}",
            f"{rng.choice(_WEEKDAYS)}, {month} {day}", f"{month} {day}, {year}",
            f"the {day}{suffix} of {month}", f"{year}-{rng.randint(1, 12):02d}-{day:02d}",
        )  # fmt: skip
        return Value(rng.choice(forms))

    def time(self, rng: random.Random) -> Value:
        hour, minute = rng.randint(0, 23), rng.choice((0, 0, 5, 10, 15, 20, 30, 30, 40, 45, 50, 55))
        clock = hour % 12 or 12
        forms = (
            f"{hour}:{minute:02d}", f"{hour:02d}:{minute:02d}", f"{clock}:{minute:02d} am",
            f"{clock}:{minute:02d} pm", f"{clock} pm", f"{clock} am", f"{clock} o'clock",
            f"half past {_NUMBERS[clock % 10]}", f"quarter to {_NUMBERS[clock % 10]}",
            f"{clock}.{minute:02d}", f"{clock}:{minute:02d}",
        )  # fmt: skip
        return Value(rng.choice(forms))

    def when(self, rng: random.Random) -> Value:
        date, time, day = self.date(rng).text, self.time(rng).text, rng.choice(_WEEKDAYS)
        forms = (
            f"on {date}", f"on {date} at {time}", f"on {day} at {time}", f"on {day}",
            f"next {day}", f"every {day}", f"every {day} at {time}", f"at {time}",
            f"in {rng.choice(_MONTHS)}", f"on {day} morning", f"on {day} evening",
            f"every second {day}", f"at {time} on {day}", f"at the end of {rng.choice(_MONTHS)}",
            f"on {day}, {date}",
        )  # fmt: skip
        return Value(re.sub(r"\bthe the\b", "the", rng.choice(forms)))

    def price(self, rng: random.Random) -> Value:
        whole = rng.choice((rng.randint(2, 99), rng.randint(100, 999), rng.randint(1000, 9999)))
        cents = rng.choice((0, 50, 95, 99, rng.randint(1, 98)))
        amount = f"{whole}" if rng.random() < 0.5 else f"{whole}.{cents:02d}"
        forms = (
            f"{amount} euros", f"€{amount}", f"${amount}", f"£{amount}", f"{amount} pounds",
            f"{amount} dollars", f"{amount} EUR", f"{amount} francs", f"{amount} kroner",
        )  # fmt: skip
        return Value(rng.choice(forms))

    def phone(self, rng: random.Random) -> Value:
        def block(size: int) -> str:
            return "".join(rng.choice("0123456789") for _ in range(size))

        forms = (
            f"0{block(3)} {block(6)}", f"+{block(2)} {block(3)} {block(4)}", f"0{block(2)}-{block(7)}",
            f"{block(3)}-{block(4)}", f"+{block(2)} {block(2)} {block(3)} {block(2)} {block(2)}",
            f"0{block(4)} {block(5)}", f"({block(3)}) {block(3)}-{block(4)}",
        )  # fmt: skip
        return Value(rng.choice(forms))

    def email(self, rng: random.Random) -> Value:
        name, host = self.coined(rng).lower(), self.coined(rng).lower()
        return Value(f"{name}{rng.choice(('', '.' + self.coined(rng).lower()))}@{host}."
                     + rng.choice(("com", "org", "net", "de", "io", "example")))

    def url(self, rng: random.Random) -> Value:
        return Value(self.coined(rng).lower() + rng.choice((".com", ".org", ".net", ".io/home")))

    def address(self, rng: random.Random) -> Value:
        street = rng.choice((self.coined(rng), self.pick("last", rng), self.pick("street", rng)))
        kind = rng.choice(("Street", "Road", "Lane", "Avenue", "Square", "Close", "Way", "Drive"))
        number = rng.randint(1, 240)
        town = f", {self.city(rng).text}" if rng.random() < 0.3 else ""
        lane = street + rng.choice(("straat", "strasse", "gasse", "weg"))
        return Value(rng.choice((f"{number} {street} {kind}", f"{number} {street} {kind}",
                                 f"{lane} {number}")) + town)

    def place(self, rng: random.Random) -> Value:
        place = self.pick("places", rng)
        article = rng.choice(("the", "the", "our", "my"))
        return Value(f"{article} {place}", (f"the {place}", f"{article} {place}", f"our {place}"))

    def thing(self, rng: random.Random) -> Value:
        thing = self.pick("things", rng)
        article = rng.choice(("the", "the", "our", "my"))
        return Value(f"{article} {thing}", (f"the {thing}", f"{article} {thing}", f"my {thing}"))

    def room(self, rng: random.Random) -> Value:
        return Value(f"the {self.pick('rooms', rng)}")

    def my(self, rng: random.Random) -> Value:
        return Value(rng.choice(("my", "our", "the")), ("my", "our", "the"))

    def num(self, rng: random.Random) -> Value:
        return Value(str(rng.choice((rng.randint(2, 30), rng.randint(2, 120), rng.randint(2, 999)))))

    def smallnum(self, rng: random.Random) -> Value:
        number = rng.randint(2, 12)
        return Value(_NUMBERS[number - 2] if number < 13 and rng.random() < 0.5 else str(number))

    def bignum(self, rng: random.Random) -> Value:
        number = rng.randint(1, 9999) * 10 ** rng.randint(1, 5)
        forms = (
            f"{number:,}", f"{number}", f"about {number:,}", f"{rng.randint(2, 900)} million",
            f"{rng.randint(1, 90)}.{rng.randint(1, 9)} million", f"{rng.randint(2, 900)} thousand",
        )  # fmt: skip
        return Value(rng.choice(forms))

    def decimal(self, rng: random.Random) -> Value:
        return Value(f"{rng.randint(0, 99)}.{rng.randint(1, 99)}")

    def percent(self, rng: random.Random) -> Value:
        return Value(f"{rng.randint(1, 99)}" + rng.choice((" percent", "%", " per cent")))

    def years(self, rng: random.Random) -> Value:
        return Value(f"{rng.choice((rng.randint(2, 12), rng.randint(2, 99)))} years")

    def duration(self, rng: random.Random) -> Value:
        number = rng.randint(2, 60)
        return Value(rng.choice((
            f"{number} minutes", f"{number} days", f"{rng.randint(2, 30)} hours", f"{number} weeks",
            f"{rng.randint(2, 30)} months", f"{rng.choice(_NUMBERS)} days", "half an hour",
            f"{rng.choice(_NUMBERS)} hours", f"{rng.choice(_NUMBERS)} weeks", f"{number} years",
        )))  # fmt: skip

    def distance(self, rng: random.Random) -> Value:
        number = rng.choice((rng.randint(2, 99), rng.randint(100, 9999)))
        unit = rng.choice(("kilometres", "km", "miles", "metres", "kilometers"))
        return Value(f"{number:,} {unit}" if rng.random() < 0.7 else f"{number} {unit}")

    def length(self, rng: random.Random) -> Value:
        number = f"{rng.randint(1, 400)}" + rng.choice(("", "", f".{rng.randint(1, 9)}"))
        return Value(f"{number} " + rng.choice(("metres", "cm", "centimetres", "m", "feet", "mm")))

    def mass(self, rng: random.Random) -> Value:
        unit = rng.choice(("grams", "g", "kg", "kilograms", "tonnes", "ml", "litres", "mg"))
        return Value(f"{rng.randint(2, 950)} {unit}")

    def temp(self, rng: random.Random) -> Value:
        number = rng.choice((rng.randint(-40, 40), rng.randint(40, 3500)))
        return Value(f"{number} " + rng.choice(("degrees", "degrees Celsius", "°C", "C", "kelvin")))

    def verb(self, rng: random.Random) -> Value:
        base = rng.choice(_REGULAR) if rng.random() < 0.6 else rng.choice(list(_IRREGULAR))
        past = past_tense(base)
        part = _PARTICIPLES.get(base, past)
        return Value(past, (), {"past": past, "base": base, "part": part})

    def gval(self, rng: random.Random) -> Value:
        """A value of any kind."""
        return self.make(rng.choice(_GENERIC), rng)

    def invented(self, rng: random.Random) -> Value:
        return Value(self.coined(rng))

    def brand(self, rng: random.Random) -> Value:
        return Value(self.coined(rng) + rng.choice(("", "", f" {rng.randint(2, 900)}", " Pro", " Max")))

    def company(self, rng: random.Random) -> Value:
        name = rng.choice((self.coined(rng), self.pick("last", rng)))
        return Value(name + rng.choice(("", " Ltd", " & Sons", " Energy", " Insurance", " Motors",
                                        " Group", " Logistics", " Bank", " Foods", " Labs")))

    def org(self, rng: random.Random) -> Value:
        kind = rng.choice(("University", "Museum", "Institute", "Orchestra", "Society", "Academy"))
        base = rng.choice((self.coined(rng), self.pick("cities", rng)))
        return Value(rng.choice((f"the {base} {kind}", f"the {kind} of {base}")))

    def title(self, rng: random.Random) -> Value:
        noun, other = self.pick("simple_noun", rng), self.pick("simple_noun", rng)
        adjective = self.pick("adj", rng)
        forms = (f"The {noun} of {self.coined(rng)}", f"The {adjective} {noun}", f"{noun} and {other}",
                 f"A {noun} for {self.pick('first', rng)}", f"The {noun}'s {other}")  # fmt: skip
        words = rng.choice(forms).split()
        text = " ".join(w if w in ("of", "and", "for") else w[:1].upper() + w[1:] for w in words)
        return Value(f'"{text}"' if rng.random() < 0.15 else text)

    def river(self, rng: random.Random) -> Value:
        name = self.name_from("rivers", rng, 0.4)
        text = rng.choice((f"the {name}", f"the {name} River", f"the River {name}", f"the {name}"))
        return Value(text, (text, f"the {name}"))

    def mountain(self, rng: random.Random) -> Value:
        name = self.name_from("last", rng, 0.7)
        return Value(rng.choice((f"Mount {name}", f"Mount {name}", f"{name} Peak", f"Mt {name}")))

    def planet(self, rng: random.Random) -> Value:
        return Value(self.name_from("planets", rng, 0.35))

    def element(self, rng: random.Random) -> Value:
        if rng.random() < 0.2:
            return Value(self.coined(rng).lower() + "ium")
        return Value(self.pick("elements", rng))

    def compound(self, rng: random.Random) -> Value:
        return Value(self.pick("adj", rng) + " " + self.pick("simple_noun", rng))

    def animal(self, rng: random.Random) -> Value:
        name = self.pick("animals", rng)
        if rng.random() < 0.25:
            name = rng.choice(("striped", "giant", "dwarf", "northern", "red", "marsh", "grey",
                               self.coined(rng))) + " " + name
        return Value(f"the {name}", (f"the {name}", f"a {name}"))

    def pron(self, rng: random.Random) -> Value:
        she = rng.random() < 0.5
        forms = {"sub": "she", "pos": "her", "obj": "her"} if she else {
            "sub": "he", "pos": "his", "obj": "him"}  # fmt: skip
        return Value(forms["sub"], (), forms)


def read_lists(path: Path) -> dict[str, list[str]]:
    """Word lists: a line ``name: entry, entry, ...`` each."""
    lists: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if ":" in line and not line.startswith("//"):
            name, _, entries = line.partition(":")
            found = [entry.strip() for entry in entries.split(",") if entry.strip()]
            lists.setdefault(name.strip(), []).extend(found)
    return lists
