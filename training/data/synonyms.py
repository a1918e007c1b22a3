"""Swaps words of a question for synonyms, so that matching goes beyond equal words."""

from __future__ import annotations

import random
import re
from pathlib import Path

_WORD = re.compile(r"[A-Za-z][a-z'-]*")


class Synonyms:
    """Groups of words that may stand for each other."""

    def __init__(self, path: Path) -> None:
        self.options: dict[str, list[str]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            words = [word.strip() for word in line.split(",")]
            for word in words:
                if " " not in word:
                    others = [other for other in words if other != word]
                    self.options.setdefault(word, []).extend(others)

    def swap(self, text: str, rng: random.Random, chance: float) -> str:
        """Replace each lower-case word that has synonyms with the given chance."""

        def one(match: re.Match[str]) -> str:
            options = self.options.get(match.group(0))
            return rng.choice(options) if options and rng.random() < chance else match.group(0)

        return _WORD.sub(one, text)
