"""A model in a `.gguf` file, run by llama.cpp in this process.

llama.cpp's server object, of the package xllamacpp, keeps a slot's keys and values and computes
what a prompt has beyond them. So a row is a list of tokens here, a step is a prompt, and rolling
back is a shorter prompt. All prompts and results are token ids.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from dragon.errors import ConfigurationError, DragonError, PreemptedError
from dragon.inference.backends.backend import never
from dragon.inference.backends.llama_cpp.metadata import Metadata
from dragon.inference.backends.slots import BLOCK, MAX_CONTEXT, Slots, blocks_of
from dragon.inference.logprobs import MAX_TOP

# Tokens named of a position. They hold 98 % of nearly every distribution, as much as the wire does.
LIKELIEST = 256
# Probabilities among the likeliest: that takes less than to sort all of a vocabulary.
_LIKELIEST = {"samplers": ["top_k"], "top_k": LIKELIEST, "post_sampling_probs": True}
# And of these what holds nearly all: to write down 256 takes a tenth of a step.
_NUCLEUS = {"samplers": ["top_k", "top_p"], "top_p": 0.999, "min_keep": MAX_TOP}
_SLOTS = 16
# Positions that all slots share: one at full length, or many short ones.
_LEAST_POSITIONS = 16384


class LlamaCpp:
    """Weights and slots. The engine's thread alone runs it."""

    full = False
    parallel = False
    kv = None

    def __init__(self, path: Path, vocab_size: int, *, threads: int) -> None:
        """Load a file. Raises `ConfigurationError` when it cannot be loaded."""
        metadata = Metadata.read(path)
        if metadata.tokens < vocab_size:
            raise ConfigurationError(f"{path.name}: the tokenizer has more tokens than the model")
        self.name = path.stem
        self._path = path
        self.vocab_size = vocab_size
        self.context = min(MAX_CONTEXT, metadata.context)
        self.quotes = metadata.quotes
        self.ends = metadata.ends
        self._positions = BLOCK * blocks_of(max(self.context, _LEAST_POSITIONS))
        self.cache = Slots(_SLOTS, self.context, self._positions)
        self._texts: list[list[int]] = [[] for _ in range(_SLOTS)]
        self._tokens = metadata.tokens
        # One that quotes may have to write what is not likely.
        self._likeliest = _LIKELIEST if self.quotes else _LIKELIEST | _NUCLEUS
        self._letter = [[metadata.letter, 1e6]]
        self._server = serve(path, self._positions, threads)
        # A thread a slot: the server computes the prompts that wait in one batch.
        self._threads = ThreadPoolExecutor(_SLOTS, "llama.cpp")

    @cached_property
    def weights(self) -> str:
        """Names all that is in the file."""
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def feed(
        self,
        slot: int,
        tokens: Sequence[int],
        start: int = 0,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> None:
        """Feed a row at `start` these tokens; they are computed with those that follow."""
        self._texts[slot][start:] = tokens

    def forward(
        self,
        slots: Sequence[int],
        starts: Sequence[int],
        tokens: torch.Tensor,
        outputs: int,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> torch.Tensor:
        """As `Backend.forward`; raises `DragonError` when llama.cpp fails."""
        whole = torch.full((len(slots), outputs, self._tokens), -torch.inf)
        length = tokens.shape[1]
        for slot, start, row in zip(slots, starts, tokens.tolist(), strict=True):
            self._texts[slot][start:] = row
        self._make_room()
        for place in range(outputs):
            if cancelled():
                for slot, start in zip(slots, starts, strict=True):
                    del self._texts[slot][start:]
                raise PreemptedError("the step is no longer wanted")
            ends = [start + length - outputs + place + 1 for start in starts]
            # To hand one over to another thread takes longer than it saves.
            each = self._threads.map if len(slots) > 1 else map
            for row, (ids, logits) in enumerate(each(self._next, slots, ends)):
                whole[row, place, ids] = logits
        return whole[..., : self.vocab_size]

    def close(self) -> None:
        """Free the model."""
        self._threads.shutdown()
        del self._server

    def _make_room(self) -> None:
        """Have llama.cpp forget texts that have ended, where their positions are needed.

        Else they stay, until their slots are used again: to forget one costs a token.
        """
        for slot, text in enumerate(self._texts):
            if sum(map(len, self._texts)) <= self._positions:
                return
            if slot not in self.cache.taken and len(text) > 1:
                del text[1:]
                self._next(slot, 1)

    def _next(self, slot: int, end: int) -> tuple[list[int], torch.Tensor]:
        """The likeliest tokens after a row's first `end`, and their logits."""
        prompt = self._texts[slot][:end]
        if (named := self._completed(slot, prompt, self._likeliest)) is not None:
            likeliest = named["top_probs"]
            probabilities = torch.tensor([each["prob"] for each in likeliest])
            return [each["id"] for each in likeliest], probabilities.log()
        # It drew a token of half a character, of which it tells nothing. It is made to say a
        # letter; these probabilities are those without the bias.
        said = {"samplers": [], "logit_bias": self._letter}
        named = self._completed(slot, prompt, said)
        if named is None:
            raise DragonError("llama.cpp named no likeliest tokens")
        likeliest = named["top_logprobs"]
        logits = torch.tensor([each["logprob"] for each in likeliest])
        return [each["id"] for each in likeliest], logits

    def _completed(self, slot: int, prompt: list[int], how: dict[str, Any]) -> Any:
        """What llama.cpp says of the next token, if anything."""
        reply = self._server.handle_completions(
            {
                "prompt": prompt,
                "id_slot": slot,
                "cache_prompt": True,
                "n_predict": 1,
                "n_probs": LIKELIEST,
                **how,
            }
        )
        if "choices" not in reply:
            raise DragonError(f"llama.cpp: {reply.get('error', reply)}")
        probabilities = reply["choices"][0]["logprobs"]
        return None if probabilities is None else probabilities["content"][0]


def serve(path: Path, positions: int, threads: int) -> Any:
    """A server object of llama.cpp. Raises `ConfigurationError` when it cannot be had."""
    try:
        import xllamacpp
    except ImportError as error:
        raise ConfigurationError(
            "a .gguf file is run by llama.cpp: pip install 'dragon-rag[gguf]'"
        ) from error
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = positions
    params.n_parallel = _SLOTS
    params.kv_unified = True
    params.cache_ram_mib = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = -1
    # It listens on loopback as well, where nobody else on the machine is to ask it.
    params.api_keys = [secrets.token_urlsafe(32)]
    params.ui = params.endpoint_slots = params.endpoint_props = False
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise ConfigurationError(f"llama.cpp cannot load {path}: {error}") from error
