"""Random values that need no word list: codes, dates, times, amounts and measures."""

from __future__ import annotations

import random
import re

from training.data.grammar import Value

UPPER = "ABCDEFGHJKLMNPQRSTUVWXYZ"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
NUMBERS = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "fifteen", "twenty",
)  # fmt: skip
_ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}


def digits(rng: random.Random, size: int) -> str:
    """A string of random digits."""
    return "".join(rng.choice("0123456789") for _ in range(size))


def letters(rng: random.Random, size: int) -> str:
    """A string of random capital letters."""
    return "".join(rng.choice(UPPER) for _ in range(size))


def pin(rng: random.Random) -> Value:
    """A short number to type in."""
    return Value(digits(rng, rng.choice((3, 4, 4, 4, 5, 6))))


def plate(rng: random.Random) -> Value:
    """A number plate."""
    first, second = letters(rng, rng.randint(1, 3)), letters(rng, rng.randint(1, 3))
    number = rng.randint(10, 9999)
    forms = (f"{first}{number} {second}", f"{first}-{second} {number}", f"{first} {number}")
    return Value(rng.choice(forms))


def flight(rng: random.Random) -> Value:
    """A flight number."""
    return Value(letters(rng, 2) + rng.choice(("", " ")) + str(rng.randint(100, 9999)))


def symbol(rng: random.Random) -> Value:
    """A chemical symbol."""
    return Value(rng.choice(UPPER) + rng.choice(("", *"abcdefghiklmnoprstuy")))


def weekday(rng: random.Random) -> Value:
    """A day of the week."""
    return Value(rng.choice(WEEKDAYS))


def month(rng: random.Random) -> Value:
    """A month."""
    return Value(rng.choice(MONTHS))


def year(rng: random.Random) -> Value:
    """A year, more often a recent one."""
    return Value(str(rng.choice((rng.randint(1400, 2029), rng.randint(1750, 2029)))))


def date(rng: random.Random) -> Value:
    """A date in one of many notations."""
    day, name, year_ = rng.randint(1, 30), rng.choice(MONTHS), rng.randint(1990, 2029)
    nth = f"{day}{_ORDINALS.get(day, 'th')}"
    forms = (
        f"{day} {name}", f"{name} {day}", f"{day} {name} {year_}", f"{name} {nth}",
        f"{nth} {name}", f"{rng.choice(WEEKDAYS)} {day} {name}",
        f"{rng.choice(WEEKDAYS)}, {name} {day}", f"{name} {day}, {year_}",
        f"the {nth} of {name}", f"{year_}-{rng.randint(1, 12):02d}-{day:02d}",
    )  # fmt: skip
    return Value(rng.choice(forms))


def time(rng: random.Random) -> Value:
    """A time of day in one of many notations."""
    hour, minute = rng.randint(0, 23), rng.choice((0, 0, 5, 10, 15, 20, 30, 30, 40, 45, 50, 55))
    clock = hour % 12 or 12
    forms = (
        f"{hour}:{minute:02d}", f"{hour:02d}:{minute:02d}", f"{clock}:{minute:02d} am",
        f"{clock}:{minute:02d} pm", f"{clock} pm", f"{clock} am", f"{clock} o'clock",
        f"half past {NUMBERS[clock % 10]}", f"quarter to {NUMBERS[clock % 10]}",
        f"{clock}.{minute:02d}", f"{clock}:{minute:02d}",
    )  # fmt: skip
    return Value(rng.choice(forms))


def when(rng: random.Random) -> Value:
    """A time of an event, with its preposition."""
    date_, time_, day = date(rng).text, time(rng).text, rng.choice(WEEKDAYS)
    forms = (
        f"on {date_}", f"on {date_} at {time_}", f"on {day} at {time_}", f"on {day}",
        f"next {day}", f"every {day}", f"every {day} at {time_}", f"at {time_}",
        f"in {rng.choice(MONTHS)}", f"on {day} morning", f"on {day} evening",
        f"every second {day}", f"at {time_} on {day}", f"at the end of {rng.choice(MONTHS)}",
        f"on {day}, {date_}",
    )  # fmt: skip
    return Value(re.sub(r"\bthe the\b", "the", rng.choice(forms)))


