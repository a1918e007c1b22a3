"""Reads what a `.gguf` file says about its model and tokenizer.

`GgufHeader` reads neither vocabulary nor weights, so a folder of large files is scanned at once;
`GgufMetadata` reads all but the weights.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dragon.errors import ConfigurationError
from dragon.inference.backends.slots import MAX_CONTEXT
from dragon.localizable import localizable

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ANSWERS = "dragon.answers"
"""The key that says how the model answers: "quotes", or else in its own words."""

_TOKENS = "tokenizer.ggml.tokens"
_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
_LONGEST = 1 << 24  # bytes of a string, items of an array: more means damage
_KV_ITEM = 2  # bytes: llama.cpp keeps keys and values in half precision


@dataclass(frozen=True)
class GgufHeader:
    """Architecture, context in tokens, and bytes of keys and values per position.

    `writes`: it is a language model that continues a text. `quotes`: it answers by quotes alone.
    """

    architecture: str
    context: int
    kv_bytes: int
    writes: bool
    quotes: bool

    @classmethod
    def read(cls, path: Path) -> GgufHeader:
        """Raises `ConfigurationError` for anything but a complete `.gguf` header."""
        try:
            with path.open("rb") as file:
                fields = _fields(file)
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise ConfigurationError(
                localizable(
                    "model.damaged", "{name} is damaged, or not a .gguf file", name=path.name
                )
            ) from error
        name = str(fields.get("general.architecture", ""))
        own = {key.removeprefix(f"{name}."): value for key, value in fields.items()}
        layers = int(own.get("block_count", 0))
        heads = own.get("attention.head_count_kv", own.get("attention.head_count", 0))
        all_heads = sum(heads) if isinstance(heads, list) else layers * int(heads)
        width = _width(own)
        return cls(
            architecture=name,
            context=min(MAX_CONTEXT, int(own.get("context_length", 0))),
            kv_bytes=all_heads * width * _KV_ITEM,
            # An encoder pools what it reads, or attends to later tokens.
            writes=bool(own.get("context_length"))
            and "pooling_type" not in own
            and bool(own.get("attention.causal", True)),
            quotes=fields.get(ANSWERS) == "quotes",
        )


def _width(own: dict[str, Any]) -> int:
    """Numbers in a key and a value of one head."""
    heads = own.get("attention.head_count", 1)
    heads = max(heads) if isinstance(heads, list) else heads
    usual = int(own.get("embedding_length", 0)) // max(1, int(heads))
    sizes = (own.get(f"attention.{part}_length", usual) for part in ("key", "value"))
    return sum(map(int, sizes))


def _fields(file: IO[bytes]) -> dict[str, Any]:
    """Keys and values up to the vocabulary, which follows the architecture's."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("no .gguf file")
    _version, _tensors, count = _unpack(file, "IQQ")
    fields: dict[str, Any] = {}
    for _ in range(count):
        key = _string(file)
        if key.startswith("tokenizer.") and any(each.endswith(".block_count") for each in fields):
            break
        (kind,) = _unpack(file, "I")
        fields[key] = _value(file, kind)
    return fields


def _value(file: IO[bytes], kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        return _unpack(file, _SCALARS[kind])[0]
    inner, count = _unpack(file, "IQ")
    if count > _LONGEST:
        raise ValueError("an array has no end")
    return [_value(file, inner) for _ in range(count)]


def _string(file: IO[bytes]) -> str:
    (length,) = _unpack(file, "Q")
    if length > _LONGEST:
        raise ValueError("a string has no end")
    return file.read(length).decode("utf-8", "replace")


def _unpack(file: IO[bytes], layout: str) -> tuple[Any, ...]:
    layout = f"<{layout}"
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


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
        # Imported late, as below: a list of models needs headers alone.
        from transformers.integrations.gguf import read_gguf_metadata

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


def gguf_tokenizer(path: Path) -> tuple[PreTrainedTokenizerFast, int]:
    """The file's tokenizer and chat template, and its number of tokens.

    Raises `ConfigurationError` if it has none.
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    metadata = GgufMetadata.read(path)
    if not metadata.tokenizer:
        try:
            # Not `AutoTokenizer`: that reads the file again, eight times as long, for the model's
            # own class, which may add tokens that the file does not have.
            made = PreTrainedTokenizerFast.from_pretrained(str(path.parent), gguf_file=path.name)
            return made, metadata.tokens
        except (OSError, ValueError, KeyError) as error:
            raise ConfigurationError(f"no tokenizer can be made from {path}: {error}") from error
    core = Tokenizer.from_str(metadata.tokenizer)
    made = PreTrainedTokenizerFast(tokenizer_object=core)
    names = [core.id_to_token(end) for end in sorted(metadata.ends)]
    made.eos_token = names[0] if names else None
    made.chat_template = metadata.template or None
    return made, metadata.tokens
