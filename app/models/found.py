"""Models on this machine, wherever common programs have put them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pydantic import SecretStr

from app.models import files, hub, servers
from app.models.choice import following
from app.models.model import Model, ModelKind, installed_memory
from app.models.servers import Keys
from app.paths import short
from app.settings import Settings
from dragon.errors import NotFoundError
from dragon.inference.choice import is_server
from dragon.localizable import localizable
from dragon.models import EMBEDDED_WRITER

_NONE: Mapping[str, SecretStr] = MappingProxyType({})


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


def look(settings: Settings, keys: Mapping[str, SecretStr] = _NONE) -> Listing:
    """Every model found within seconds; `settings` are those of the running device.

    `keys` are for servers, by URL, besides the configured one. Blocks: it reads folders and asks
    servers.
    """
    key_of = _keys(settings, keys)
    models = list(_distinct([_demo(), *_everywhere(settings, key_of)]))
    upcoming = following(settings.data_dir)
    for setting in dict.fromkeys((settings.model, upcoming)):
        if not any(model.is_set_by(setting) for model in models):
            models.append(_elsewhere(setting, key_of))

    def name_of(setting: str) -> str:
        return next(model.name for model in models if model.is_set_by(setting))

    return Listing(models, name_of(settings.model), name_of(upcoming))


def model_named(name: str, settings: Settings) -> Model:
    """A model that was found, or what `DRAGON_MODEL` would accept: a path, a hub name, a URL.

    Raises `NotFoundError` if there is none of that name.
    """
    try:
        return look(settings).named(name)
    except NotFoundError:
        if is_server(name) or Path(name).expanduser().exists() or name.count("/") == 1:
            return _elsewhere(name, _keys(settings, _NONE))
        raise


def _keys(settings: Settings, given: Mapping[str, SecretStr]) -> Keys:
    """The configured key is for the configured server; without one, for any server."""

    def key_of(url: str) -> SecretStr | None:
        own = settings.model in (url, f"{url}/v1") or not is_server(settings.model)
        return given.get(url) or (settings.model_key if own else None)

    return key_of


def _everywhere(settings: Settings, keys: Keys) -> Iterator[Model]:
    home = Path.home()
    yield from files.ollama(home, settings.data_dir)
    yield from files.lm_studio(home)
    yield from hub.cached(settings.dtype)
    yield from files.in_usual_folders(home, settings.data_dir)
    yield from servers.running(keys)


def _demo() -> Model:
    size = EMBEDDED_WRITER.stat().st_size if EMBEDDED_WRITER.exists() else 0
    return Model(
        EMBEDDED_WRITER.stem,
        ModelKind.DEMO,
        localizable("model.where.demo", "built in"),
        str(EMBEDDED_WRITER),
        size=size,
    )


def _elsewhere(setting: str, keys: Keys) -> Model:
    """A model that is configured but was not found."""
    if is_server(setting):
        where = localizable("model.where.server", "a server")
        return Model(setting, ModelKind.SERVER, where, setting, key=keys(setting))
    path = Path(setting).expanduser()
    if path.suffix == ".gguf" and path.exists():
        return files.gguf(path, short(path.parent))
    if path.is_dir():
        return replace(hub.directory(path, "float32"), setting=str(path.resolve()))
    return Model(
        setting,
        ModelKind.DIRECTORY,
        localizable("model.where.later", "Hugging Face hub, not downloaded yet"),
        setting,
    )


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
