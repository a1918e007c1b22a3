"""`/api/conversations`: their list, search, messages, changes and exports; `/api/projects`."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from typing import Annotated, Any, Literal
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

from app.api.openai.field_types import Strict
from app.api.page.markdown import render
from app.container import State
from app.documents.uploads import MAX_COLLECTION_CHARACTERS
from app.storage.tables import Conversation, MessageState, StoredMessage

router = APIRouter(prefix="/api")
_CONVERSATIONS: list[str | Enum] = ["conversations"]
_PROJECTS: list[str | Enum] = ["projects"]

_UNSAFE = re.compile(r"[^\w .-]+")  # in a name on some file system
_EXPORTED = ("id", "title", "created_at", "updated_at", "leaf")
_SUMMARY = (*_EXPORTED, "project", "pinned", "archived", "private")
Title = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]


class Change(Strict):
    """Omitted fields stay unchanged; `leaf` is a message at the end of the branch to show.

    `project` "" removes the conversation from its project.
    """

    title: Title | None = None
    leaf: str | None = None
    project: Annotated[str, Field(max_length=MAX_COLLECTION_CHARACTERS)] | None = None
    pinned: bool | None = None
    archived: bool | None = None
    private: bool | None = None


@router.get("/conversations", tags=_CONVERSATIONS)
async def list_conversations(
    state: State,
    before: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
    after: Annotated[str, Query(max_length=64)] = "",
    search: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
    project: Annotated[str | None, Query(max_length=MAX_COLLECTION_CHARACTERS)] = None,
    archived: bool = False,
) -> dict[str, Any]:
    """The pinned conversations, then the others, latest first; or the archived ones.

    For more, `before` and `after` are `updated_at` and `id` of the last one. A search covers all.
    """
    store = state.conversations
    listed = await store.list(search, limit + 1, before, after, project, archived=archived)
    first = before is None and not archived and not search.strip()
    shown = [*(await store.pinned(project) if first else ()), *listed[:limit]]
    return {
        "data": [summary(conversation) | {"found": found} for conversation, found in shown],
        "has_more": len(listed) > limit,
    }


@router.get("/conversations/{identity}", tags=_CONVERSATIONS)
async def get_conversation(identity: str, state: State) -> dict[str, Any]:
    """A conversation with all of its messages, answers as safe HTML."""
    conversation = await state.conversations.get(identity)
    messages = await state.conversations.messages(identity)
    whole = await asyncio.to_thread(lambda: [view(message) for message in messages])
    return summary(conversation) | {"messages": whole}


@router.get("/conversations/{identity}/messages/{message}/tokens", tags=_CONVERSATIONS)
async def get_tokens(identity: str, message: str, state: State) -> dict[str, Any]:
    """The provenance of an answer's tokens."""
    return {"tokens": (await state.conversations.message(message)).tokens}


@router.patch("/conversations/{identity}", tags=_CONVERSATIONS)
async def change_conversation(identity: str, change: Change, state: State) -> dict[str, Any]:
    """Rename, show another branch, move to a project, pin, archive, make private."""
    return summary(await state.conversations.change(identity, **change.model_dump()))


@router.delete("/conversations/{identity}", tags=_CONVERSATIONS)
async def delete_conversation(identity: str, state: State) -> dict[str, Any]:
    """Delete a conversation permanently; an answer being written ends."""
    for message in await state.conversations.messages(identity):
        if run := state.background_runs.get(message.id):
            run.stop()
            await run.ended()
    await state.ledger.forget_given(await state.conversations.ledgers(identity))
    await state.conversations.delete(identity)
    return {"id": identity, "deleted": True}


@router.get("/conversations/{identity}/export", tags=_CONVERSATIONS)
async def export_conversation(
    identity: str, state: State, as_: Annotated[Literal["markdown", "json"], Query(alias="as")]
) -> Response:
    """The shown branch as Markdown, or everything as JSON, for download."""
    conversation = await state.conversations.get(identity)
    messages = await state.conversations.messages(identity)
    if as_ == "json":
        whole = as_json(conversation, messages)
        content, kind = orjson.dumps(whole, option=orjson.OPT_INDENT_2), "application/json"
    else:
        branch = await state.conversations.path(conversation.leaf) if conversation.leaf else []
        content, kind = as_markdown(conversation, branch).encode(), "text/markdown"
    stem = _UNSAFE.sub("", conversation.title).strip(" .")[:60] or "conversation"
    name = quote(f"{stem}.{'json' if as_ == 'json' else 'md'}")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(content, media_type=kind, headers=headers)


def as_json(conversation: Conversation, messages: Sequence[StoredMessage]) -> dict[str, Any]:
    """All branches, with sources and how each answer came about."""
    fields = {name: getattr(conversation, name) for name in _EXPORTED}
    return fields | {"messages": [message_as_json(message) for message in messages]}


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
        openly = "begun openly, then " if "private_from" in message.record else ""
        kept = f" ({openly}kept on this device)" if message.private else ""
        parts += [f"## {who}{kept}", message.text.strip()]
        if sources := message.record.get("sources"):
            parts.append("\n".join(["Sources:", "", *map(_source, sources)]))
    return "\n\n".join(parts) + "\n"


def _source(source: dict[str, Any]) -> str:
    page = f", page {source['page']}" if source.get("page") else ""
    confidence = source.get("confidence")
    scan = f", recognised with {confidence} % confidence" if confidence is not None else ""
    return f"- {source['title']}{page}{scan} ({source['side']})"


def summary(conversation: Conversation) -> dict[str, Any]:
    """A conversation without its messages."""
    return {name: getattr(conversation, name) for name in _SUMMARY}


def view(message: StoredMessage) -> dict[str, Any]:
    """A message as the page shows it; an answer in progress is followed over the socket."""
    blocks = []
    if message.role == "assistant" and message.state != MessageState.WRITING:
        seams = [(offset, joint) for offset, joint, _ in message.record.get("seams", [])]
        phrases = message.record.get("phrases", [])
        blocks = [asdict(block) for block in render(message.text, seams, phrases)]
    return {**message_as_json(message), "blocks": blocks}


class ProjectBody(Strict):
    """A project; its name is that of its collection."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_COLLECTION_CHARACTERS, pattern=r"\S")]
    instruction: Annotated[str, Field(max_length=2000)] = ""


@router.get("/projects", tags=_PROJECTS)
async def list_projects(state: State) -> dict[str, Any]:
    """All projects, with how many documents and conversations they have."""
    found = await state.conversations.projects.list()
    return {"data": [asdict(project) for project in found]}


@router.put("/projects", tags=_PROJECTS)
async def put_project(project: ProjectBody, state: State) -> dict[str, str]:
    """Create a project, or change its instruction."""
    projects = state.conversations.projects
    return {"name": await projects.put(project.name, project.instruction)}


@router.delete("/projects", tags=_PROJECTS)
async def delete_project(
    name: Annotated[str, Query(max_length=MAX_COLLECTION_CHARACTERS)], state: State
) -> dict[str, Any]:
    """Delete a project that has no documents; its conversations stay."""
    await state.conversations.projects.delete(name)
    return {"name": name, "deleted": True}
