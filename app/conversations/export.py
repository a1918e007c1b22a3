"""A conversation as a file: Markdown for people, JSON for programs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from app.storage.tables import Conversation, StoredMessage

_UNSAFE = re.compile(r"[^\w .-]+")


def filename(conversation: Conversation, ending: str) -> str:
    """A name that is valid on every file system."""
    stem = _UNSAFE.sub("", conversation.title).strip(" .")[:60] or "conversation"
    return f"{stem}.{ending}"


def as_json(conversation: Conversation, messages: Sequence[StoredMessage]) -> dict[str, Any]:
    """All branches, with sources and how each answer came about."""
    return {
        "id": conversation.id,
        "title": conversation.title,
        "created_at": conversation.created_at,
        "updated_at": conversation.updated_at,
        "leaf": conversation.leaf,
        "messages": [message_as_json(message) for message in messages],
    }


def message_as_json(message: StoredMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "parent": message.parent_id,
        "role": message.role,
        "text": message.text,
        "private": message.private,
        "state": message.state,
        "created_at": message.created_at,
        **message.record,
    }


def as_markdown(conversation: Conversation, branch: Sequence[StoredMessage]) -> str:
    """The shown branch, with the names of the sources."""
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(conversation.created_at))
    parts = [f"# {conversation.title}", f"_{day}_"]
    for message in branch:
        who = "You" if message.role == "user" else "Answer"
        parts += [f"## {who}{_kept(message)}", message.text.strip()]
        if sources := message.record.get("sources"):
            parts.append("\n".join(["Sources:", "", *map(_source, sources)]))
    return "\n\n".join(parts) + "\n"


def _kept(message: StoredMessage) -> str:
    if not message.private:
        return ""
    begun_openly = "private_from" in message.record
    return f" ({'begun openly, then ' if begun_openly else ''}kept on this device)"


def _source(source: dict[str, Any]) -> str:
    page = f", page {source['page']}" if source.get("page") else ""
    confidence = source.get("confidence")
    scan = f", recognised with {confidence} % confidence" if confidence is not None else ""
    return f"- {source['title']}{page}{scan} ({source['side']})"
