"""Messages for people: English text, with the code and the values that a translation needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self


class Localizable(str):
    """A message in English, the `code` of its template, and the values in it, perhaps messages."""

    code: str
    values: Mapping[str, str | int]

    def __new__(
        cls, text: str, code: str = "", values: Mapping[str, str | int] | None = None
    ) -> Self:
        """Make a message from finished text; `localizable` makes one from a template."""
        self = super().__new__(cls, encodable(text))
        self.code, self.values = code, values or {}
        return self

    def as_json(self) -> dict[str, Any]:
        values = {
            name: value.as_json() if isinstance(value, Localizable) else _clean(value)
            for name, value in self.values.items()
        }
        return {"text": str(self), "code": self.code, "values": values}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        values = {
            name: cls.from_json(value) if isinstance(value, Mapping) else value
            for name, value in found["values"].items()
        }
        return cls(found["text"], found["code"], values)


def localizable(code: str, english: str, /, **values: str | int) -> Localizable:
    """Fill in a template, which `static/text` has in every language under the same code."""
    return Localizable(english.format(**values), code, values)


def joined(parts: Sequence[Localizable], between: str) -> Localizable:
    """Join at least one message with `between`."""
    *before, last = parts
    for part in reversed(before):
        last = localizable(
            "joined", "{first}{between}{rest}", first=part, between=between, rest=last
        )
    return last


def encodable(text: str) -> str:
    """Replace lone surrogates, which no encoding accepts, by '?'."""
    return text.encode("utf-8", "replace").decode()


def one_line(text: str, most: int = 500) -> str:
    """Make text from another machine fit a sentence: printable, on one line, cut to a length."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def with_localizable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Add `localizable` to an object's fields: the code and the values of each message."""
    found = {
        name: value.as_json() for name, value in fields.items() if isinstance(value, Localizable)
    }
    return {**fields, "localizable": fields.get("localizable", {}) | found} if found else {**fields}


def _clean(value: str | int) -> str | int:
    return encodable(value) if isinstance(value, str) else value
