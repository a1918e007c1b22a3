"""What the head of a `.gguf` file says, with neither vocabulary nor weights read."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf import GGUFWriter

from dragon.errors import ConfigurationError
from dragon.inference.backends.llama_cpp.gguf import MAX_CONTEXT, GgufHeader, GgufMetadata


def written(path: Path, architecture: str = "qwen2", **own: object) -> Path:
    """A head without weights, cut where the vocabulary would begin."""
    writer = GGUFWriter(path, architecture)
    known = {"context_length": 131072, "block_count": 24, "embedding_length": 896}
    for name, value in {**known, "attention.head_count": 14, **own}.items():
        if isinstance(value, list):
            writer.add_array(f"{architecture}.{name}", value)
        else:
            writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_string("tokenizer.ggml.model", "gpt2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_it_says_what_reading_the_whole_file_says(embedded_gguf: Path) -> None:
    header, whole = GgufHeader.read(embedded_gguf), GgufMetadata.read(embedded_gguf)
    assert (header.architecture, header.context) == ("qwen2", whole.context)
    assert header.writes
    assert header.quotes is whole.quotes is True


def test_keys_and_values_are_counted_by_layer_and_head(tmp_path: Path) -> None:
    grouped = GgufHeader.read(written(tmp_path / "a.gguf", **{"attention.head_count_kv": 2}))
    assert grouped.kv_bytes == 24 * 2 * (64 + 64) * 2
    assert grouped.context == MAX_CONTEXT
    uneven = {"attention.head_count_kv": [4, 0], "attention.key_length": 128}
    header = GgufHeader.read(written(tmp_path / "b.gguf", block_count=2, **uneven))
    assert header.kv_bytes == 4 * (128 + 64) * 2


def test_nothing_behind_the_vocabularys_beginning_is_read(
    tmp_path: Path, embedded_gguf: Path
) -> None:
    whole = embedded_gguf.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[: whole.index(b"tokenizer.ggml") + 20])
    assert GgufHeader.read(cut) == GgufHeader.read(embedded_gguf)


def test_an_encoder_does_not_write(tmp_path: Path) -> None:
    assert not GgufHeader.read(written(tmp_path / "a.gguf", "bert", pooling_type=1)).writes


@pytest.mark.parametrize(
    "content",
    [b"", b"no model at all", b"GGUF", b"GGUF" + 12 * b"\xff", b"GGUF\x03" + 30 * b"\xff"],
)
def test_damage_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"damaged\.gguf is damaged, or not"):
        GgufHeader.read(path)
