"""Reads passages from JSON Lines, tab-separated text or Parquet, a few at a time."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from dragon.errors import ConfigurationError, DocumentError

COLUMNS = ("id", "title", "text")
_MAX_LINE_BYTES = 16 << 20
_PARQUET = b"PAR1"
_ROWS = 256


@dataclass(frozen=True)
class SourceRecord:
    """A document of the source; `line`, in Parquet the row, counts from 1."""

    line: int
    id: str
    title: str
    text: str


class MalformedLineError(DocumentError):
    """A line of the source cannot be read; the message gives its number."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"Line {line}: {reason}")


def read_records(source: Path) -> Iterator[SourceRecord]:
    """The documents of a source, in order; blank lines are skipped.

    A source whose first line begins with `{` is JSON Lines: objects with `id`, `title`, `text`.
    Parquet has columns with these names. Anything else is tab-separated with these three columns,
    in this order or in that of a header line (the DPR passages have `id`, `text`, `title`). Double
    quotes within a quoted field are doubled. Raises MalformedLineError; ConfigurationError for
    Parquet without the extra `parquet`.
    """
    with source.open("rb") as file:
        if file.read(len(_PARQUET)) == _PARQUET:
            yield from _rows(file)
        else:
            file.seek(0)
            yield from _text_records(file)


def _rows(file: BinaryIO) -> Iterator[SourceRecord]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise ConfigurationError(
            "Reading Parquet needs pyarrow: pip install 'dragon-rag[parquet]'."
        ) from None
    number = 0
    try:
        for batch in ParquetFile(file).iter_batches(_ROWS, columns=list(COLUMNS)):
            for value in batch.to_pylist():
                number += 1
                yield _record(number, value)
    except ArrowException as error:
        raise MalformedLineError(number + 1, f"it is not valid Parquet ({error})") from None


def _text_records(file: BinaryIO) -> Iterator[SourceRecord]:
    parse: Callable[[int, str], SourceRecord] | None = None
    for number, line in _lines(file):
        if parse is None:
            if line.lstrip().startswith("{"):
                parse = _json_record
            else:
                header = tuple(field.strip().lower() for field in line.split("\t"))
                named = sorted(header) == sorted(COLUMNS)
                parse = partial(_tab_separated, header if named else COLUMNS)
                if named:
                    continue
        yield parse(number, line)


def _lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    number = 0
    while data := file.readline(_MAX_LINE_BYTES):
        number += 1
        if len(data) == _MAX_LINE_BYTES:
            raise MalformedLineError(number, f"it is longer than {_MAX_LINE_BYTES >> 20} MB")
        if number == 1:
            data = data.removeprefix(codecs.BOM_UTF8)
        try:
            line = data.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            reason = f"it is not UTF-8 (byte {error.start + 1})"
            raise MalformedLineError(number, reason) from None
        if line.strip():
            yield number, line


def _json_record(number: int, line: str) -> SourceRecord:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        reason = f"it is not valid JSON ({error.msg}, column {error.colno})"
        raise MalformedLineError(number, reason) from None
    if not isinstance(value, dict):
        raise MalformedLineError(number, "it is not a JSON object")
    return _record(number, value)


def _tab_separated(columns: Sequence[str], number: int, line: str) -> SourceRecord:
    fields = line.split("\t")
    if len(fields) != len(columns):
        reason = f"it has {len(fields)} tab-separated fields instead of 3 (id, title, text)"
        raise MalformedLineError(number, reason)
    return _record(number, dict(zip(columns, map(_unquoted, fields), strict=True)))


def _unquoted(field: str) -> str:
    if len(field) >= 2 and field.startswith('"') and field.endswith('"'):
        return field[1:-1].replace('""', '"')
    return field


def _record(number: int, value: Mapping[str, Any]) -> SourceRecord:
    fields: dict[str, str] = {}
    for column in COLUMNS:
        if column not in value:
            raise MalformedLineError(number, f"'{column}' is missing")
        text_or_id = str if column != "id" else (str, int)
        if not isinstance(value[column], text_or_id) or isinstance(value[column], bool):
            raise MalformedLineError(number, f"'{column}' is not a string")
        fields[column] = str(value[column]).strip()
        if not fields[column] and column != "title":
            raise MalformedLineError(number, f"'{column}' is empty")
    return SourceRecord(number, **fields)
