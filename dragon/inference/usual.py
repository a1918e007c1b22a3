"""The sampling that a model recommends, in its `generation_config.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.utils.hub import cached_file

from dragon.errors import ConfigurationError
from dragon.sampling.params import MAX_COUNT, MAX_REPETITION, MAX_TEMPERATURE, MIN_REPETITION

_FILE = "generation_config.json"
# The range that a request may ask for.
_RANGES = {
    "temperature": (0.0, MAX_TEMPERATURE),
    "top_p": (1e-6, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (MIN_REPETITION, MAX_REPETITION),
}


@dataclass(frozen=True)
class Usual:
    """Default sampling parameters of a model; `temperature` is None if it names none."""

    temperature: float | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @classmethod
    def of(cls, model: str) -> Usual:
        """Of a directory or a hub name; the neutral defaults if the model has no such file.

        Raises `ConfigurationError` if the file is invalid.
        """
        path = _path(model)
        if path is None:
            return cls()
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            return cls._read(fields)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ConfigurationError(f"{path} cannot be read: {error}") from error

    @classmethod
    def _read(cls, fields: dict[str, Any]) -> Usual:
        found: dict[str, Any] = {
            name: min(max(float(fields[name]), least), most)
            for name, (least, most) in _RANGES.items()
            if fields.get(name) is not None
        }
        if fields.get("top_k") is not None:
            found["top_k"] = min(max(int(fields["top_k"]), 0), MAX_COUNT - 1)
        if fields.get("do_sample") is False:
            found["temperature"] = 0.0
        return cls(**found)


def _path(model: str) -> Path | None:
    if model.endswith(".gguf"):
        return None
    if (place := Path(model)).exists():
        path = (place if place.is_dir() else place.parent) / _FILE
        return path if path.exists() else None
    try:
        found = cached_file(
            model,
            _FILE,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except (OSError, ValueError):
        return None
    return None if found is None else Path(found)
