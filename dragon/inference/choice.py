"""Which language model a service runs, and on what: settings that device and peer share."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, ValidationInfo, field_validator

from dragon.errors import ConfigurationError
from dragon.keys import require_sendable
from dragon.models import EMBEDDED_ADAPTER, EMBEDDED_WRITER

if TYPE_CHECKING:
    from dragon.inference.backends.backend import Backend
    from dragon.inference.tokenizer import Tokenizer
    from dragon.inference.usual import Usual

CHOSEN = "model.env"
"""In the data directory: the user's choice of model. `.env` and the environment override it."""


def is_server(model: str) -> bool:
    return model.startswith(("http://", "https://"))


class ModelChoice(BaseModel):
    """A model: a directory, a hub name, a `.gguf` file, or the URL of a model server.

    `tokenizer` is for models without one. `model_key` is sent to a server, `model_name` is its
    model if it has several. `adapter` is a LoRA in a `.gguf` file, for a model in a `.gguf` file.
    `answers` is how it answers, by default as the model says.
    """

    model: str = str(EMBEDDED_WRITER)
    model_key: SecretStr | None = None
    model_name: str | None = None
    tokenizer: str | None = Field(default=None, validate_default=True)
    adapter: Path | None = Field(default=None, validate_default=True)
    answers: Literal["lines", "quotes", "words"] | None = Field(default=None, validate_default=True)
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    torch_device: str = "cpu"
    threads: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    # Every answer in its own forwards, no catch-up, no deadline, no cloud dropped: the same text on
    # any network.
    exact: bool = False

    @field_validator("model")
    @classmethod
    def _is_whole(cls, model: str) -> str:
        if is_server(model):
            parts = urlsplit(model)
            if not parts.hostname or parts.username or parts.query or parts.fragment:
                raise ValueError("the URL of a model server looks like http://127.0.0.1:8080")
            _ = parts.port  # raises `ValueError` for an invalid port
        return model

    @field_validator("model_key")
    @classmethod
    def _is_sendable(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None:
            require_sendable(key.get_secret_value())
        return key

    @field_validator("tokenizer")
    @classmethod
    def _is_named(cls, tokenizer: str | None, info: ValidationInfo) -> str | None:
        if tokenizer is None and is_server(info.data.get("model", "")):
            raise ValueError(
                "a model server brings no tokenizer: name that of its model, by a directory, a "
                "tokenizer.json, a hub name or a .gguf file"
            )
        return tokenizer

    @field_validator("adapter")
    @classmethod
    def _has_a_model(cls, adapter: Path | None, info: ValidationInfo) -> Path | None:
        model = info.data.get("model", "")
        if adapter is not None and not model.endswith(".gguf"):
            raise ValueError("an adapter needs a model in a .gguf file")
        return EMBEDDED_ADAPTER if adapter is None and model == str(EMBEDDED_WRITER) else adapter

    @field_validator("answers")
    @classmethod
    def _as_it_was_taught(cls, answers: str | None, info: ValidationInfo) -> str | None:
        taught = info.data.get("adapter") == EMBEDDED_ADAPTER
        return "lines" if answers is None and taught else answers

    def load_tokenizer(self) -> Tokenizer:
        """The model's tokenizer. Raises `ConfigurationError` if it cannot be loaded."""
        # Imported late: settings are read before anything that takes seconds to import.
        from dragon.inference.tokenizer import Tokenizer

        if self.model == str(EMBEDDED_WRITER) and not EMBEDDED_WRITER.exists():
            raise ConfigurationError(
                "the built-in language model is not installed: `dragon models get` fetches it"
            )
        return Tokenizer.load(self.tokenizer or self.model)

    def usual(self, *, quotes: bool) -> Usual:
        """The default sampling of the model; greedy for one that quotes.

        Raises `ConfigurationError` if the model's file of defaults cannot be read.
        """
        from dragon.inference.usual import Usual

        source = (self.tokenizer or "") if is_server(self.model) else self.model
        found = Usual.of(source)
        return replace(found, temperature=0.0) if quotes else found

    def load(self) -> tuple[Tokenizer, Backend]:
        """Tokenizer and model. Raises `ConfigurationError` if either cannot be loaded."""
        tokenizer = self.load_tokenizer()
        if is_server(self.model):
            from dragon.inference.backends.model_server.model import ModelServer

            key = self.model_key.get_secret_value() if self.model_key else None
            return tokenizer, ModelServer(self.model, tokenizer, key=key, name=self.model_name)
        size = tokenizer.vocab_size
        # Imported late: a process with a .gguf does not need transformers' models, nor the reverse.
        if self.model.endswith(".gguf"):
            from dragon.inference.backends.llama_cpp.model import LlamaCpp

            return tokenizer, LlamaCpp(
                Path(self.model),
                size,
                threads=self.threads,
                adapter=self.adapter,
                exact=self.exact,
            )
        from dragon.inference.backends.torch.model import LanguageModel

        return tokenizer, LanguageModel.load(
            self.model, size, dtype=self.dtype, device=self.torch_device
        )
