"""What is known of a model before it is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from pydantic import SecretStr

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
    """A model: its name here, where it is, and its value of `DRAGON_MODEL`.

    `size` and `memory` are in bytes, `context` in tokens; None if unknown. `refusal` is a sentence
    that says why it cannot be used, empty if nothing is known against it; `hint` is other
    information. `file` is the target of the link at `setting`, if that is to be created. For a
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
        """The same for two paths to one file."""
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
        says = localizable(
            "model.large",
            "It needs about {needed} of memory; this machine has {there}.",
            needed=gigabytes(self.memory),
            there=gigabytes(memory),
        )
        return replace(self, refusal=says)


def installed_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def gigabytes(count: int) -> str:
    """A number of bytes, for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def _resolved(path: Path | str) -> str:
    return os.path.realpath(Path(path).expanduser())