def price(rng: random.Random) -> Value:
    """An amount of money."""
    whole = rng.choice((rng.randint(2, 99), rng.randint(100, 999), rng.randint(1000, 9999)))
    cents = rng.choice((0, 50, 95, 99, rng.randint(1, 98)))
    amount = f"{whole}" if rng.random() < 0.5 else f"{whole}.{cents:02d}"
    forms = (
        f"{amount} euros", f"€{amount}", f"${amount}", f"£{amount}", f"{amount} pounds",
        f"{amount} dollars", f"{amount} EUR", f"{amount} francs", f"{amount} kroner",
        f"{whole:,} euros", f"{whole:,} pounds",
    )  # fmt: skip
    return Value(rng.choice(forms))


def phone(rng: random.Random) -> Value:
    """A telephone number."""
    forms = (
        "0### ######", "+## ### ####", "0##-#######", "###-####", "+## ## ### ## ##", "0#### #####",
        "(###) ###-####", "0## ### ## ##", "0### ### ####",
    )  # fmt: skip
    return Value("".join(digits(rng, 1) if c == "#" else c for c in rng.choice(forms)))


def num(rng: random.Random) -> Value:
    """A number up to a thousand."""
    top = rng.choice((30, 120, 999))
    return Value(str(rng.randint(2, top)))


def smallnum(rng: random.Random) -> Value:
    """A number up to twelve, in words or digits."""
    number = rng.randint(2, 12)
    return Value(NUMBERS[number - 2] if rng.random() < 0.5 else str(number))


def bignum(rng: random.Random) -> Value:
    """A large number."""
    number = rng.randint(1, 9999) * 10 ** rng.randint(1, 5)
    forms = (
        f"{number:,}", f"{number}", f"about {number:,}", f"{rng.randint(2, 900)} million",
        f"{rng.randint(1, 90)}.{rng.randint(1, 9)} million", f"{rng.randint(2, 900)} thousand",
    )  # fmt: skip
    return Value(rng.choice(forms))


def decimal(rng: random.Random) -> Value:
    """A decimal fraction."""
    return Value(f"{rng.randint(0, 99)}.{rng.randint(1, 99)}")


def percent(rng: random.Random) -> Value:
    """A share."""
    return Value(f"{rng.randint(1, 99)}" + rng.choice((" percent", "%", " per cent")))


def years(rng: random.Random) -> Value:
    """A number of years."""
    return Value(f"{rng.randint(2, rng.choice((12, 99)))} years")


def duration(rng: random.Random) -> Value:
    """A length of time."""
    number = rng.randint(2, 60)
    forms = (
        f"{number} minutes", f"{number} days", f"{rng.randint(2, 30)} hours", f"{number} weeks",
        f"{rng.randint(2, 30)} months", f"{rng.choice(NUMBERS)} days", "half an hour",
        f"{rng.choice(NUMBERS)} hours", f"{rng.choice(NUMBERS)} weeks", f"{number} years",
    )  # fmt: skip
    return Value(rng.choice(forms))


def distance(rng: random.Random) -> Value:
    """A long way."""
    number = rng.choice((rng.randint(2, 99), rng.randint(100, 9999)))
    unit = rng.choice(("kilometres", "km", "miles", "metres", "kilometers"))
    return Value(f"{number:,} {unit}" if rng.random() < 0.7 else f"{number} {unit}")


def length(rng: random.Random) -> Value:
    """A size."""
    number = f"{rng.randint(1, 400)}" + rng.choice(("", "", f".{rng.randint(1, 9)}"))
    if rng.random() < 0.15:
        number = f"{rng.randint(1000, 9000):,}"
    return Value(f"{number} " + rng.choice(("metres", "cm", "centimetres", "m", "feet", "mm")))


def mass(rng: random.Random) -> Value:
    """A weight or a volume."""
    number = f"{rng.randint(2, 950)}" + rng.choice(("", "", "", f".{rng.randint(1, 9)}"))
    unit = rng.choice(("grams", "g", "kg", "kilograms", "tonnes", "ml", "litres", "mg"))
    return Value(f"{number} {unit}")


def temp(rng: random.Random) -> Value:
    """A temperature."""
    number = rng.choice((rng.randint(2, 40), rng.randint(40, 3500)))
    sign = rng.choice(("", "", "", "", "minus ", "-"))
    unit = rng.choice(("degrees", "degrees Celsius", "°C", "C", "kelvin"))
    return Value(f"{sign}{number} {unit}")
