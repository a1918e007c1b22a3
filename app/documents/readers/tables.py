"""CSV and JSON: rows of text, and values as self-contained lines."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from statistics import mode
from typing import Any

from app.documents.readers.common import NESTED, UnreadableError, damaged, one_line
from app.documents.readers.grid import record

_DELIMITERS = ",;\t|"
_SAID = re.compile(r"\A\ufeff?sep=(.)\r?\n")
_SAMPLE = 50
_FILLED = 0.8  # of the rows of a table, that have several cells


def rows(text: str, *, named: bool) -> list[list[str]] | None:
    """The rows of a table of delimiter-separated values, or None if the text is not one.

    `named`: the file name says that it is one; otherwise commas in prose must not count as
    delimiters, which csv.Sniffer would take them for.
    """
    csv.field_size_limit(len(text) + 1)
    if said := _SAID.match(text):  # by Excel, which has it as the first line
        return list(_read(text[said.end() :], said[1]))
    for delimiter in sorted(_DELIMITERS, key=lambda each: -text[:10_000].count(each)):
        sample = list(_read(text, delimiter, _SAMPLE))
        if not named and any(cell.startswith(" ") for row in sample for cell in row):
            continue
        widths = [len(row) for row in sample]
        if not named:
            if len(widths) > 2 and min(widths) == max(widths) >= (3 if delimiter == "," else 2):
                return list(_read(text, delimiter))
        elif wide := [width for width in widths if width > 1]:
            # What stands above the header is narrower, as in the exports of banks.
            table = widths[widths.index(mode(wide)) :]
            if sum(width > 1 for width in table) > _FILLED * len(table):
                return list(_read(text, delimiter))
    return None


def _read(text: str, delimiter: str, limit: int | None = None) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for number, row in enumerate(filter(any, reader)):
            if number == limit:
                return
            yield row
    except csv.Error:
        raise UnreadableError(damaged("CSV")) from None


def json_value(text: str) -> Any:
    """The value of a JSON text, or the list of its lines' values (JSON Lines).

    Raises ValueError if it is neither, UnreadableError if it is nested too deeply.
    """
    try:
        try:
            return json.loads(text)
        except ValueError:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
    except RecursionError:
        raise UnreadableError(NESTED) from None


def json_lines(value: Any) -> list[str]:
    """A line per object, its path followed by its scalar values, and a line per plain list."""
    lines: list[str] = []
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        path, each = todo.pop()
        inner: list[tuple[str, Any]] = []
        if (text := _plain(each)) is not None:
            lines += record([(path or None, text)])
        elif isinstance(each, list):
            inner = [(path, item) for item in each]
        else:
            fields = {one_line(name): item for name, item in each.items()}
            pairs = [(name, text) for name, item in fields.items() if (text := _plain(item))]
            lines += record([(None, path), *pairs] if pairs else [])
            if pairs and each is not value:  # nested lines name this object
                path = f"{path} ({pairs[0][0]}: {pairs[0][1]})".strip()
            inner = [
                (f"{path}.{name}" if path else name, item)
                for name, item in fields.items()
                if _plain(item) is None
            ]
        todo += reversed(inner)
    return lines


def _plain(value: Any) -> str | None:
    """A scalar or a list of scalars as text; None for anything nested."""
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ", ".join(filter(None, map(_plain, value)))
    if isinstance(value, dict | list):
        return None if value else ""
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else json.dumps(value)
