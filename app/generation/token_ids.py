"""Token ids given by a client."""

from __future__ import annotations

from collections.abc import Sequence

from dragon.errors import InvalidRequestError
from dragon.inference.tokenizer import Tokenizer


def known(ids: Sequence[int], tokenizer: Tokenizer, param: str) -> list[int]:
    """The ids; raises `InvalidRequestError` when one is not in the vocabulary."""
    if ids and max(ids) >= tokenizer.vocab_size:
        raise InvalidRequestError(
            f"{param}: {max(ids)} is not a token; the vocabulary has {tokenizer.vocab_size}",
            param=param,
        )
    return list(ids)
