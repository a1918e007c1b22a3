"""What a file says of itself beside its text: title, date, tags."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from app.documents.readers.common import one_line

_MOST_TAGS, _LONGEST = 50, 200


@dataclass(frozen=True)
class Properties:
    """Each may be missing; the date is in ISO 8601, as exact as the file says."""

    title: str | None = None
    date: str | None = None
    tags: tuple[str, ...] = ()


NOTHING = Properties()


def of_front_matter(said: Mapping[object, object]) -> Properties:
    """Of the keys of YAML front matter, whatever stands under them."""
    tags = said.get("tags", said.get("tag"))
    each = tags.replace(",", " ").split() if isinstance(tags, str) else tags
    named = [_words(tag) for tag in each[:_MOST_TAGS]] if isinstance(each, list) else []
    return Properties(
        title=_words(said.get("title")),
        date=_words(said.get("date", said.get("created"))),
        tags=tuple(dict.fromkeys(tag.lstrip("#") for tag in named if tag)),
    )


def of_mail(subject: str, date: str) -> Properties:
    """Of a message's headers."""
    try:
        sent = parsedate_to_datetime(date).isoformat()
    except ValueError:
        sent = None
    return Properties(title=_words(subject), date=sent)


def _words(value: object) -> str | None:
    """A plain value as text; nothing that is nested, or empty."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str | int | float):
        return one_line(str(value))[:_LONGEST] or None
    return None
