"""Models on this machine: in files, wherever common programs put them, and on local servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx2
from pydantic import SecretStr

from app.models.choice import following
from app.models.model import (
    Model,
    ModelKind,
    cached,
    directory,
    gguf,
    in_usual_folders,
    installed_memory,
    lm_studio,
    ollama,
)
from app.paths import short
from app.settings import Settings
from dragon.errors import NotFoundError
from dragon.inference.choice import is_server
from dragon.localizable import localizable
from dragon.models import EMBEDDED_WRITER

PORTS = {  # of model servers
    11434: "Ollama",
    1234: "LM Studio",
    8080: "llama-server",
    8000: "vLLM",
    30000: "SGLang",
}
Keys = Callable[[str], SecretStr | None]
"""The key for a server, by its URL."""
_TIMEOUT_S = 0.5
_MOST_BYTES = 1 << 20  # of a reply: any program may listen there
_OURS = "dragon"
_CLOSED = (401, 403)
_NO_TOKENIZER = localizable(
    "model.server.tokenizer",
    "Set DRAGON_TOKENIZER to the tokenizer of its model: a directory, a hub name or a .gguf file. "
    "The .gguf files of Ollama and LM Studio serve without their server.",
)


@dataclass(frozen=True)
class Listing:
    """The models found, and the names of the current one and of the next start's."""

    models: list[Model]
    current: str
    next: str

    def named(self, name: str) -> Model:
        """The model with a name. Raises `NotFoundError` if there is none."""
        for model in self.models:
            if model.name == name:
                return model
        raise NotFoundError(
            localizable(
                "model.unknown",
                "No model is called {name}: `dragon models` lists what was found.",
                name=repr(name),
            )
        )


def look(settings: Settings, keys: Mapping[str, SecretStr] = MappingProxyType({})) -> Listing:
    """Every model found within seconds; `settings` are those of the running device.

    `keys` are for servers, by URL, besides the configured one. Blocks: it reads folders and asks
    servers.
    """
    key_of = _keys(settings, keys)
    models = list(_distinct(_everywhere(settings, key_of)))
    upcoming = following(settings.data_dir)
    for setting in dict.fromkeys((settings.model, upcoming)):
        if not any(model.is_set_by(setting) for model in models):
            models.append(_elsewhere(setting, key_of))

    def name_of(setting: str) -> str:
        return next(model.name for model in models if model.is_set_by(setting))

    return Listing(models, name_of(settings.model), name_of(upcoming))


def model_named(name: str, settings: Settings) -> Model:
    """A model found, or what `DRAGON_MODEL` would accept. Raises `NotFoundError`."""
    try:
        return look(settings).named(name)
    except NotFoundError:
        if is_server(name) or Path(name).expanduser().exists() or name.count("/") == 1:
            return _elsewhere(name, _keys(settings, {}))
        raise


def _keys(settings: Settings, given: Mapping[str, SecretStr]) -> Keys:
    """The configured key is for the configured server; without one, for any server."""

    def key_of(url: str) -> SecretStr | None:
        own = settings.model in (url, f"{url}/v1") or not is_server(settings.model)
        return given.get(url) or (settings.model_key if own else None)

    return key_of


def _everywhere(settings: Settings, keys: Keys) -> Iterator[Model]:
    home, built_in = Path.home(), localizable("model.where.demo", "built in")
    name, path = EMBEDDED_WRITER.stem, str(EMBEDDED_WRITER)
    size = EMBEDDED_WRITER.stat().st_size if EMBEDDED_WRITER.exists() else 0
    yield Model(name, ModelKind.DEMO, built_in, path, size=size)
    yield from ollama(home, settings.data_dir)
    yield from lm_studio(home)
    yield from cached(settings.dtype)
    yield from in_usual_folders(home, settings.data_dir)
    yield from running(keys)


