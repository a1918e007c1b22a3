"""A column of messages for people that also stores how to translate them."""

from __future__ import annotations

import json

from sqlalchemy import Dialect, String
from sqlalchemy.types import TypeDecorator

from dragon.localizable import Localizable

_MARK = "\x1f"
"""Separates, in the column, a message from its translation data in JSON."""


class LocalizableText(TypeDecorator[str]):
    """Text; for a `Localizable`, code and values are stored, too."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The value to store."""
        if not isinstance(value, Localizable):
            return value
        return value + _MARK + json.dumps(value.as_json())

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """The value that was stored."""
        if value is None or _MARK not in value:
            return value
        return Localizable.from_json(json.loads(value.partition(_MARK)[2]))
