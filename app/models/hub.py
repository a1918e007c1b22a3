"""Models in the Hugging Face hub's cache, which PyTorch runs, and `.gguf` files in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.models import files
from app.models.model import Model, ModelKind
from app.paths import short
from dragon.localizable import localizable

WHERE = localizable("model.where.hub", "Hugging Face cache")
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def cached(dtype: str) -> Iterator[Model]:
    """The models in the hub's cache; `dtype` is the type that weights are loaded as."""
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    try:
        folder = os.environ.get("HF_HUB_CACHE") or constants.HF_HUB_CACHE
        repositories = sorted(scan_cache_dir(folder).repos, key=lambda repo: repo.repo_id)
    except (CacheNotFound, ValueError, OSError):
        return
    for repository in repositories:
        revisions = sorted(repository.revisions, key=lambda each: each.last_modified)
        if repository.repo_type != "model" or not revisions:
            continue
        snapshot = revisions[-1].snapshot_path
        ggufs = sorted(snapshot.glob("*.gguf"))
        yield from (files.gguf(path, WHERE) for path in ggufs)
        if (snapshot / "config.json").exists() or not ggufs:
            yield replace(
                directory(snapshot, dtype),
                name=repository.repo_id,
                setting=repository.repo_id,
                where=WHERE,
                file=snapshot,
            )


def directory(path: Path, dtype: str) -> Model:
    """A model directory as `transformers` saves it."""
    # Imported late: it takes seconds, and is not needed without such a model.
    from transformers import AutoConfig

    weights = [file for pattern in _WEIGHTS for file in path.glob(pattern)]
    size = sum(file.stat().st_size for file in weights)
    model = Model(path.name, ModelKind.DIRECTORY, short(path.parent), str(path), size=size)
    try:
        config = AutoConfig.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        first = str(error).strip().partition("\n")[0]
        return replace(
            model,
            refusal=localizable(
                "model.configuration", "Its configuration cannot be read: {why}", why=first
            ),
        )
    if not weights:
        return replace(
            model, refusal=localizable("model.weights", "Its weights have not been downloaded.")
        )
    text = config.get_text_config()
    loaded = _BYTES[dtype]
    stored = _BYTES.get(str(getattr(text, "dtype", "")).removeprefix("torch."), loaded)
    from dragon.inference.backends.slots import MAX_CONTEXT

    context = min(MAX_CONTEXT, int(getattr(text, "max_position_embeddings", 0) or MAX_CONTEXT))
    memory = size * loaded // stored + context * _kv_bytes(text, loaded)
    return replace(model, context=context, memory=memory, refusal=_refusal(path, config, text))


def _kv_bytes(config: Any, item: int) -> int:
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * int(config.num_hidden_layers) * int(heads) * int(width) * item


def _refusal(path: Path, config: Any, text: Any) -> str:
    architectures = getattr(config, "architectures", None) or []
    if architectures and not any("CausalLM" in name or "LMHead" in name for name in architectures):
        return localizable(
            "model.writes", "It does not write text ({name}).", name=str(architectures[0])
        )
    if not (path / "tokenizer.json").exists():
        return localizable("model.tokenizer", "It has no tokenizer.json.")
    if any("sliding" in kind for kind in getattr(text, "layer_types", None) or ()):
        return localizable(
            "model.sliding",
            "It has sliding attention, which is not supported; its .gguf file may serve.",
        )
    if getattr(text, "attn_logit_softcapping", None) is not None:
        return localizable(
            "model.capped",
            "It caps attention scores, which is not supported; its .gguf file may serve.",
        )
    return ""
