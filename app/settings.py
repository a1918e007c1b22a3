"""The device's settings: environment or `.env`, prefix `DRAGON_`."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from dragon.errors import ConfigurationError
from dragon.inference.choice import CHOSEN, ModelChoice
from dragon.keys import LEAST_KEY, SendableKey, is_loopback
from dragon.link.address import LINK_PATH, PeerAddress, addresses
from dragon.sampling.params import MAX_RESCORE_EVERY, Mode


class Cloud(StrEnum):
    """When the cloud is asked to take part in an answer."""

    NEVER = "never"
    WHEN_NEEDED = "when_needed"  # not if the user's own documents answer
    ALWAYS = "always"


class Settings(ModelChoice, BaseSettings):
    """The settings of the device service; every one has a default that works offline."""

    model_config = SettingsConfigDict(
        env_prefix="DRAGON_", env_file=".env", env_ignore_empty=True, extra="ignore"
    )

    data_dir: Path = Path("data")
    # Folders whose files are documents, separated as in PATH.
    watch: Annotated[tuple[Path, ...], NoDecode] = ()
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=1, le=65535)
    api_key: SendableKey | None = None
    # Pages of these origins may call the API, with a key.
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    embedder: Path | None = None
    reranker: Path | None = None
    # One URL, or several separated by commas.
    peer_url: str = f"ws://127.0.0.1:8100{LINK_PATH}"
    peer_key: SendableKey | None = None
    cloud: Cloud = Cloud.WHEN_NEEDED
    aggregation: Mode = Mode.ONEWAY
    # Refuse unknown parameters, instead of naming them in the response.
    strict: bool = False
    top_k: int | None = Field(default=None, ge=1, le=32)  # the model's default
    # The most that documents' KV may take on disk; 0 keeps none.
    kv_cache_mb: int = Field(default=1024, ge=0)
    log_format: Literal["text", "json"] = "text"
    # How often, in tokens, relevance is re-scored on the text so far; 0 for never.
    rescore_every: int = Field(default=0, ge=0, le=MAX_RESCORE_EVERY)
    # How long the first token may wait for the cloud, in seconds.
    first_token_deadline: float = Field(default=2.0, gt=0)
    # One-way: a cloud with a smaller weight than this takes no part in the answer.
    least_cloud_weight: float = Field(default=0.125, ge=0, le=1)
    # A passage's privacy budget for all answers with `dragon.epsilon` together.
    passage_epsilon: float = Field(default=64.0, gt=0)

    @classmethod
    def read(cls) -> Settings:
        """Settings of this process; raises `ConfigurationError` naming the one that is wrong."""
        try:
            # The chosen model is in the data directory.
            return cls(_env_file=(cls().data_dir / CHOSEN, ".env"))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            message = first["msg"].removeprefix("Value error, ")
            raise ConfigurationError(f"DRAGON_{str(first['loc'][0]).upper()}: {message}") from error

    @property
    def models_dir(self) -> Path:
        """Where downloaded models are kept."""
        return self.data_dir / "models"

    @field_validator("api_key")
    @classmethod
    def _cannot_be_guessed(cls, key: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        host = info.data.get("host", "")
        if key and len(key.get_secret_value()) < LEAST_KEY and not is_loopback(host):
            raise ValueError(
                f"a device that listens beyond this machine needs a key of at least {LEAST_KEY} "
                "characters (128 bits); without one it makes its own"
            )
        return key

    @field_validator("watch", mode="before")
    @classmethod
    def _are_paths(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(Path(each) for each in value.split(os.pathsep) if each.strip())

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _are_origins(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        origins = tuple(each.strip().lower() for each in value.split(",") if each.strip())
        for origin in origins:
            parts = urlsplit(origin)
            if (
                parts.scheme not in ("http", "https")
                or origin != f"{parts.scheme}://{parts.netloc}"
            ):
                raise ValueError(f"{origin} is no origin: they look like http://localhost:3000")
        return origins

    @field_validator("peer_url")
    @classmethod
    def _is_a_safe_link(cls, url: str) -> str:
        addresses(url)
        return url

    @property
    def peers(self) -> tuple[PeerAddress, ...]:
        """The peers that `peer_url` names."""
        return addresses(self.peer_url)
