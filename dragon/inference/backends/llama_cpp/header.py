"""What a `.gguf` file says about its model before its vocabulary begins.

Neither vocabulary nor weights are read, so a folder of large files is scanned at once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dragon.errors import ConfigurationError
from dragon.inference.backends.slots import MAX_CONTEXT
from dragon.localizable import localizable

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
        own = {
            key.removeprefix(f"{name}."): value
            for key, value in fields.items()
            if key.startswith(f"{name}.")
        }
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
            quotes=fields.get("dragon.answers") == "quotes",
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
