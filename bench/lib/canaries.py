"""Canaries: made-up words, each with the kind of text that it was put into."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum

_BEGIN, _MIDDLE, _END = "bdfgklmprtvz", "aeiou", ("dax", "lin", "mur", "nok", "quil", "stov", "zeb")


class Place(StrEnum):
    """The kinds of text that a canary may be put into."""

    DOCUMENT = "document"
    NAME = "name"  # of a document, a chat, a project
    PRIVATE = "private turn"  # by choice, or since documents answered it
    QUESTION = "question"
    INSTRUCTIONS = "instructions"
    TOOLS = "tools"
    FORMAT = "format"
    PROMPT = "prompt"


HIDDEN = frozenset({Place.DOCUMENT, Place.NAME, Place.PRIVATE})
"""Text that is not sent with a question: the cloud learns of it only what an answer shows."""


@dataclass
class Canaries:
    """Makes unique words, and finds them in texts, ignoring case."""

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
        """The canaries in the texts."""
        whole = "\n".join(texts).lower()
        return {word for word in self.places if word in whole}

    def hidden(self, words: set[str]) -> set[str]:
        """Those of the canaries that are in hidden text."""
        return {word for word in words if self.places[word] in HIDDEN}
