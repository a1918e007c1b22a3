"""What a `.gguf` file says about its model and tokenizer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer as Core
from transformers import PreTrainedTokenizerFast
from transformers.integrations.gguf import read_gguf_metadata

from dragon.errors import ConfigurationError

ANSWERS = "dragon.answers"
"""The key that says how the model answers: "quotes", or else in its own words."""

_TOKENS = "tokenizer.ggml.tokens"


@dataclass(frozen=True)
class GgufMetadata:
    """The context length it was trained on, its number of tokens with padding, and its end tokens.

    `tokenizer` is the text of its `tokenizer.json`, empty if the file does not contain one.
    """

    context: int
    tokens: int
    ends: frozenset[int]
    quotes: bool
    template: str
    tokenizer: str

    @classmethod
    def read(cls, path: Path) -> GgufMetadata:
        """Raises `ConfigurationError` for anything but a `.gguf` file of a language model."""
        try:
            fields, _ = read_gguf_metadata(str(path), (_TOKENS,))
        except (OSError, ValueError, KeyError, IndexError, struct.error) as error:
            raise ConfigurationError(f"{path} is not a .gguf file: {error}") from error
        context = fields.get(f"{fields['general.architecture']}.context_length")
        tokens = fields.get(_TOKENS)
        if context is None or tokens is None:
            raise ConfigurationError(f"{path} is a .gguf file, but not of a language model")
        ends = (fields.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
        return cls(
            context=int(context),
            tokens=len(tokens),
            ends=frozenset(int(end) for end in ends if end is not None),
            quotes=fields.get(ANSWERS) == "quotes",
            template=fields.get("tokenizer.chat_template", ""),
            tokenizer=fields.get("tokenizer.huggingface.json", ""),
        )


def tokenizer_of(path: Path) -> tuple[PreTrainedTokenizerFast, int]:
    """The file's tokenizer and chat template, and its number of tokens.

    Raises `ConfigurationError` if it has none.
    """
    metadata = GgufMetadata.read(path)
    if not metadata.tokenizer:
        try:
            # Not `AutoTokenizer`: that reads the file again, eight times as long, for the model's
            # own class, which may add tokens that the file does not have.
            made = PreTrainedTokenizerFast.from_pretrained(str(path.parent), gguf_file=path.name)
            return made, metadata.tokens
        except (OSError, ValueError, KeyError) as error:
            raise ConfigurationError(f"no tokenizer can be made from {path}: {error}") from error
    core = Core.from_str(metadata.tokenizer)
    made = PreTrainedTokenizerFast(tokenizer_object=core)
    names = [core.id_to_token(end) for end in sorted(metadata.ends)]
    made.eos_token = names[0] if names else None
    made.chat_template = metadata.template or None
    return made, metadata.tokens
