"""Describes models before they are loaded, and finds those in files.

Files are `.gguf`, wherever programs and people put them, or directories in the hub's cache.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from app.paths import short
from dragon.errors import ConfigurationError
from dragon.inference.backends.llama_cpp.gguf import GgufHeader
from dragon.inference.backends.slots import MAX_CONTEXT
from dragon.localizable import localizable

SETTINGS = ("DRAGON_MODEL", "DRAGON_MODEL_NAME", "DRAGON_TOKENIZER")
KEY = "DRAGON_MODEL_KEY"


class ModelKind(StrEnum):
    """The kind of a model."""

    DEMO = "demo"
    FILE = "file"  # .gguf, run by llama.cpp
    DIRECTORY = "directory"  # run by PyTorch
    SERVER = "server"


@dataclass(frozen=True)
class Model:
    """A model: its name here, where it is, and `setting`, its value of `DRAGON_MODEL`.

    `size` and `memory` are in bytes, `context` in tokens; None if unknown. `refusal` is a sentence
    that says why it cannot be used, empty if nothing is known against it; `hint` is other
    information. `file` is the target of the link at `setting`, if that must be created. For a
    server, `served` is its model's name if it has several, `tokenizer` where that model's tokenizer
    is, and `key` what to send; `wants_key`: it replied that it wants a key, or another one.
    """

    name: str
    kind: ModelKind
    where: str
    setting: str
    size: int | None = None
    memory: int | None = None
    context: int | None = None
    refusal: str = ""
    hint: str = ""
    file: Path | None = None
    served: str = ""
    tokenizer: str = ""
    key: SecretStr | None = None
    wants_key: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """The settings that select it; empty ones must be unset."""
        model = "" if self.kind is ModelKind.DEMO else self.setting
        values = (model, self.served, self.tokenizer)
        return dict(zip(SETTINGS, values, strict=True))

    @property
    def identity(self) -> str:
        """A value that is the same for two paths to one file."""
        if self.kind is ModelKind.SERVER:
            return f"{self.setting} {self.served}"
        return _resolved(self.file or self.setting)

    def is_set_by(self, setting: str) -> bool:
        """Whether a value of `DRAGON_MODEL` names this model."""
        return setting == self.setting or (
            self.kind is not ModelKind.SERVER and _resolved(setting) == self.identity
        )

    def within(self, memory: int) -> Model:
        """The model, refused if it needs more than `memory` bytes."""
        if self.refusal or self.memory is None or self.memory <= memory:
            return self
        refusal = localizable(
            "model.large",
            "It needs about {needed} of memory; this machine has {there}.",
            needed=gigabytes(self.memory),
            there=gigabytes(memory),
        )
        return replace(self, refusal=refusal)


def installed_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def gigabytes(count: int) -> str:
    """A number of bytes, for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def _resolved(path: Path | str) -> str:
    return os.path.realpath(Path(path).expanduser())


# Models in files.


_PART = re.compile(r"-(\d{5})-of-(\d{5})$")
_DEPTHS = ("*.gguf", "*/*.gguf", "*/*/*.gguf")
_OLLAMA_REGISTRY = "registry.ollama.ai/library/"
_MODEL_LAYER = "application/vnd.ollama.image.model"
_HUB = localizable("model.where.hub", "Hugging Face cache")
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def lm_studio(home: Path) -> Iterator[Model]:
    """The models that LM Studio has downloaded."""
    for folder in (home / ".lmstudio/models", home / ".cache/lm-studio/models"):
        yield from _in(folder, "LM Studio", 3)


def in_usual_folders(home: Path, data_dir: Path) -> Iterator[Model]:
    """Models in the data directory, and where programs and people usually keep them."""
    yield from _in(data_dir, localizable("model.where.data", "data directory"), 2)
    yield from _in(home / ".cache/llama.cpp", "llama.cpp", 1)
    yield from _in(home / ".local/share/nomic.ai/GPT4All", "GPT4All", 1)
    yield from _in(home / "models", short(home / "models"), 3)
    yield from _in(home / "Downloads", short(home / "Downloads"), 1)


def _in(folder: Path, where: str, depth: int) -> Iterator[Model]:
    for path in _sorted(folder, _DEPTHS[:depth]):
        part = _PART.search(path.stem)
        if part is None or int(part[1]) == 1:
            yield gguf(path, where)


