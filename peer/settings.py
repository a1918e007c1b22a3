"""Settings of the cloud peer, from the environment and `.env`, prefix `DRAGON_`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from dragon.errors import ConfigurationError
from dragon.inference.choice import CHOSEN, ModelChoice
from dragon.keys import LEAST_KEY, is_loopback
from peer.keys import KEYS


class PeerSettings(ModelChoice, BaseSettings):
    """All settings of the peer. `exact` steps each answer in its own forward."""

    model_config = SettingsConfigDict(
        env_prefix="DRAGON_", env_file=".env", env_ignore_empty=True, extra="ignore"
    )

    data_dir: Path = Path("data")
    peer_host: str = "127.0.0.1"
    peer_port: int = Field(8100, ge=0, le=65535)
    peer_keys: Annotated[tuple[str, ...], NoDecode] = ()
    peer_corpus: Path
    peer_max_sessions: int = Field(128, ge=1)
    # How long, in seconds, answers in progress may take once the peer shuts down.
    peer_drain_deadline: float = Field(60.0, ge=0)
    # A certificate chain and its key, PEM: links are then encrypted.
    peer_tls_cert: Path | None = None
    peer_tls_key: Path | None = None
    embedder: Path | None = None
    reranker: Path | None = None
    # The most that passages' KV may take on disk, in the corpus's directory; 0 keeps none.
    kv_cache_mb: int = Field(1024, ge=0)
    log_format: Literal["text", "json"] = "text"

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
        if not self.peer_keys and not (self.data_dir / KEYS).exists():
            raise ValueError(
                "DRAGON_PEER_KEYS: a peer that listens beyond loopback needs at least one key; "
                "`dragon peer keys add` makes one"
            )
        if min(map(len, self.peer_keys), default=LEAST_KEY) < LEAST_KEY:
            raise ValueError(
                f"DRAGON_PEER_KEYS: beyond loopback a key has at least {LEAST_KEY} characters "
                "(128 bits), such as Python's secrets.token_urlsafe(32) makes"
            )
        return self

    @model_validator(mode="after")
    def _whole_certificate(self) -> PeerSettings:
        if (self.peer_tls_cert is None) != (self.peer_tls_key is None):
            raise ValueError(
                "DRAGON_PEER_TLS_CERT and DRAGON_PEER_TLS_KEY: set both, or neither of them"
            )
        return self

    @classmethod
    def read(cls) -> PeerSettings:
        """Settings of this process; raises `ConfigurationError` naming the one that is wrong."""
        try:
            # The chosen model is in the data directory.
            return cls(_env_file=(cls().data_dir / CHOSEN, ".env"))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = f"DRAGON_{str(first['loc'][0]).upper()}: " if first["loc"] else ""
            raise ConfigurationError(
                f"{name}{first['msg'].removeprefix('Value error, ')}"
            ) from error
