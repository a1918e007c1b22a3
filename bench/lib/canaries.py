"""Words that nobody else writes, each with what it stands in."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum

_BEGIN, _MIDDLE, _END = "bdfgklmprtvz", "aeiou", ("dax", "lin", "mur", "nok", "quil", "stov", "zeb")


class Place(StrEnum):
    """What of a person's a word stands in."""

    DOCUMENT = "document"
    NAME = "name"  # of a document, a chat, a project
    PRIVATE = "private turn"  # by choice, or since documents answered it
    QUESTION = "question"
    INSTRUCTIONS = "instructions"
    TOOLS = "tools"
    FORMAT = "format"
    PROMPT = "prompt"


HIDDEN = frozenset({Place.DOCUMENT, Place.NAME, Place.PRIVATE})
"""What does not go up for being asked: of it the cloud has what an answer beside it shows."""


@dataclass
class Canaries:
    """Makes words, no two alike, and finds them again in any case."""

    chance: random.Random
    places: dict[str, Place] = field(default_factory=dict)

    def new(self, place: Place) -> str:
        """A word for a place."""
        while True:
            letters = [self.chance.choice(_BEGIN) + self.chance.choice(_MIDDLE) for _ in range(3)]
            word = "".join([*letters, self.chance.choice(_END)])
            if word not in self.places:
                self.places[word] = place
                return word.capitalize()

    def found(self, *texts: str) -> set[str]:
        """Those that stand in the texts."""
        whole = "\n".join(texts).lower()
        return {word for word in self.places if word in whole}

    def hidden(self, words: set[str]) -> set[str]:
        """Of these words the ones that do not go up for being asked."""
        return {word for word in words if self.places[word] in HIDDEN}
