"""The settings of the language model, which device and peer share, and how to load it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from dragon.errors import ConfigurationError
from dragon.keys import SendableKey
from dragon.models import EMBEDDED_ADAPTER, EMBEDDED_WRITER
from dragon.sampling.params import MAX_COUNT, MAX_REPETITION, MAX_TEMPERATURE, MIN_REPETITION

if TYPE_CHECKING:
    from dragon.inference.backends.backend import Backend
    from dragon.inference.tokenizer import Tokenizer


CHOSEN = "model.env"
"""In the data directory: the user's choice of model. `.env` and the environment override it."""
_DEFAULTS = "generation_config.json"
# The range that a request may ask for.
_RANGES = {
    "temperature": (0.0, MAX_TEMPERATURE),
    "top_p": (1e-6, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (MIN_REPETITION, MAX_REPETITION),
    "top_k": (0, MAX_COUNT - 1),
}


def is_server(model: str) -> bool:
    return model.startswith(("http://", "https://"))


class ModelChoice(BaseModel):
    """A model: a directory, a hub name, a `.gguf` file, or the URL of a model server.

    `tokenizer` is for models without one. `model_key` is sent to a server, `model_name` is its
    model if it has several. `adapter` is a LoRA in a `.gguf` file, for a model in a `.gguf` file.
    `answers` is how the model answers, by default as its configuration says.
    """

    model: str = str(EMBEDDED_WRITER)
    model_key: SendableKey | None = None
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

    def default_sampling(self, *, quotes: bool) -> DefaultSampling:
        """The default sampling of the model; greedy for one that quotes.

        Raises `ConfigurationError` if the model's file of defaults cannot be read.
        """
        source = (self.tokenizer or "") if is_server(self.model) else self.model
        found = DefaultSampling.of(source)
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


@dataclass(frozen=True)
class DefaultSampling:
    """A model's own defaults, from its `generation_config.json`, for what a request leaves open.

    `temperature` is None if the file has none.
    """

    temperature: float | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @classmethod
    def of(cls, model: str) -> DefaultSampling:
        """Of a directory or a hub name; the neutral defaults if the model has no such file.

        Raises `ConfigurationError` if the file is invalid.
        """
        if (path := _path(model)) is None:
            return cls()
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            found: dict[str, Any] = {
                name: min(max(type(least)(fields[name]), least), most)
                for name, (least, most) in _RANGES.items()
                if fields.get(name) is not None
            }
            greedy = fields.get("do_sample") is False
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ConfigurationError(f"{path} cannot be read: {error}") from error
        return cls(**found | ({"temperature": 0.0} if greedy else {}))


def _path(model: str) -> Path | None:
    from transformers.utils.hub import cached_file

    if model.endswith(".gguf"):
        return None
    try:
        found = cached_file(
            str(Path(model).parent) if Path(model).is_file() else model,
            _DEFAULTS,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except (OSError, ValueError):
        return None
    return None if found is None else Path(found)
