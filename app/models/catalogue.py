"""Models that can be fetched from the hub as `.gguf` files, the smallest first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragon.errors import NotFoundError
from dragon.localizable import Localizable, localizable

_GOOD_AT = {
    "quick": localizable("offer.quick", "Quick even on old machines. Short, simple answers."),
    "light": localizable("offer.light", "Quick on most laptops. Answers of a few sentences."),
    "tongues": localizable("offer.tongues", "At home in many languages."),
    "thinks": localizable("offer.thinks", "Thinks before it answers. About a hundred languages."),
    "good": localizable("offer.good", "Good answers at a moderate pace."),
    "best": localizable("offer.best", "The best answers of these. Wants a strong machine."),
}
# Name, repository, file, size and memory at most in GB, licence, what for.
_TABLE = """
SmolLM2-360M HuggingFaceTB/SmolLM2-360M-Instruct-GGUF smollm2-360m-instruct-q8_0.gguf .39 .7 Apache-2.0 quick
Qwen3-0.6B   Qwen/Qwen3-0.6B-GGUF                Qwen3-0.6B-Q8_0.gguf               .64 4.4 Apache-2.0 quick
Gemma-3-1B   ggml-org/gemma-3-1b-it-GGUF         gemma-3-1b-it-Q4_K_M.gguf          .81 1.7 Gemma      tongues
Llama-3.2-1B bartowski/Llama-3.2-1B-Instruct-GGUF Llama-3.2-1B-Instruct-Q4_K_M.gguf .81 1.9 Llama-3.2  light
SmolLM2-1.7B HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF smollm2-1.7b-instruct-q4_k_m.gguf 1.06 2.7 Apache-2.0 light
Qwen3-1.7B   Qwen/Qwen3-1.7B-GGUF                Qwen3-1.7B-Q8_0.gguf               1.83 5.6 Apache-2.0 thinks
SmolLM3-3B   ggml-org/SmolLM3-3B-GGUF            SmolLM3-Q4_K_M.gguf                1.92 4.3 Apache-2.0 good
Llama-3.2-3B bartowski/Llama-3.2-3B-Instruct-GGUF Llama-3.2-3B-Instruct-Q4_K_M.gguf 2.02 5.8 Llama-3.2  good
Gemma-3-4B   ggml-org/gemma-3-4b-it-GGUF         gemma-3-4b-it-Q4_K_M.gguf          2.49 7.1 Gemma      tongues
Qwen3-4B     Qwen/Qwen3-4B-GGUF                  Qwen3-4B-Q4_K_M.gguf               2.5  7.3 Apache-2.0 thinks
Qwen3-8B     Qwen/Qwen3-8B-GGUF                  Qwen3-8B-Q4_K_M.gguf               5.03 9.9 Apache-2.0 best
"""  # noqa: E501


@dataclass(frozen=True)
class Offer:
    """A file of the hub; its size and the memory that it takes at most, in bytes."""

    name: str
    repository: str
    file: str
    size: int
    memory: int
    licence: str
    good_at: Localizable

    def path(self, folder: Path) -> Path:
        """Where it is kept; the list of models names it after this file."""
        return folder / f"{self.name}.gguf"

    def part(self, folder: Path) -> Path:
        """Where an incomplete download is kept."""
        return folder / f"{self.name}.part"


def _offer(name: str, repository: str, file: str, *facts: str) -> Offer:
    size, memory, licence, good_at = facts
    in_bytes = [round(float(each) * 1e9) for each in (size, memory)]
    return Offer(name, repository, file, in_bytes[0], in_bytes[1], licence, _GOOD_AT[good_at])


OFFERS = tuple(_offer(*line.split()) for line in _TABLE.strip().splitlines())


def offer_named(name: str) -> Offer:
    """The offer with this name, in any capitalisation. Raises `NotFoundError`."""
    for offer in OFFERS:
        if offer.name.lower() == name.lower():
            return offer
    raise NotFoundError(
        localizable(
            "offer.unknown",
            "No model called {name} is offered: `dragon models get --list` says what is.",
            name=repr(name),
        )
    )
