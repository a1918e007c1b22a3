"""What a `.gguf` file says of the model and the tokenizer in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Core
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from dragon.errors import ConfigurationError

ANSWERS = "dragon.answers"
"""The key of how the model answers: "quotes", or in words of its own."""


@dataclass(frozen=True)
class Metadata:
    """The length of context it was trained on, tokens with padding, and tokens that end a text.

    `letter` is the token of the letter a. `tokenizer` is the text of its `tokenizer.json`, empty
    where the file does not carry it.
    """

    context: int
    tokens: int
    letter: int
    ends: frozenset[int]
    quotes: bool
    template: str
    tokenizer: str

    @classmethod
    def read(cls, path: Path) -> Metadata:
        """Raises `ConfigurationError` for what is not a `.gguf` file of a language model."""
        try:
            from gguf import GGUFReader
        except ImportError as error:
            raise ConfigurationError(
                "a .gguf file is run by llama.cpp: pip install 'dragon-rag[gguf]'"
            ) from error
        try:
            fields = GGUFReader(path).fields
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise ConfigurationError(f"{path} is not a .gguf file: {error}") from error

        def of(key: str, otherwise: Any) -> Any:
            return fields[key].contents() if key in fields else otherwise

        context = of(f"{of('general.architecture', '')}.context_length", None)
        if context is None or "tokenizer.ggml.tokens" not in fields:
            raise ConfigurationError(f"{path} is a .gguf file, but of no language model")
        tokens = fields["tokenizer.ggml.tokens"]
        ends = (of(f"tokenizer.ggml.{name}_token_id", None) for name in ("eos", "eot", "eom"))
        return cls(
            context=int(context),
            tokens=len(tokens.data),
            letter=tokens.contents().index("a"),
            ends=frozenset(int(end) for end in ends if end is not None),
            quotes=of(ANSWERS, "") == "quotes",
            template=of("tokenizer.chat_template", ""),
            tokenizer=of("tokenizer.huggingface.json", ""),
        )


def tokenizer_of(path: Path) -> tuple[PreTrainedTokenizerFast, int]:
    """The file's tokenizer and chat template, and how many tokens the file has.

    The tokenizer may have more: classes of `transformers` add special tokens of their own. Raises
    `ConfigurationError` where there is none.
    """
    metadata = Metadata.read(path)
    if not metadata.tokenizer:
        try:
            made = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
            return made, metadata.tokens
        except (OSError, ValueError, KeyError) as error:
            raise ConfigurationError(f"no tokenizer can be made of {path}: {error}") from error
    core = Core.from_str(metadata.tokenizer)
    made = PreTrainedTokenizerFast(tokenizer_object=core)
    names = [core.id_to_token(end) for end in sorted(metadata.ends)]
    made.eos_token = names[0] if names else None
    made.chat_template = metadata.template or None
    return made, metadata.tokens
