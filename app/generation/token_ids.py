"""Token ids given by a client."""

from __future__ import annotations

from collections.abc import Sequence

from dragon.errors import InvalidRequestError
from dragon.inference.tokenizer import Tokenizer


def known(ids: Sequence[int], tokenizer: Tokenizer, model: str, param: str) -> list[int]:
    """The ids; raises `InvalidRequestError` if one is not in the model's vocabulary."""
    if ids and max(ids) >= tokenizer.vocab_size:
        raise InvalidRequestError(
            f"{param}: {max(ids)} is not a token of {model}, whose vocabulary has "
            f"{tokenizer.vocab_size}: these are another tokenizer's ids. Send the text, or ids of "
            "/tokenize",
            param=param,
        )
    return list(ids)
