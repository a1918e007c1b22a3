"""Models on this machine, wherever the programs that people use have put them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from app.home import short
from app.models import files, hub, servers
from app.models.choice import following
from app.models.model import Kind, Model
from app.settings import Settings
from dragon.errors import NotFoundError
from dragon.inference.choice import is_server
from dragon.localizable import localizable
from dragon.models import EMBEDDED_MODEL


@dataclass(frozen=True)
class Listing:
    """The models found, and the names of the one in use and of the one the next start takes."""

    models: list[Model]
    current: str
    next: str

    def named(self, name: str) -> Model:
        """One of them. Raises `NotFoundError` when there is none of that name."""
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


def look(settings: Settings) -> Listing:
    """Everything that can be found within seconds; `settings` are those of the running device.

    Blocks: it reads folders and asks servers.
    """
    models = list(_distinct([_demo(), *_everywhere(settings)]))
    upcoming = following(settings.data_dir)
    for setting in dict.fromkeys((settings.model, upcoming)):
        if not any(model.is_set_by(setting) for model in models):
            models.append(_elsewhere(setting))

    def name_of(setting: str) -> str:
        return next(model.name for model in models if model.is_set_by(setting))

    return Listing(models, name_of(settings.model), name_of(upcoming))


def model_named(name: str, settings: Settings) -> Model:
    """A model that was found, or what `DRAGON_MODEL` would take: a path, a hub name, a URL.

    Raises `NotFoundError` when there is none of that name.
    """
    try:
        return look(settings).named(name)
    except NotFoundError:
        if is_server(name) or Path(name).expanduser().exists() or name.count("/") == 1:
            return _elsewhere(name)
        raise


def _everywhere(settings: Settings) -> Iterator[Model]:
    home = Path.home()
    yield from files.ollama(home, settings.data_dir)
    yield from files.lm_studio(home)
    yield from hub.cached(settings.dtype)
    yield from files.in_usual_folders(home, settings.data_dir)
    yield from servers.running()


def _demo() -> Model:
    size = (EMBEDDED_MODEL / "model.safetensors").stat().st_size
    return Model(
        EMBEDDED_MODEL.name,
        Kind.DEMO,
        localizable("model.where.demo", "built in"),
        str(EMBEDDED_MODEL),
        size=size,
    )


def _elsewhere(setting: str) -> Model:
    """What is set by hand, and was not found."""
    if is_server(setting):
        return Model(setting, Kind.SERVER, localizable("model.where.server", "a server"), setting)
    path = Path(setting).expanduser()
    if path.suffix == ".gguf" and path.exists():
        return files.gguf(path, short(path.parent))
    if path.is_dir():
        return replace(hub.directory(path, "float32"), setting=str(path.resolve()))
    return Model(
        setting,
        Kind.DIRECTORY,
        localizable("model.where.later", "Hugging Face hub, not downloaded yet"),
        setting,
    )


def _distinct(models: Iterable[Model]) -> Iterator[Model]:
    """Each once, under a name of its own; what would not fit into memory is refused."""
    seen: set[str] = set()
    names: set[str] = set()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for model in models:
        if model.identity in seen:
            continue
        seen.add(model.identity)
        if model.name in names:
            model = replace(model, name=model.setting)
        names.add(model.name)
        yield model.within(memory)
