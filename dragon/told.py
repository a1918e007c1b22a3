"""Sentences for people: English, with what it takes to say them in another language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self


class Told(str):
    """A sentence in English that knows its `code`, which stands for it, and the values in it.

    A value may be a sentence itself.
    """

    code: str
    values: Mapping[str, str | int]

    def __new__(
        cls, text: str, code: str = "", values: Mapping[str, str | int] | None = None
    ) -> Self:
        """The sentence; `told` makes one of a template."""
        self = super().__new__(cls, encodable(text))
        self.code, self.values = code, values or {}
        return self

    def shown(self) -> dict[str, Any]:
        """As JSON: text, code, values."""
        values = {
            name: value.shown() if isinstance(value, Told) else _clean(value)
            for name, value in self.values.items()
        }
        return {"text": str(self), "code": self.code, "values": values}

    @classmethod
    def of(cls, shown: Mapping[str, Any]) -> Self:
        """What was `shown`."""
        values = {
            name: cls.of(value) if isinstance(value, Mapping) else value
            for name, value in shown["values"].items()
        }
        return cls(shown["text"], shown["code"], values)


def told(code: str, english: str, /, **values: str | int) -> Told:
    """A sentence from its template, whose blanks are the values' names.

    `static/text` has the template of each code in every language.
    """
    return Told(english.format(**values), code, values)


def row(parts: Sequence[Told], between: str) -> Told:
    """Sentences, at least one, with `between` between them."""
    *before, last = parts
    for part in reversed(before):
        last = told("row", "{first}{between}{rest}", first=part, between=between, rest=last)
    return last


def encodable(text: str) -> str:
    """A text may quote half surrogate pairs, which no encoding takes; they become '?'."""
    return text.encode("utf-8", "replace").decode()


def with_told(fields: Mapping[str, Any]) -> dict[str, Any]:
    """An object's fields, and in `told` what there is to know of the sentences among them."""
    found = {name: value.shown() for name, value in fields.items() if isinstance(value, Told)}
    return {**fields, "told": found} if found else {**fields}


def _clean(value: str | int) -> str | int:
    return encodable(value) if isinstance(value, str) else value
