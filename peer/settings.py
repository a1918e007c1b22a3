"""Settings of the cloud peer, from the environment and `.env`, prefix `DRAGON_`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from dragon.errors import ConfigurationError
from dragon.inference.choice import ModelChoice
from dragon.keys import LEAST_KEY, is_loopback


class PeerSettings(ModelChoice, BaseSettings):
    """Everything the peer can be told. `exact` steps each answer in a forward of its own."""

    model_config = SettingsConfigDict(
        env_prefix="DRAGON_", env_file=".env", env_ignore_empty=True, extra="ignore"
    )

    data_dir: Path = Path("data")
    peer_host: str = "127.0.0.1"
    peer_port: int = Field(8100, ge=0, le=65535)
    peer_keys: Annotated[tuple[str, ...], NoDecode] = ()
    peer_corpus: Path
    peer_max_sessions: int = Field(128, ge=1)
    embedder: Path | None = None
    reranker: Path | None = None
    # The most that passages' KV may take on the disk, in the corpus's directory; 0 keeps none.
    kv_cache_mb: int = Field(1024, ge=0)
    log_format: Literal["text", "json"] = "text"
    exact: bool = False

    @field_validator("peer_keys", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(key.strip() for key in value.split(",") if key.strip())
        return value

    @model_validator(mode="after")
    def _open_only_on_loopback(self) -> PeerSettings:
        if is_loopback(self.peer_host):
            return self
        if not self.peer_keys:
            raise ValueError(
                "DRAGON_PEER_KEYS: a peer that listens beyond loopback needs at least one key"
            )
        if min(map(len, self.peer_keys)) < LEAST_KEY:
            raise ValueError(
                f"DRAGON_PEER_KEYS: beyond loopback a key has at least {LEAST_KEY} characters "
                "(128 bits), such as Python's secrets.token_urlsafe(32) makes"
            )
        return self

    @classmethod
    def read(cls) -> PeerSettings:
        """Settings of this process; raises `ConfigurationError` naming the one that is wrong."""
        try:
            return cls()
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = f"DRAGON_{str(first['loc'][0]).upper()}: " if first["loc"] else ""
            raise ConfigurationError(
                f"{name}{first['msg'].removeprefix('Value error, ')}"
            ) from error
