"""Choosing the model of the next start: `DRAGON_MODEL` in the data directory, or `.env`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from dotenv import dotenv_values, set_key, unset_key

from app.models.model import KEY, SETTINGS, Model, ModelKind
from app.settings import Settings
from dragon.errors import InvalidRequestError, StorageError
from dragon.inference.choice import CHOSEN
from dragon.keys import is_loopback
from dragon.localizable import localizable
from dragon.models import EMBEDDED_WRITER

_BY_HAND = Path(".env")


def prepare(model: Model) -> None:
    """Create the link that a file is run by. Raises `InvalidRequestError`, `StorageError`."""
    if model.refusal:
        message = localizable(
            "model.refused", "{name} does not serve. {why}", name=model.name, why=model.refusal
        )
        raise InvalidRequestError(message, param="name")
    if model.file is None or model.kind is not ModelKind.FILE:
        return
    link = Path(model.setting)
    try:
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(model.file)
    except OSError as error:
        why = str(error.strerror)
        raise StorageError(
            localizable("model.link", "{path} could not be made: {why}", path=str(link), why=why)
        ) from error


def following(data_dir: Path) -> str:
    """The value of `DRAGON_MODEL` at the next start, whatever other settings say."""
    values = {**_given(data_dir / CHOSEN), **_given(_BY_HAND)}
    return os.environ.get(SETTINGS[0]) or values.get(SETTINGS[0]) or str(EMBEDDED_WRITER)


def kept(data_dir: Path) -> dict[Path, dict[str, str]]:
    """The model settings in both files, empty if not set; for `take_back`."""
    said = {path: _given(path) for path in (data_dir / CHOSEN, _BY_HAND)}
    names = (*SETTINGS, KEY)
    return {path: {name: values.get(name, "") for name in names} for path, values in said.items()}


def take_back(before: dict[Path, dict[str, str]]) -> None:
    """Restore the model settings of both files. Raises `StorageError`."""
    for path, values in before.items():
        with _writing(path):
            _write(values, path.resolve(), mode=None if path == _BY_HAND else 0o600)


def choose(model: Model, settings: Settings) -> str:
    """Set the model of the next start, and say what is left to do.

    It is kept in the data directory, unless `.env` sets a model: then it is changed there, and the
    rest of the file stays. A server's key is kept only in the data directory, in a file that nobody
    else can read. Raises `InvalidRequestError` if the choice would have no effect, `StorageError`
    if the file cannot be written.
    """
    secret = model.key.get_secret_value() if model.key else ""
    _require_effect(model, secret)
    prepare(model)
    chosen = settings.data_dir / CHOSEN
    hand = _given(_BY_HAND)
    by_hand = not hand.keys().isdisjoint(SETTINGS)
    changed, kept = (model.settings, {}) if by_hand else ({}, model.settings)
    with _writing(_BY_HAND if by_hand else chosen):
        chosen.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if secret and KEY in hand:
            changed = changed | {KEY: ""}  # it would override the stored one
        if changed:
            _write(changed, _BY_HAND.resolve())
        if by_hand:
            chosen.unlink(missing_ok=True)
        _write(kept | {KEY: secret}, chosen.resolve(), mode=0o600)
    restart = "Restart DRAGON to use it: end it with Ctrl-C, and start it again."
    if on_this_machine(settings):
        return f"{restart} `dragon up` starts the device and its peer with the same model."
    return (
        f"{restart} The peer at {settings.peer_url} needs a model with the same vocabulary; "
        "trying the model says whether it has one."
    )


def _require_effect(model: Model, secret: str) -> None:
    """Raises `InvalidRequestError` if the environment overrides the choice."""
    for name, value in model.settings.items():
        if os.environ.get(name, value) != value:
            change = localizable("model.unset", "do without it")
            if value:
                change = localizable("model.set", "set it to {value}", value=value)
            raise InvalidRequestError(
                localizable(
                    "model.environment",
                    "{name} is set in the environment, which counts more than a choice: unset it "
                    "there, or {change}.",
                    name=name,
                    change=change,
                )
            )
    if secret and os.environ.get(KEY, secret) != secret:
        raise InvalidRequestError(
            localizable(
                "model.environment.key",
                "{name} is set in the environment, which counts more than the key given here: "
                "unset it there.",
                name=KEY,
            )
        )


def _given(path: Path) -> dict[str, str]:
    return {name: value for name, value in dotenv_values(path).items() if value}


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = str(error.strerror)
        raise StorageError(
            localizable(
                "model.unwritten", "{path} could not be written: {why}", path=str(path), why=why
            )
        ) from error


def _write(settings: dict[str, str], path: Path, mode: int | None = None) -> None:
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
            if mode is not None:
                draft.chmod(mode)
            draft.replace(path)


def on_this_machine(settings: Settings) -> bool:
    """Whether the peer runs here, as `dragon up` starts it."""
    return all(is_loopback(urlsplit(peer.url).hostname or "") for peer in settings.peers)