def _elsewhere(setting: str, keys: Keys) -> Model:
    """A model that is configured but was not found."""
    if is_server(setting):
        where = localizable("model.where.server", "a server")
        return Model(setting, ModelKind.SERVER, where, setting, key=keys(setting))
    path = Path(setting).expanduser()
    if path.suffix == ".gguf" and path.exists():
        return gguf(path, short(path.parent))
    if path.is_dir():
        return replace(directory(path, "float32"), setting=str(path.resolve()))
    later = localizable("model.where.later", "Hugging Face hub, not downloaded yet")
    return Model(setting, ModelKind.DIRECTORY, later, setting)


def _distinct(models: Iterable[Model]) -> Iterator[Model]:
    """Each model once, under a unique name; one that does not fit into memory is refused."""
    seen: set[str] = set()
    names: set[str] = set()
    memory = installed_memory()
    for model in models:
        if model.identity in seen:
            continue
        seen.add(model.identity)
        if model.name in names:
            model = replace(model, name=model.setting)
        names.add(model.name)
        yield model.within(memory)


def running(keys: Keys) -> Iterator[Model]:
    """The models of the servers that reply, in the order of `PORTS`."""
    with ThreadPoolExecutor(len(PORTS)) as threads:
        for models in threads.map(lambda port: list(_at(port, PORTS[port], keys)), PORTS):
            yield from models


def _at(port: int, usual: str, keys: Keys) -> Iterator[Model]:
    url = f"http://127.0.0.1:{port}"
    key = None
    status, models, properties = _listed(url, None)
    if status in _CLOSED and (key := keys(url)) is not None:
        status, models, properties = _listed(url, key)
    where = localizable("model.where.port", "{name} on port {port}", name=usual, port=str(port))
    if status in _CLOSED:
        says = localizable("model.server.key", "It asks for a key: set DRAGON_MODEL_KEY.")
        if key:
            says = localizable("model.server.key.wrong", "It does not accept this key.")
        yield Model(url, ModelKind.SERVER, where, url, refusal=says, wants_key=True)
        return
    several = len(models) > 1
    for each in models:
        if each.get("owned_by") == _OURS:
            continue
        meta = each.get("meta")
        size = meta.get("size") if isinstance(meta, dict) else None
        name = str(each.get("id", ""))
        tokenizer = _tokenizer(each, properties)
        yield Model(
            f"{url}#{name}" if several else url,
            ModelKind.SERVER,
            localizable("model.where.served", "{where}: {name}", where=where, name=name),
            url,
            size=size if isinstance(size, int) else None,
            hint="" if tokenizer else _NO_TOKENIZER,
            served=name if several else "",
            tokenizer=tokenizer,
            key=key,
        )


def _listed(url: str, key: SecretStr | None) -> tuple[int, list[dict[str, Any]], Any]:
    """The last status, the models, and llama-server's properties."""
    status, listed = _asked(f"{url}/v1/models", key)
    data = listed.get("data") if isinstance(listed, dict) else None
    models = [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []
    properties = None
    if any(each.get("owned_by") == "llamacpp" for each in models):
        # It lists its models to anybody, but reveals nothing else without its key.
        status, properties = _asked(f"{url}/props", key)
    return status, models, properties


def _tokenizer(listed: dict[str, Any], properties: Any) -> str:
    """The file or hub name of the tokenizer of a server's model, if the server says so."""
    if listed.get("owned_by") == "llamacpp":
        path = properties.get("model_path") if isinstance(properties, dict) else None
        return path if isinstance(path, str) and Path(path).is_file() else ""
    root = listed.get("root")
    return root if isinstance(root, str) and (Path(root).is_dir() or root.count("/") == 1) else ""


def _asked(url: str, key: SecretStr | None) -> tuple[int, Any]:
    """Status and JSON of a reply; 0 and None without one."""
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    # No TLS here, and loading the certificates takes longer than all else.
    client = httpx2.Client(timeout=_TIMEOUT_S, trust_env=False, verify=False)
    said = b""
    try:
        with client, client.stream("GET", url, headers=headers) as reply:
            for piece in reply.iter_bytes():
                said += piece
                if len(said) > _MOST_BYTES:
                    return 0, None
    except httpx2.HTTPError:
        return 0, None
    with suppress(ValueError):  # a reply that wants a key need not be JSON
        return reply.status_code, json.loads(said)
    return reply.status_code, None
