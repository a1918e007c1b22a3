"""Answers held to a grammar: which tokens may come next is a function of the text so far.

So both sides of an answer apply the same mask, and drafts roll back with it. Grammars are
llguidance's: made from a JSON schema or a regular expression, or written in Lark or GBNF. Their
cost is bounded in the library's own steps, since a few lines can describe any amount of work.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import takewhile
from operator import eq
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance._lib import LLParserLimits
from llguidance.gbnf_to_lark import GbnfToLarkError, any_to_lark

from dragon.errors import InvalidRequestError
from dragon.sampling.params import MAX_GRAMMAR

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

# Otherwise a model may fill an answer with white space.
SPACING: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
_KEPT = 32  # compiled grammars
_REASON = 300  # characters
_INNER = ("panicked at", "stack backtrace", "<state>", " 0: ")  # internals follow in its messages

# With these limits a mask takes 15 ms at most, and compiling or refusing a grammar 0.1 s. A large
# schema (400 objects in an `anyOf`, 2,000 words in an `enum`) needs a tenth of that.
_LIMITS = LLParserLimits(
    max_items_in_row=1000,
    initial_lexer_fuel=100_000,
    step_lexer_fuel=20_000,
    step_max_items=2000,
    max_lexer_states=20_000,
    max_grammar_size=50_000,
)
# None of them counts the remainders that a `multipleOf` goes through: 4 s and 150 MB for 499,979,
# and as much again for two whose common multiple that is. Zeros at its end cost nothing.
_MOST_REMAINDERS, _MOST_DIGITS = 20_000, 15
_SCHEMA = re.compile(r"(?:^|%json)\s*(?=\{)")
_JSON = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)


def of_schema(schema: dict[str, Any] | bool) -> str:
    """The grammar of a JSON schema. Raises `InvalidRequestError` if it cannot be one."""
    given = {} if schema is True else {"not": {}} if schema is False else schema
    try:
        return LLMatcher.grammar_from_json_schema(given, overrides=SPACING)
    except (ValueError, RecursionError) as error:  # such as a number that JSON cannot represent
        raise _refusal(str(error)) from error


def of_regex(pattern: str) -> str:
    """The grammar of a regular expression that must match as a whole.

    Raises `InvalidRequestError` if it is too long.
    """
    return LLMatcher.grammar_from_regex(require_short(pattern))


def of_text(grammar: str) -> str:
    """A grammar in Lark's notation, or in llama.cpp's GBNF.

    Raises `InvalidRequestError` if it is neither, or too long.
    """
    try:
        return LLMatcher.grammar_from_lark(any_to_lark(require_short(grammar)))
    except (GbnfToLarkError, RecursionError) as error:
        raise _refusal(str(error)) from error


def require_short(text: str) -> str:
    """The text of a grammar; raises `InvalidRequestError` if it is too long."""
    if len(text) > MAX_GRAMMAR:
        raise InvalidRequestError(
            f"a grammar or schema may have at most {MAX_GRAMMAR} characters", param="grammar"
        )
    return text


def _require_few_remainders(grammar: str) -> None:
    """Raises `InvalidRequestError` if numbers are to be multiples of large ones, or of many."""
    try:
        steps = list(_steps(grammar))
    except (ValueError, RecursionError):
        return  # the compiler says why it is no grammar
    if any(abs(step.adjusted()) > _MOST_DIGITS for step in steps):
        raise _refusal("a multipleOf has too many digits")
    # Any of them may be joined, into their common multiple.
    scale = max((-int(step.as_tuple().exponent) for step in steps), default=0)
    common = math.lcm(*(int(step.scaleb(scale)) for step in steps))
    if len(steps) * common > _MOST_REMAINDERS:
        raise _refusal("it asks for multiples of numbers that are too large together")


def _steps(given: Any) -> Iterator[Decimal]:
    """Each `multipleOf` of the schemas in a grammar's text, or of a schema."""
    if isinstance(given, str):
        for found in _SCHEMA.finditer(given):
            yield from _steps(_JSON.raw_decode(given, found.end())[0])
    elif isinstance(given, list):
        for each in given:
            yield from _steps(each)
    elif isinstance(given, dict):
        for key, each in given.items():
            if key == "multipleOf" and isinstance(each, Decimal):
                yield each.normalize()
            else:
                yield from _steps(each)


def _refusal(reason: str) -> InvalidRequestError:
    for inner in _INNER:
        reason = reason.partition(inner)[0]
    said = " ".join(reason.split())[:_REASON] or "it is too large"
    return InvalidRequestError(f"this cannot be a grammar: {said}")


class Grammars:
    """Compiles grammars for a tokenizer and keeps the most recently used. Thread-safe."""

    def __init__(self, tokenizer: str, vocab_size: int, ends: Collection[int]) -> None:
        """`tokenizer` is the text of a `tokenizer.json`, `vocab_size` how many tokens count."""
        self._size = vocab_size
        self._ends = sorted(ends)
        self._tokens = LLTokenizer(tokenizer, eos_token=self._ends)
        self._compiled = lru_cache(_KEPT)(self._compile)

    def mask(self, grammar: str) -> Mask:
        """The mask of an answer; raises `InvalidRequestError` for an invalid grammar."""
        return Mask(self._compiled(grammar), self._size, self._ends)

    def _compile(self, grammar: str) -> LLMatcher:
        _require_few_remainders(require_short(grammar))
        compiled = LLMatcher(self._tokens, grammar, log_level=0, limits=_LIMITS)
        first = compiled.deep_copy()
        if not first.is_error():
            first.compute_bitmask()
        if first.is_error():
            raise _refusal(first.get_error())
        return compiled


class Mask:
    def __init__(self, compiled: LLMatcher, vocab_size: int, ends: Sequence[int]) -> None:
        self._compiled = compiled
        self._matcher = compiled.deep_copy()
        self._size = vocab_size
        self._only_end = torch.zeros(vocab_size, dtype=torch.bool)
        self._only_end[list(ends)] = True
        self._ends = frozenset(ends)
        self._read: list[int] = []

    def allowed(self, text: Sequence[int]) -> torch.Tensor:
        """Which tokens may follow the text: bool [V].

        A text that violates the grammar may only end, as may one that is too expensive to continue.
        """
        if not self._follow(text):
            return self._only_end
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.unpackbits(bits, count=self._size, bitorder="little")
        return torch.from_numpy(allowed.view(np.bool_)) if allowed.any() else self._only_end

    def permits(self, text: Sequence[int], token: int) -> bool:
        """Whether the text still satisfies the grammar with this token.

        True for all of `allowed`, which offers only one spelling where the text is forced.
        """
        if token < self._size and self._follow(text) and self._matcher.validate_tokens([token]):
            return True
        return token in self._ends and bool(self.allowed(text)[token])

    def _follow(self, text: Sequence[int]) -> bool:
        """Read the text; False if it violates the grammar."""
        if self._matcher.is_error():  # another text was too expensive, perhaps a draft
            self._matcher, self._read = self._compiled.deep_copy(), []
        alike = map(eq, self._read, text)
        same = sum(takewhile(bool, alike))
        if same < len(self._read):
            self._matcher.rollback(len(self._read) - same)
            del self._read[same:]
        rest = list(text[same:])
        right = self._matcher.validate_tokens(rest) if rest else 0
        if right:
            self._matcher.consume_tokens(rest[:right])
            self._read += rest[:right]
        return right == len(rest) and not self._matcher.is_error()
