"""The permissions of API keys, and whose documents they see.

The device's own key may do everything, a named key what it was granted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.owners import DEVICE
from dragon.keys import KeyFile, NamedKey

API_KEYS = "api_keys.json"
"""The file of named keys, in the data directory."""


KEY = "dragon.key"
"""The entry of a request's scope that holds its named key, if any."""


class May(StrEnum):
    """What a key permits; each value includes the ones before it."""

    ASK = "ask"  # answers, and what they need
    UPLOAD = "upload"  # also adding, listing and reading documents
    ALL = "all"


class Documents(StrEnum):
    """Which documents a key sees."""

    OWN = "own"  # its own, and shared ones
    SHARED = "shared"  # the device's, as if it were the device's own key


class ApiKey(NamedKey):
    """A named key."""

    may: May = May.ASK
    documents: Documents = Documents.SHARED

    @property
    def owner(self) -> str:
        return self.name if self.documents is Documents.OWN else DEVICE


@dataclass(frozen=True)
class Credential:
    """The key of a request: the device's own, or a named one."""

    key: ApiKey | None = None

    @property
    def name(self) -> str:
        """The key's name; the device's own has none."""
        return "" if self.key is None else self.key.name

    @property
    def may(self) -> May:
        return May.ALL if self.key is None else self.key.may

    @property
    def owner(self) -> str:
        return DEVICE if self.key is None else self.key.owner

    def permits(self, method: str, path: str) -> bool:
        """Whether the key allows a request; a path that is not listed requires `May.ALL`.

        Adding folders and changing models require a key with the device's documents.
        """
        wanted = f"{method} {path}"
        if self.owner != DEVICE and _DEVICE.fullmatch(wanted):
            return False
        if self.may is May.ALL:
            return True
        if self.may is May.UPLOAD and _UPLOAD.fullmatch(wanted):
            return True
        return _ASK.fullmatch(wanted) is not None


def api_keys(data_dir: Path) -> KeyFile[ApiKey]:
    return KeyFile(data_dir / API_KEYS, ApiKey)


_ASK = re.compile(
    r"""
    POST\ /v1/(chat/)?completions | POST\ /v1/(embeddings|rerank|search)
    | POST\ /v1/vector_stores/[^/]+/search
    | POST\ /v1/responses | (GET|DELETE)\ /v1/responses/[^/]+
    | GET\ /v1/responses/[^/]+/input_items | POST\ /v1/messages(/count_tokens)?
    | GET\ /v1/models(/.*)? | POST\ /(de)?tokenize
    | POST\ /api/(chat|generate|embed|embeddings|show) | GET\ /api/(tags|ps|version)
    """,
    re.VERBOSE,
)
_UPLOAD = re.compile(
    r"""
    GET\ /v1/(files|collections)(/.*)?
    | POST\ /v1/files(/[^/]+/(cancel|retry|share|unshare))?
    | GET\ /v1/vector_stores(/.*)?
    | POST\ /v1/vector_stores(/[^/]+/(files|file_batches(/[^/]+/cancel)?))?
    | [A-Z]+\ /mcp
    """,
    re.VERBOSE,
)
_DEVICE = re.compile(r"POST /api/(folders|models/.*)")
