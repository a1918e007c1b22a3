"""Choosing the model that the next start takes: `DRAGON_MODEL` in `.env`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from dotenv import dotenv_values, set_key, unset_key

from app.models.model import Kind, Model
from app.settings import Settings
from dragon.errors import InvalidRequestError, StorageError
from dragon.keys import is_loopback
from dragon.localizable import localizable

BOTH = localizable("model.both", "`dragon up` starts the device and its peer with the same model.")


def prepare(model: Model) -> None:
    """Make the link by which a file without a name of its own is run.

    Raises `InvalidRequestError` for a model that does not serve, `StorageError` when it cannot.
    """
    if model.refusal:
        raise InvalidRequestError(
            localizable(
                "model.refused",
                "{name} does not serve. {why}",
                name=model.name,
                why=model.refusal,
            ),
            param="name",
        )
    if model.file is None or model.kind is not Kind.FILE:
        return
    link = Path(model.setting)
    try:
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(model.file)
    except OSError as error:
        raise StorageError(
            localizable(
                "model.link",
                "{path} could not be made: {why}",
                path=str(link),
                why=f"{error.strerror}",
            )
        ) from error


def choose(model: Model, settings: Settings, env_file: Path = Path(".env")) -> str:
    """Have the next start take a model, and say what is left to do.

    All else in the file stays, and it is replaced in one step. Raises `InvalidRequestError` where
    the choice would have no effect, `StorageError` when the file cannot be written.
    """
    for name, value in model.settings.items():
        if os.environ.get(name, value) != value:
            change = (
                localizable("model.set", "set it to {value}", value=value)
                if value
                else localizable("model.unset", "do without it")
            )
            raise InvalidRequestError(
                localizable(
                    "model.environment",
                    "{name} is set in the environment, which counts more than .env: unset it "
                    "there, or {change}.",
                    name=name,
                    change=change,
                )
            )
    prepare(model)
    try:
        _write(model.settings, env_file.resolve())
    except OSError as error:
        raise StorageError(
            localizable(
                "model.unwritten",
                "{path} could not be written: {why}",
                path=str(env_file),
                why=f"{error.strerror}",
            )
        ) from error
    restart = "Restart DRAGON to use it: end it with Ctrl-C, and start it again."
    if on_this_machine(settings):
        return f"{restart} {BOTH}"
    return (
        f"{restart} The peer at {settings.peer_url} needs a model with the same vocabulary; "
        "trying the model says whether it has one."
    )


def _write(settings: dict[str, str], path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.") as folder:
        draft = Path(folder) / path.name
        if path.exists():
            shutil.copy2(path, draft)
        for name, value in settings.items():
            if value:
                set_key(draft, name, value)
            elif name in dotenv_values(draft):
                unset_key(draft, name)
        if draft.exists():
            draft.replace(path)


def on_this_machine(settings: Settings) -> bool:
    """Whether the peer runs here, as `dragon up` starts it."""
    return all(is_loopback(urlsplit(peer.url).hostname or "") for peer in settings.peers)
