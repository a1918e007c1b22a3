"""The page's texts, in the language that a browser asks for."""

from __future__ import annotations

import json
from functools import cache

from app.paths import packaged

LANGUAGES = ("en", "de", "es")

Texts = dict[str, str]


def texts(accepted: str) -> Texts:
    """The texts of the first language that we have in an `Accept-Language` header, or English."""
    named = (part.strip()[:2].lower() for part in accepted.split(","))
    return _of(next((name for name in named if name in LANGUAGES), LANGUAGES[0]))


@cache
def _of(language: str) -> Texts:
    found: Texts = json.loads((packaged("static") / "text" / f"{language}.json").read_bytes())
    return found | {"language": language}
