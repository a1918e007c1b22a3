"""E-mail: headers, body and attachments."""

from __future__ import annotations

from collections.abc import Callable
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any

from app.documents.readers.common import NESTED, UnreadableError, one_line, tidy
from app.documents.readers.markup import html_text

_SHOWN = ("From", "To", "Cc", "Date", "Subject")

Read = Callable[[bytes, str], str]


def mail_text(data: bytes, read: Read) -> str:
    """Headers, body and attachments; `read` turns an attachment's bytes and name into text."""
    try:
        message = BytesParser(policy=policy.default).parsebytes(data)
        return tidy("\n\n".join(_parts(message, read)))
    except RecursionError:
        raise UnreadableError(NESTED) from None


def _parts(message: Any, read: Read) -> list[str]:
    headers = [(name, one_line(str(message.get(name, "")))) for name in _SHOWN]
    parts = ["\n".join(f"{name}: {value}" for name, value in headers if value)]
    body = message.get_body(("plain", "html"))
    if body is not None:
        parts.append(_body(body))
    for attachment in message.iter_attachments():
        if attachment.get_content_type() == "message/rfc822":
            parts += _parts(attachment.get_content(), read)
        elif not attachment.is_multipart():
            parts.append(_attached(attachment, read))
    return parts


def _body(part: EmailMessage) -> str:
    data = part.get_payload(decode=True)
    content = data if isinstance(data, bytes) else b""
    try:
        text = content.decode(part.get_content_charset() or "utf-8")
    except (LookupError, UnicodeDecodeError):
        text = content.decode("utf-8", "replace")
    return html_text(text.encode()) if part.get_content_subtype() == "html" else text


def _attached(part: EmailMessage, read: Read) -> str:
    name = one_line(part.get_filename() or "without a name")
    data = part.get_payload(decode=True)
    try:
        text = read(data if isinstance(data, bytes) else b"", name)
    except UnreadableError:
        return f"Attachment (not read): {name}"
    return f"Attachment: {name}\n\n{text}"
