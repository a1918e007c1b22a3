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


class Kind(StrEnum):
    """What a model is stored as."""

    DEMO = "demo"
    FILE = "file"  # .gguf, run by llama.cpp
    DIRECTORY = "directory"  # run by PyTorch
    SERVER = "server"


@dataclass(frozen=True)
class Model:
    """A model: what it is called here, where it is, what `DRAGON_MODEL` is to say.

    `size` and `memory` are bytes, `context` tokens; None: not known. `refusal` is a sentence that
    says why it does not serve, empty where nothing speaks against it; `hint` is something to know.
    `file` is what the path in `setting` is to be a link to, where it is not there yet. Of a server
    `served` is its model's name, where it has several, `tokenizer` where that of its model is, and
    `key` what it is sent; `wants_key`: it answered that it wants one, or another.
    """

    name: str
    kind: Kind
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
        """What is to be set for it; empty: not to be set."""
        model = "" if self.kind is Kind.DEMO else self.setting
        values = (model, self.served, self.tokenizer)
        return dict(zip(SETTINGS, values, strict=True))

    @property
    def identity(self) -> str:
        """The same for two ways to one file."""
        if self.kind is Kind.SERVER:
            return f"{self.setting} {self.served}"
        return _resolved(self.file or self.setting)

    def is_set_by(self, setting: str) -> bool:
        """Whether this is the model that a value of `DRAGON_MODEL` names."""
        return setting == self.setting or (
            self.kind is not Kind.SERVER and _resolved(setting) == self.identity
        )

    def within(self, memory: int) -> Model:
        """Refused where it takes more than so many bytes of memory."""
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
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def gigabytes(count: int) -> str:
    """Bytes for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def _resolved(path: Path | str) -> str:
    return os.path.realpath(Path(path).expanduser())
