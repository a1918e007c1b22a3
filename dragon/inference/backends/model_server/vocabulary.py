"""Whether a model server's tokens are those of a tokenizer."""

from __future__ import annotations

from collections.abc import Collection

from dragon.inference.backends.model_server.endpoint import RefusedError, ServerClient
from dragon.inference.tokenizer import Tokenizer

_SAMPLED = 512
_ALIKE = 0.9


def same(endpoint: ServerClient, tokenizer: Tokenizer, model: str) -> bool | None:
    """Whether the server decodes tokens to the same words; None if it cannot decode.

    Raises `LostError`, `BusyError` and `RefusedError`.
    """
    words = {
        token: text
        for text, token in tokenizer.by_text.items()
        if text[0] == " " and text[1:].isalpha() and text.isascii()
    }
    sampled = sorted(words)[:: max(1, len(words) // _SAMPLED)]
    try:
        reply = endpoint.ask("POST", "/detokenize", {"tokens": sampled, "model": model})
    except RefusedError as error:
        if error.status in (400, 422, 500):  # it lacks a token
            return False
        if error.status in (404, 405, 501):
            return None
        raise
    said = next((reply[name] for name in ("content", "prompt", "text") if name in reply), None)
    if not isinstance(said, str):
        return None
    return said.strip() == "".join(words[token] for token in sampled).strip()


def known(tokenizer: Tokenizer, names: Collection[str]) -> bool:
    """Whether a server's names of tokens are texts of the tokenizer's tokens."""
    whole = [name for name in names if "\ufffd" not in name]
    return bool(whole) and alike(whole, tokenizer.by_text)


def alike(names: Collection[str], others: Collection[str]) -> bool:
    """Whether nearly all names are among the others: near ties may differ at the end."""
    return sum(name in others for name in names) >= _ALIKE * len(names)
