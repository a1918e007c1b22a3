"""Questions in two steps: "How long is the river Aunt Vera lives by?", and the note to begin with.

The note names the river; another text, perhaps of the other side, says how long it is. The note
answers half of the question, without which the other half cannot be found.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

from dragon.retrieval.lexical import coverage
from training.data.grammar import Schema, Value, capitalize, choose, fill, parse_schemas, slots_of
from training.data.slots import SlotFiller

_DESCRIBED = 0.5
"""The least share of a description's words in its note: alternatives are drawn independently."""


@dataclass(frozen=True)
class Chain:
    """A question, the note that it begins with, and notes that name the same kind of thing."""

    question: str
    note: str
    others: list[str]


class ChainSource:
    """Draws chains from `schemas/chains.txt`."""

    def __init__(self, path: Path, filler: SlotFiller) -> None:
        schemas = parse_schemas(path)
        self.filler = filler
        self.relations = [schema for schema in schemas if schema.statements]
        self.asked = {str(s.topic): s.questions for s in schemas if not s.statements}

    def draw(self, rng: random.Random) -> Chain:
        """One chain."""
        while True:
            relation = rng.choice(self.relations)
            statement = choose(rng.choice(relation.statements), rng)
            description = choose(rng.choice(relation.noun_phrases), rng)
            if not slots_of(description) <= slots_of(statement):
                continue
            values = {slot: self.filler.make(slot, rng) for slot in slots_of(statement)}
            thing = fill(description, values, rng, asked=True)
            note = capitalize(fill(statement, values, rng, asked=False))
            if coverage(thing, note) >= _DESCRIBED:
                break
        question = choose(rng.choice(self.asked[str(relation.topic)]), rng)
        asked = capitalize(re.sub(r"(?:\b(?:the|a) )?\{\w+\}", lambda _: thing, question)) + "?"
        others = [self._note(schema, rng) for schema in self._near(relation, rng)]
        return Chain(asked, note, [other for other in others if other != note])

    def _near(self, relation: Schema, rng: random.Random) -> list[Schema]:
        """Relations of the same topic, mostly."""
        same = [s for s in self.relations if s.topic == relation.topic and s is not relation]
        return rng.sample(same, min(len(same), 2)) + rng.sample(self.relations, 3)

    def _note(self, schema: Schema, rng: random.Random) -> str:
        statement = choose(rng.choice(schema.statements), rng)
        values: dict[str, Value] = {s: self.filler.make(s, rng) for s in slots_of(statement)}
        return capitalize(fill(statement, values, rng, asked=False))
