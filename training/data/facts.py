"""Documents of random facts, and questions about them."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from training.data.grammar import Schema, Value, capitalize, choose, fill
from training.data.phrasing import ask, templates_of
from training.data.slots import SlotFiller

HEADINGS = (
    "Notes", "To do", "Home", "Family", "Travel", "Misc", "Important", "Reminders", "House", "Work",
    "Remember", "Things to know", "Summary", "Overview", "Facts", "Private", "Health", "Garden",
    "Contacts", "Codes", "Money", "Plans", "Kitchen", "School", "Holiday", "Admin", "Useful things",
)  # fmt: skip
_NEVER_REUSED = frozenset(
    """
    code pin date time when price phone email num bignum decimal percent year mass temp length
    distance duration years plate url symbol gval title invented address flight
    """.split()  # noqa: SIM905
)
_JOINS = (" and ", ", and ", "; ", ", ", " - ", ", while ", ", but ")
_KEEP_CASE = re.compile(r"^(?:[A-Z0-9]{2}|[^A-Za-z]|I\b)")
_FUNCTION = re.compile(r"^(?:The|My|Our|It|Its|In|On|We|For|A|An|He|She|At|To|No)\b")


@dataclass
class Fact:
    """A statement in a document."""

    schema: Schema
    values: dict[str, Value]
    sentence: str


def _same_keys(one: dict[str, Value], other: dict[str, Value]) -> bool:
    """Whether two facts of one schema are about the same thing, as their questions would ask."""
    named = [slot for slot in one if slot.rstrip("0123456789") not in _NEVER_REUSED - {"invented"}]
    return bool(named) and all(one[slot].text == other[slot].text for slot in named)


@dataclass
class Document:
    """A document made of facts; ``sentences`` maps each fact to what an answer quotes."""

    text: str
    facts: list[Fact] = field(default_factory=list)


def stable_hash(text: str) -> int:
    """A hash that is the same in every process."""
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def is_held_out_schema(schema: Schema) -> bool:
    """Relations that training never sees."""
    return stable_hash(schema.name) % 14 == 0


def is_held_out_template(template: str) -> bool:
    """Question templates that training never sees."""
    return stable_hash(template) % 12 == 0


class FactSource:
    """Draws documents and questions from a set of schemas."""

    def __init__(
        self,
        schemas: list[Schema],
        filler: SlotFiller,
        prose: Callable[[random.Random], str] | None = None,
        phrasing: str = "train",
    ) -> None:
        self.filler = filler
        self.prose = prose
        self.schemas = schemas
        self.by_family: dict[str, list[Schema]] = {}
        self.by_topic: dict[str, list[Schema]] = {}
        self.templates: dict[str, list[tuple[str, str]]] = {}
        for schema in schemas:
            held = [t for t in templates_of(schema) if is_held_out_template(t[1])]
            open_ = [t for t in templates_of(schema) if not is_held_out_template(t[1])]
            self.templates[schema.name] = {
                "train": open_ or held, "held": held, "all": held + open_
            }[phrasing]  # fmt: skip
            self.by_family.setdefault(schema.family, []).append(schema)
            if schema.topic:
                self.by_topic.setdefault(schema.topic, []).append(schema)
        self.topics = [topic for topic, found in self.by_topic.items() if len(found) > 1]

    def _values(
        self, schema: Schema, cast: dict[str, list[Value]], rng: random.Random, reuse: float
    ) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for slot in sorted(schema.slots()):
            kind = slot.rstrip("0123456789")
            known = [v for v in cast.get(kind, []) if v not in values.values()]
            if known and kind not in _NEVER_REUSED and rng.random() < reuse:
                values[slot] = rng.choice(known)
            else:
                values[slot] = self.filler.make(slot, rng)
                cast.setdefault(kind, []).append(values[slot])
        return values

    def _state(
        self, schema: Schema, values: dict[str, Value], rng: random.Random, follow: bool
    ) -> Fact:
        pool = schema.follow_ups if follow and schema.follow_ups else schema.statements
        template = choose(rng.choice(pool), rng)
        sentence = re.sub(r"\bthe the\b", "the", fill(template, values, rng, asked=False))
        if template[0] != "{" or not template.startswith(("{code", "{email", "{url")):
            sentence = capitalize(sentence)
        return Fact(schema, values, sentence)

    def topic_facts(self, count: int, rng: random.Random) -> list[Fact]:
        """Sentences about one entity, the later ones often with a pronoun."""
        topic = rng.choice(self.topics)
        pool = self.by_topic[topic]
        entity = self.filler.make(topic, rng)
        pronoun = self.filler.make("pron", rng)
        facts: list[Fact] = []
        for schema in rng.sample(pool, min(count, len(pool))):
            if any(schema.group == fact.schema.group for fact in facts):
                continue
            values = self._values(schema, {}, rng, 0.0)
            if topic not in values:
                continue
            values[topic], values["pron"] = entity, pronoun
            facts.append(self._state(schema, values, rng, bool(facts) and rng.random() < 0.7))
        if len(facts) > 1 and rng.random() < 0.2:
            facts.pop(0)
        return facts

    def mixed_facts(self, count: int, rng: random.Random) -> list[Fact]:
        """Facts that share entities and relations, so that a question needs all of its words."""
        family = rng.choices(
            list(self.by_family), weights=[len(s) ** 0.5 for s in self.by_family.values()]
        )[0]
        cast: dict[str, list[Value]] = {}
        facts: list[Fact] = []
        repeat = rng.random() < 0.45
        while len(facts) < count:
            if facts and repeat and rng.random() < 0.5:
                schema = rng.choice(facts).schema
            else:
                schema = rng.choice(self.by_family[family])
            values = self._values(schema, cast, rng, 0.5 if facts else 0.0)
            if any(_same_keys(values, fact.values) for fact in facts if fact.schema is schema):
                count -= 1
                continue
            facts.append(self._state(schema, values, rng, follow=False))
        return facts

    def document(self, rng: random.Random, budget: int = 420) -> Document:
        """A document of one to seven facts, in one of several layouts."""
        count = rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6))
        if self.topics and rng.random() < 0.35:
            facts = self.topic_facts(min(count, 5), rng)
            layout = "prose"
        else:
            facts = self.mixed_facts(count, rng)
            layout = rng.choice(("prose", "prose", "prose", "bullets", "lines"))
        while len(facts) > 1 and sum(len(fact.sentence) for fact in facts) > budget:
            facts.pop()
        if layout != "prose":
            return _listed(facts, layout, rng)
        facts = self._merged(facts, rng)
        lines: list[str] = []
        for fact in facts:
            if fact.sentence[-1:] not in ".!?":
                fact.sentence += "."
            if not lines or lines[-1] != fact.sentence:
                lines.append(fact.sentence)
        if self.prose is not None and rng.random() < 0.25 and len(lines) < 5:
            lines.insert(rng.randint(0, len(lines)), self.prose(rng))
        text = " ".join(lines)
        if rng.random() < 0.12:
            text = f"{'#' * rng.randint(1, 2)} {rng.choice(HEADINGS)}\n\n{text}"
        elif self.prose is not None and rng.random() < 0.12:
            words = self.prose(rng).split()
            cut = rng.randint(1, max(1, len(words) - 1))
            if rng.random() < 0.5:
                text = " ".join(words[cut:][-12:]) + " " + text
            else:
                text = text + " " + " ".join(words[:cut][:12])
        return Document(text, facts)

    @staticmethod
    def _merged(facts: list[Fact], rng: random.Random) -> list[Fact]:
        """Sometimes join two neighbouring statements into one sentence; both then quote it."""
        index = 0
        while index + 1 < len(facts):
            first, second = facts[index], facts[index + 1]
            whole = first.sentence.endswith(".") and second.sentence.endswith(".")
            if whole and rng.random() < 0.12:
                tail = second.sentence
                if _FUNCTION.match(tail) and not _KEEP_CASE.match(tail):
                    tail = tail[:1].lower() + tail[1:]
                joined = first.sentence[:-1] + rng.choice(_JOINS) + tail
                first.sentence = second.sentence = joined
                index += 1
            index += 1
        return facts

    def question(self, doc: Document, fact: Fact, rng: random.Random) -> str | None:
        """A question whose one answer is this fact, or None if it would be ambiguous."""
        templates = self.templates[fact.schema.name]
        if not templates:
            return None
        text, mentioned = ask(templates, fact.values, rng)
        for other in doc.facts:
            if other is fact or other.schema.group != fact.schema.group:
                continue
            if other.sentence == fact.sentence:
                continue
            if all(
                fact.values[slot].text == other.values[slot].text
                for slot in mentioned & other.values.keys() - {"my"}
            ):
                return None
        return text


def _listed(facts: list[Fact], layout: str, rng: random.Random) -> Document:
    mark = rng.choice(("- ", "* ", "- ", "• ")) if layout == "bullets" else ""
    strip = rng.random() < 0.5
    for fact in facts:
        if strip:
            fact.sentence = fact.sentence.removesuffix(".")
    text = "\n".join(mark + fact.sentence for fact in facts)
    if rng.random() < 0.35:
        heading = rng.choice(HEADINGS)
        lead = rng.choice((f"# {heading}\n", f"## {heading}\n\n", f"{heading}:\n", f"{heading}\n"))
        text = lead + text
    return Document(text, facts)
