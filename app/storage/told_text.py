"""A column of sentences for people that keeps what it takes to say them in another language."""

from __future__ import annotations

import json

from sqlalchemy import Dialect, String
from sqlalchemy.types import TypeDecorator

from dragon.told import Told

_MARK = "\x1f"
"""Stands in the column between a sentence and what is told of it, in JSON."""


class ToldText(TypeDecorator[str]):
    """Text; of a `Told` all that it knows is kept."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """What is stored."""
        if not isinstance(value, Told):
            return value
        return value + _MARK + json.dumps(value.shown())

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """What was stored."""
        if value is None or _MARK not in value:
            return value
        return Told.of(json.loads(value.partition(_MARK)[2]))
