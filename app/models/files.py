"""`.gguf` files in the folders of Ollama, LM Studio, llama.cpp and users."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from app.models.model import Model, ModelKind
from app.paths import short
from dragon.errors import ConfigurationError
from dragon.inference.backends.llama_cpp.gguf import GgufHeader
from dragon.localizable import localizable

INSTALL = "pip install 'dragon-rag[gguf]'"

_PART = re.compile(r"-(\d{5})-of-(\d{5})$")
_DEPTHS = ("*.gguf", "*/*.gguf", "*/*/*.gguf")
_OLLAMA_REGISTRY = "registry.ollama.ai/library/"
_MODEL_LAYER = "application/vnd.ollama.image.model"


def lm_studio(home: Path) -> Iterator[Model]:
    """The models that LM Studio has downloaded."""
    for folder in (home / ".lmstudio/models", home / ".cache/lm-studio/models"):
        yield from _in(folder, "LM Studio", _DEPTHS)


def in_usual_folders(home: Path, data_dir: Path) -> Iterator[Model]:
    """Models in the data directory, and where downloads end up."""
    yield from _in(data_dir, localizable("model.where.data", "data directory"), _DEPTHS[:2])
    yield from _in(home / ".cache/llama.cpp", "llama.cpp", _DEPTHS[:1])
    yield from _in(home / ".local/share/nomic.ai/GPT4All", "GPT4All", _DEPTHS[:1])
    yield from _in(home / "models", short(home / "models"), _DEPTHS)
    yield from _in(home / "Downloads", short(home / "Downloads"), _DEPTHS[:1])


def ollama(home: Path, data_dir: Path) -> Iterator[Model]:
    """The models that Ollama has pulled: its manifests say which of its blobs are models.

    A blob has no name of its own, so it is run through a link in the data directory.
    """
    given = os.environ.get("OLLAMA_MODELS")
    shared = Path("/usr/share/ollama/.ollama/models")
    for folder in [Path(given)] if given else [home / ".ollama/models", shared]:
        manifests = folder / "manifests"
        for manifest in _sorted(manifests, ("*/*/*/*",)):
            blob = _blob(folder, manifest)
            if blob is None:
                continue
            *host, model, tag = manifest.relative_to(manifests).parts
            name = f"{'/'.join((*host, model))}:{tag}".removeprefix(_OLLAMA_REGISTRY)
            link = re.sub(r"[^\w.-]", "-", name) + ".gguf"
            yield gguf(blob, "Ollama", name, data_dir / "models" / link)


def gguf(path: Path, where: str, name: str = "", link: Path | None = None) -> Model:
    """A file; `link` is the path to run it by, by default its own."""
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
    memory = size + header.context * header.kv_bytes
    return Model(
        *(name, ModelKind.FILE, where, setting, size, memory, header.context),
        refusal=_refusal(header),
        file=file,
    )


def _refusal(header: GgufHeader) -> str:
    if not header.writes:
        return localizable(
            "model.architecture",
            "It does not write text (architecture {name}).",
            name=header.architecture or "unknown",
        )
    if find_spec("xllamacpp") is None:
        return localizable("model.gguf", "llama.cpp is not installed: {command}", command=INSTALL)
    return ""


def _in(folder: Path, where: str, depths: Iterable[str]) -> Iterator[Model]:
    for path in _sorted(folder, depths):
        part = _PART.search(path.stem)
        if part is None or int(part[1]) == 1:
            yield gguf(path, where)


def _sorted(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """Files only; none for a folder that is missing or unreadable."""
    try:
        return sorted(p for pattern in patterns for p in folder.glob(pattern) if p.is_file())
    except OSError:
        return []


def _parts(path: Path) -> list[Path]:
    """All files of a split model, of which `path` is the first.

    Raises `ConfigurationError` if one is missing.
    """
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
    """The model blob of a manifest."""
    try:
        layers = json.loads(manifest.read_bytes())["layers"]
        digest = next(each["digest"] for each in layers if each["mediaType"] == _MODEL_LAYER)
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None
    return folder / "blobs" / str(digest).replace(":", "-")
