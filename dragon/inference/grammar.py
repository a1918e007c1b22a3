"""Answers held to a grammar: which tokens may come next is a function of the text so far.

So both sides of an answer apply the same mask, and drafts roll back with it. Grammars are
llguidance's: made of a JSON schema, a regular expression, or written in Lark or GBNF.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.gbnf_to_lark import GbnfToLarkError, any_to_lark

from dragon.errors import InvalidRequestError

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

# Else a model may fill an answer with white space.
SPACING: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
_KEPT = 32  # grammars
_REASON = 300  # characters


def of_schema(schema: dict[str, Any] | bool) -> str:
    """The grammar of what a JSON schema describes."""
    given = {} if schema is True else {"not": {}} if schema is False else schema
    return LLMatcher.grammar_from_json_schema(given, overrides=SPACING)


def of_regex(pattern: str) -> str:
    """The grammar of what a regular expression matches as a whole."""
    return LLMatcher.grammar_from_regex(pattern)


def of_text(grammar: str) -> str:
    """A grammar in Lark's notation, or in that of llama.cpp, GBNF.

    Raises `InvalidRequestError` for what is neither.
    """
    try:
        return LLMatcher.grammar_from_lark(any_to_lark(grammar))
    except (GbnfToLarkError, RecursionError) as error:
        raise InvalidRequestError(f"this cannot be a grammar: {error}") from error


class Grammars:
    """Compiles grammars over one tokenizer's tokens, and keeps those used last. Thread-safe."""

    def __init__(self, tokenizer: str, vocab_size: int, ends: Collection[int]) -> None:
        """`tokenizer` is the text of a `tokenizer.json`, `vocab_size` how many tokens count."""
        self._size = vocab_size
        self._ends = sorted(ends)
        self._tokens = LLTokenizer(tokenizer, eos_token=self._ends)
        self._compiled: OrderedDict[str, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()

    def mask(self, grammar: str) -> Mask:
        """The mask of an answer; raises `InvalidRequestError` for what is no grammar."""
        with self._lock:
            compiled = self._compiled.get(grammar)
        if compiled is None:
            compiled = LLMatcher(self._tokens, grammar, log_level=0)
            if compiled.is_error():
                reason = " ".join(compiled.get_error().split())[:_REASON]
                raise InvalidRequestError(f"this cannot be a grammar: {reason}")
        with self._lock:
            self._compiled[grammar] = compiled
            self._compiled.move_to_end(grammar)
            while len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
            return Mask(compiled.deep_copy(), self._size, self._ends)


class Mask:
    """Which tokens a grammar allows, text by text."""

    def __init__(self, matcher: LLMatcher, vocab_size: int, ends: Sequence[int]) -> None:
        self._matcher = matcher
        self._size = vocab_size
        self._only_end = torch.zeros(vocab_size, dtype=torch.bool)
        self._only_end[list(ends)] = True
        self._ends = frozenset(ends)
        self._read: list[int] = []

    def allowed(self, text: Sequence[int]) -> torch.Tensor:
        """Which tokens may follow the text: bool [V]. A text that is none of the grammar's ends."""
        if not self._follow(text):
            return self._only_end
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.unpackbits(bits, bitorder="little")[: self._size].astype(np.bool_)
        found = torch.zeros(self._size, dtype=torch.bool)
        found[: len(allowed)] = torch.from_numpy(allowed)
        return found if bool(found.any()) else self._only_end

    def permits(self, text: Sequence[int], token: int) -> bool:
        """Whether the text keeps to the grammar with this token.

        It does with all that `allowed` has, which of what is forced has one spelling alone.
        """
        if token < self._size and self._follow(text) and self._matcher.validate_tokens([token]):
            return True
        return token in self._ends and bool(self.allowed(text)[token])

    def _follow(self, text: Sequence[int]) -> bool:
        """Read the text; False where it is none of the grammar's."""
        pairs = zip(self._read, text, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if same < len(self._read):
            self._matcher.rollback(len(self._read) - same)
            del self._read[same:]
        rest = list(text[same:])
        right = self._matcher.validate_tokens(rest) if rest else 0
        if right:
            self._matcher.consume_tokens(rest[:right])
            self._read += rest[:right]
        return right == len(rest) and not self._matcher.is_error()
