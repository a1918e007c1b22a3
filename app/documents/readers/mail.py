"""E-mail: headers, body and attachments of one message, or of each in a mailbox (mbox)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from email import policy
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from typing import Any

from app.documents.readers.common import (
    LONGEST_PROPERTY,
    NESTED,
    Properties,
    UnreadableError,
    decoded,
    one_line,
    tidy,
)
from app.documents.readers.markup import html_text
from app.documents.readers.paragraphs import paragraphs
from dragon.localizable import Localizable, localizable

_SHOWN = ("From", "To", "Cc", "Date", "Subject")
# The line before each message of a mailbox; lines of text like it begin with > there.
_SEPARATOR = re.compile(rb"(?:\A|(?<=\n)\r?\n)From [^\n]*\d\d:\d\d[^\n]*\n")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)

_SIGNATURES = {f"application/{kind}-signature" for kind in ("pgp", "pkcs7", "x-pkcs7")}
_ATTACHED = "Attachment"

Read = Callable[[bytes, str], str]


def mail_text(data: bytes, read: Read) -> tuple[str, Properties]:
    """Headers, body and attachments, which `read` turns into text, and what the headers say."""
    text, properties, _ = _mail(data, read)
    return text, properties


def _mail(data: bytes, read: Read) -> tuple[str, Properties, str]:
    """The same, and who sent it."""
    message = BytesParser(policy=policy.default).parsebytes(data)
    try:
        text = tidy("\n\n".join(_parts(message, read)))
    except RecursionError:
        raise UnreadableError(NESTED) from None
    try:
        sent = parsedate_to_datetime(_header(message, "Date")).isoformat()
    except ValueError:
        sent = None
    properties = Properties(_header(message, "Subject")[:LONGEST_PROPERTY] or None, sent)
    return text, properties, _header(message, "From")


def mailbox_text(data: bytes, read: Read) -> tuple[str, Localizable | None]:
    """The messages of a mailbox, each under a heading, and a note if some cannot be read."""
    messages = [_QUOTED.sub(rb"\1", each) for each in _SEPARATOR.split(data) if each.strip()]
    texts, unread = [], 0
    for each in messages:
        try:
            text, properties, sender = _mail(each, read)
        except Exception:  # the standard library's parser has many ways to fail
            unread += 1
            continue
        title = properties.title or "Without a subject"
        heading = ", ".join(filter(None, (title, sender, (properties.date or "")[:10])))
        texts.append(f"# {heading}\n\n{text}")
    english = "{unread} of {count} messages cannot be read."
    note = localizable("file.note.messages", english, unread=unread, count=len(messages))
    return "\n\n".join(texts), note if unread else None


def _header(message: Any, name: str) -> str:
    return one_line(str(message.get(name, "")))


def _parts(message: Any, read: Read) -> list[str]:
    headers = [(name, _header(message, name)) for name in _SHOWN]
    shown = "\n".join(f"{name}: {value}" for name, value in headers if value)
    return [shown, *_said(message, read)]


def _said(part: Any, read: Read) -> list[str]:
    """All that a part says: of alternatives the plainest with text, and what else only one has."""
    kind = part.get_content_type()
    if kind == "message/rfc822":
        return [text for inner in part.iter_parts() for text in _parts(inner, read)]
    if kind == "multipart/alternative":
        bodies: list[str] = []
        attached: list[str] = []
        for each in part.iter_parts():
            text = [said for said in _said(each, read) if said.strip()]
            attached += [said for said in text if said.startswith(_ATTACHED)]
            bodies = bodies or [said for said in text if not said.startswith(_ATTACHED)]
        return [*bodies, *dict.fromkeys(attached)]
    if part.is_multipart():
        return [text for inner in part.iter_parts() for text in _said(inner, read)]
    if kind in _SIGNATURES:
        return []
    named = part.get_filename() or part.get_content_disposition() == "attachment"
    data = part.get_payload(decode=True)
    content = data if isinstance(data, bytes) else b""
    if named or part.get_content_maintype() != "text":
        name = one_line(part.get_filename() or "without a name")
        try:
            return [f"{_ATTACHED}: {name}\n\n{read(content, name)}"]
        except UnreadableError:
            return [f"{_ATTACHED} (not read): {name}"]
    whole = decoded(content, part.get_content_charset() or "")
    body = whole.text if whole else ""
    if kind == "text/html":
        with suppress(UnreadableError):  # there is nothing in it
            return [html_text(body.encode())]
        return []
    return [paragraphs("\n".join(map(str.rstrip, body.split("\n"))))]
