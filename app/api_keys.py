"""What an API key may do: the device's own everything, a named one what it was given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dragon.key_file import KeyFile, NamedKey

API_KEYS = "api_keys.json"
"""In the data directory."""


class May(StrEnum):
    """What a key is good for; each includes the ones before."""

    ASK = "ask"  # answers, and what goes with them
    UPLOAD = "upload"  # adding documents, listing and reading them, too
    ALL = "all"


class ApiKey(NamedKey):
    """A named key. All keys answer from the same documents."""

    may: May = May.ASK


@dataclass(frozen=True)
class Credential:
    """Who is asking, as far as that matters: what he may do, and the key's name if it has one."""

    may: May = May.ALL
    name: str = ""

    def permits(self, method: str, path: str) -> bool:
        """Whether a request is allowed. A path that is not listed needs a key for all."""
        if self.may is May.ALL:
            return True
        wanted = f"{method} {path}"
        if self.may is May.UPLOAD and _UPLOAD.fullmatch(wanted):
            return True
        return _ASK.fullmatch(wanted) is not None


def api_keys(data_dir: Path) -> KeyFile[ApiKey]:
    """The named keys of a device."""
    return KeyFile(data_dir / API_KEYS, ApiKey)


_ASK = re.compile(
    r"""
    POST\ /v1/(chat/)?completions | POST\ /v1/(embeddings|rerank|search)
    | POST\ /v1/vector_stores/[^/]+/search
    | POST\ /v1/responses | (GET|DELETE)\ /v1/responses/[^/]+
    | GET\ /v1/models(/.*)? | POST\ /(de)?tokenize
    | POST\ /api/(chat|generate|embed|show) | GET\ /api/(tags|version)
    """,
    re.VERBOSE,
)
_UPLOAD = re.compile(
    r"""
    GET\ /v1/(files|collections)(/.*)? | POST\ /v1/files(/[^/]+/(cancel|retry))?
    | GET\ /v1/vector_stores(/.*)? | POST\ /v1/vector_stores(/[^/]+/files)?
    | [A-Z]+\ /mcp
    """,
    re.VERBOSE,
)
