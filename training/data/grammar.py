"""A small template language for fact schemas.

A schema file holds blocks such as::

    # capital topic=country
    > The capital [city|] of {country} is {city}.
    >> Its capital is {city}.
    ? What is the capital of {country}
    ?n the capital of {country}
    ?e what the capital of {country} is

``>`` is a statement, ``>>`` a statement that only follows another one on the same topic, ``?`` a
full question, ``?n`` a noun phrase that is asked for, ``?e`` an embedded question. ``[a|b|]`` picks
one alternative, ``{slot}`` is filled in; digits at the end of a slot's name separate slots of
one kind, and ``{verb.past}`` names a form of the value.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")
_PRONOUNS = (
    ("who", "{pron.sub}", "{pron.pos}"),
    ("fullname", "{pron.sub}", "{pron.pos}"),
    ("thing", "it", "its"),
    ("company", "it", "its"),
    ("animal", "it", "its"),
    ("place", "it", "its"),
)
_INNER = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True)
class Value:
    """What fills a slot: its text in a document, how a question may say it, and other forms."""

    text: str
    asked: tuple[str, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)

    def in_question(self, rng: random.Random) -> str:
        """One way in which a question names this value."""
        return rng.choice(self.asked) if self.asked else self.text


@dataclass
class Schema:
    """One relation: how it is stated and how it is asked for."""

    name: str
    family: str
    topic: str | None = None
    group: str = ""
    statements: list[str] = field(default_factory=list)
    follow_ups: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    noun_phrases: list[str] = field(default_factory=list)
    embedded: list[str] = field(default_factory=list)

    def slots(self) -> set[str]:
        """Names of all slots, over all templates."""
        names: set[str] = set()
        for template in [*self.statements, *self.follow_ups, *self.questions, *self.noun_phrases]:
            names.update(slots_of(template))
        return names


def slots_of(template: str) -> set[str]:
    """Slot names in a template."""
    return {match.group(1) for match in _SLOT.finditer(template)}


def choose(template: str, rng: random.Random) -> str:
    """Resolve every ``[a|b]`` to one alternative."""
    while match := _INNER.search(template):
        option = rng.choice(match.group(1).split("|"))
        template = template[: match.start()] + option + template[match.end() :]
    return re.sub(r"  +", " ", template)


def fill(template: str, values: Mapping[str, Value], rng: random.Random, asked: bool) -> str:
    """Fill the slots of a chosen template; ``asked`` takes the forms a question would use."""

    def one(match: re.Match[str]) -> str:
        value = values[match.group(1)]
        if match.group(2):
            return value.forms[match.group(2)]
        return value.in_question(rng) if asked else value.text

    return _SLOT.sub(one, template)


def capitalize(text: str) -> str:
    """Upper-case the first letter only."""
    return text[:1].upper() + text[1:]


def parse_schemas(path: Path) -> list[Schema]:
    """Read one schema file; its stem is the family of its schemas."""
    schemas: list[Schema] = []
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("//"):
            continue
        mark, _, rest = line.partition(" ")
        if mark == "#":
            name, *options = rest.split()
            given = dict(option.split("=", 1) for option in options)
            schemas.append(Schema(name, path.stem, given.get("topic"), given.get("group", name)))
            continue
        schema = schemas[-1]
        lists = {
            ">": schema.statements,
            ">>": schema.follow_ups,
            "?": schema.questions,
            "?n": schema.noun_phrases,
            "?e": schema.embedded,
        }
        if mark not in lists or rest.count("[") != rest.count("]"):
            raise ValueError(f"{path.name}:{number}: cannot read {line!r}")
        lists[mark].append(rest.strip())
    for schema in schemas:
        _add_pronouns(schema)
    return schemas


def _add_pronouns(schema: Schema) -> None:
    """Give a schema about a person or a thing follow-ups such as ``She lives in {city}.``."""
    for topic, subject, owner in _PRONOUNS:
        if schema.topic not in (None, topic):
            continue
        for statement in schema.statements:
            if statement.startswith(f"{{{topic}}}'s "):
                follow_up = owner + statement.removeprefix(f"{{{topic}}}'s")
            elif statement.startswith(f"{{{topic}}} "):
                follow_up = subject + statement.removeprefix(f"{{{topic}}}")
            else:
                continue
            if f"{{{topic}}}" not in follow_up:
                schema.topic = topic
                schema.follow_ups.append(follow_up)
