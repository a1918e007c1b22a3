"""A column of messages for people that keeps what it takes to say them in another language."""

from __future__ import annotations

import json

from sqlalchemy import Dialect, String
from sqlalchemy.types import TypeDecorator

from dragon.localizable import Localizable

_MARK = "\x1f"
"""Stands in the column between a message and all that is known of it, in JSON."""


class LocalizableText(TypeDecorator[str]):
    """Text; of a `Localizable` code and values are kept, too."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """What is stored."""
        if not isinstance(value, Localizable):
            return value
        return value + _MARK + json.dumps(value.as_json())

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """What was stored."""
        if value is None or _MARK not in value:
            return value
        return Localizable.from_json(json.loads(value.partition(_MARK)[2]))