def ollama(home: Path, data_dir: Path) -> Iterator[Model]:
    """The models that Ollama has pulled; its manifests say which blobs are models.

    A blob has no name, so it is run through a link in the data directory.
    """
    given = os.environ.get("OLLAMA_MODELS")
    shared = Path("/usr/share/ollama/.ollama/models")
    for folder in [Path(given)] if given else [home / ".ollama/models", shared]:
        manifests = folder / "manifests"
        for manifest in _sorted(manifests, ("*/*/*/*",)):
            if (blob := _blob(folder, manifest)) is None:
                continue
            *host, model, tag = manifest.relative_to(manifests).parts
            name = f"{'/'.join((*host, model))}:{tag}".removeprefix(_OLLAMA_REGISTRY)
            link = re.sub(r"[^\w.-]", "-", name) + ".gguf"
            yield gguf(blob, "Ollama", name, data_dir / "models" / link)


def gguf(path: Path, where: str, name: str = "", link: Path | None = None) -> Model:
    """The model in a `.gguf` file; `link` is the path to run it by, if not its own."""
    setting = str((link or path).absolute())
    name = name or _PART.sub("", path.stem)
    file = path if link else None
    try:
        header = GgufHeader.read(path)
        size = sum(part.stat().st_size for part in _parts(path))
    except (ConfigurationError, OSError) as error:
        why = error.message if isinstance(error, ConfigurationError) else str(error)
        refusal = localizable("model.broken", "The file {why}.", why=why)
        return Model(name, ModelKind.FILE, where, setting, file=file, refusal=refusal)
    known = (size, size + header.context * header.kv_bytes, header.context)
    model = Model(name, ModelKind.FILE, where, setting, *known, file=file)
    if header.writes:
        return model
    refusal = localizable(
        "model.architecture",
        "It does not write text (architecture {name}).",
        name=header.architecture or "unknown",
    )
    return replace(model, refusal=refusal)


def _sorted(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """The matching files, sorted; none if the folder is missing or unreadable."""
    try:
        return sorted(p for pattern in patterns for p in folder.glob(pattern) if p.is_file())
    except OSError:
        return []


def _parts(path: Path) -> list[Path]:
    """The files of a split model by its first. Raises `ConfigurationError` if one is missing."""
    if (part := _PART.search(path.stem)) is None:
        return [path]
    base, count = path.stem[: part.start()], int(part[2])
    parts = [path.with_name(f"{base}-{i:05}-of-{count:05}.gguf") for i in range(1, count + 1)]
    if missing := [each.name for each in parts if not each.exists()]:
        raise ConfigurationError(
            localizable("model.parts", "is not whole: {name} is missing", name=missing[0])
        )
    return parts


def _blob(folder: Path, manifest: Path) -> Path | None:
    try:
        layers = json.loads(manifest.read_bytes())["layers"]
        digest = next(each["digest"] for each in layers if each["mediaType"] == _MODEL_LAYER)
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None
    return folder / "blobs" / str(digest).replace(":", "-")


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
        yield from (gguf(path, _HUB) for path in ggufs)
        if (snapshot / "config.json").exists() or not ggufs:
            model, name = directory(snapshot, dtype), repository.repo_id
            yield replace(model, name=name, setting=name, where=_HUB, file=snapshot)


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
        why = str(error).strip().partition("\n")[0]
        refusal = localizable(
            "model.configuration", "Its configuration cannot be read: {why}", why=why
        )
        return replace(model, refusal=refusal)
    if not weights:
        refusal = localizable("model.weights", "Its weights have not been downloaded.")
        return replace(model, refusal=refusal)
    text = config.get_text_config()
    loaded = _BYTES[dtype]
    stored = _BYTES.get(str(getattr(text, "dtype", "")).removeprefix("torch."), loaded)
    context = min(MAX_CONTEXT, int(getattr(text, "max_position_embeddings", 0) or MAX_CONTEXT))
    memory = size * loaded // stored + context * _kv_bytes(text, loaded)
    return replace(
        model,
        context=context,
        memory=memory,
        refusal=_directory_refusal(path, config, text),
    )


def _kv_bytes(config: Any, item: int) -> int:
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * int(config.num_hidden_layers) * int(heads) * int(width) * item


def _directory_refusal(path: Path, config: Any, text: Any) -> str:
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
