"""`/api/documents`: viewing one; deleting several, and redacting what answers keep of them.

`/api/folders`: the folders whose files are documents, with the state of each file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from app.api.openai.field_types import Strict
from app.api.page.markdown import render
from app.container import AppState, State
from app.documents.folders.folders import FileState, Folder
from app.documents.parsing import Drawn
from app.documents.readers.sniff import FileKind
from app.documents.redaction import QuotedIn, Redaction
from app.documents.store import MAX_WINDOW
from app.documents.uploads import MAX_COLLECTION_CHARACTERS
from app.owners import acting, acting_as
from app.paths import short
from dragon.errors import DocumentError, InvalidRequestError, NotFoundError, NotYoursError
from dragon.localizable import localizable, with_localizable
from dragon.retrieval.chunking import PAGE_BREAK

router = APIRouter(prefix="/api")
_DOCUMENTS: list[str | Enum] = ["documents"]
_FOLDERS: list[str | Enum] = ["folders"]

_NO_PAGE = localizable("file.page", "This page cannot be shown.")
# Surround the passage: private-use characters, which are removed from the text.
BEGIN, END = "\ue002", "\ue003"
_NO_MARKS = str.maketrans(dict.fromkeys((BEGIN, END), "\ufffd"))
# The beginning of a heading, an item or a row: after a mark the line would be a paragraph.
_MARKUP = re.compile(r"[ \t]*(?:(?:#{1,6}|[-*+>|]|\d+[.)])[ \t]+)*")
_ROW_END = re.compile(r"[ \t]*\|?\s*\Z")
_FAR = 2_000
_MOST_FILES = 1000
_LONGEST_PATH = 4096  # Linux's limit; escaped in a URL it still fits in a request's header

Place = Annotated[int, Query(ge=0)]
Ids = Annotated[list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=1000)]


class Some(Strict):
    """Documents by their ids; those that are gone, or another owner's, are skipped."""

    documents: Ids


class Deletion(Some):
    """With `redact`, their words are also removed from stored chats, titles and the ledger."""

    redact: bool = False


@router.get("/documents/{document}/view", tags=_DOCUMENTS)
async def view(
    document: str, state: State, start: Place, end: Place, mark: Place = 0, until: Place = 0
) -> dict[str, Any]:
    """A part of a document's text, by characters; of Markdown whole blocks, also as safe HTML.

    In the HTML, `BEGIN` and `END` surround the text from `mark` to `until`. `page` is the page of
    `mark`; `pages` is how many there are, null if they cannot be drawn.
    """
    found, text = await state.documents.text(document)
    pages = text.count(PAGE_BREAK) + 1 if found.kind == FileKind.PDF else None
    page = text.count(PAGE_BREAK, 0, mark) + 1
    text = text.replace(PAGE_BREAK, "\n")  # no browser shows it
    start, end = min(start, len(text)), min(end, len(text), start + MAX_WINDOW)
    html = None
    if found.kind == FileKind.MARKDOWN:
        start, end = blocks_around(text, start, max(start, end))
        place = (max(0, mark - start), max(0, until - start))
        html = await asyncio.to_thread(rendered, text[start:end], *place)
    part = {"text": text[start:end], "html": html, "start": start, "end": end, "length": len(text)}
    return part | {"page": page, "pages": pages}


@router.get("/documents/{document}/page", tags=_DOCUMENTS)
async def page(
    document: str,
    state: State,
    number: Annotated[int, Query(ge=1)],
    mark: Place = 0,
    until: Place = 0,
) -> Drawn:
    """A page of a PDF as it looks, with the text from `mark` to `until` marked on it.

    The `picture` is PNG in Base64; `mark` is where the mark begins, as a fraction of its height.
    """
    found, text = await state.documents.text(document)
    pages = text.split(PAGE_BREAK)
    if found.kind != FileKind.PDF or number > len(pages):
        raise NotFoundError(_NO_PAGE)
    first = sum(len(each) + len(PAGE_BREAK) for each in pages[: number - 1])
    passage = pages[number - 1][max(0, mark - first) : max(0, until - first)]
    try:
        async with state.beside.one():
            return await state.documents.picture(document, number, passage)
    except (DocumentError, OSError):
        raise NotFoundError(_NO_PAGE) from None


@router.post("/documents/quoted", tags=_DOCUMENTS)
async def quoted(some: Some, state: State) -> dict[str, int]:
    """How many messages, and in how many conversations, contain words of the documents."""
    found = QuotedIn()
    for each in await _redactions(state, some.documents):
        found |= await each.quoted()
    return {"messages": len(found.messages), "conversations": len(found.conversations)}


@router.post("/documents/delete", tags=_DOCUMENTS)
async def delete_documents(deletion: Deletion, state: State) -> dict[str, Any]:
    """Delete documents; with `redact`, also end answers that are being written from one."""
    deleted = []
    for document in deletion.documents:
        redactions = await _redactions(state, [document]) if deletion.redact else []
        for each in redactions:
            # Before its passages are deleted: they say what was read.
            await state.conversations.redact(each)
        with suppress(NotFoundError, NotYoursError):
            await state.documents.delete(document)
            deleted.append(document)
        for each in redactions:
            await state.background_runs.stop_reading(document)
            await state.ledger.forget_words()
            await state.conversations.redact(each)  # for what was written meanwhile
    return {"deleted": deleted}


async def _redactions(state: AppState, documents: Sequence[str]) -> list[Redaction]:
    found = []
    for document in dict.fromkeys(documents):
        with suppress(NotFoundError, NotYoursError):
            found.append(await state.documents.redaction(document))
    return found


def blocks_around(text: str, start: int, end: int) -> tuple[int, int]:
    """A range extended to the blank lines around it, if they are near."""
    before = text.rfind("\n\n", max(0, start - _FAR), start)
    after = text.find("\n\n", end, end + _FAR)
    first = before + 2 if before >= 0 else 0 if start <= _FAR else start
    return first, after if after >= 0 else len(text) if len(text) - end <= _FAR else end


def rendered(text: str, start: int = 0, end: int = 0) -> str:
    """Markdown as safe HTML; the characters `BEGIN` and `END` surround `start` to `end`."""
    text = text.translate(_NO_MARKS)
    if start < end:
        markup = _MARKUP.match(text, start, end)
        first = markup.end() if markup else start
        last = _ROW_END.search(text, first, end)
        stop = last.start() if last else end
        text = f"{text[:first]}{BEGIN}{text[first:stop]}{END}{text[stop:]}"
    return "".join(block.html for block in render(text))


class NewFolder(Strict):
    """A folder on the device's machine; its collection has its name unless set otherwise.

    Its documents belong to `key`, which must have documents of its own, or else to the device.
    """

    path: Annotated[str, Field(min_length=1, max_length=_LONGEST_PATH)]
    collection: Annotated[str, Field(max_length=MAX_COLLECTION_CHARACTERS)] | None = None
    key: str | None = None


@router.get("/folders", tags=_FOLDERS)
async def list_folders(state: State) -> dict[str, Any]:
    """Every folder, with how many of its files are in each state."""
    return {"data": [_view(folder) for folder in await state.documents.folders.list()]}


@router.post("/folders", tags=_FOLDERS)
async def add_folder(folder: NewFolder, state: State) -> dict[str, Any]:
    """Follow a folder; if it is already followed, retry the files that could not be read."""
    folders = state.documents.folders
    if folder.key is not None and folder.key not in state.auth.owners():
        message = f"There is no key {folder.key} with documents of its own."
        raise InvalidRequestError(message, param="key")
    with acting_as(acting() if folder.key is None else folder.key):
        identity = await folders.add(Path(folder.path), folder.collection)
        return _view(await folders.get(identity))


@router.get("/folders/{folder}", tags=_FOLDERS)
async def get_folder(folder: str, state: State) -> dict[str, Any]:
    """One folder."""
    return _view(await state.documents.folders.get(folder))


@router.get("/folders/{folder}/files", tags=_FOLDERS)
async def list_files(
    folder: str,
    state: State,
    only: Annotated[FileState | None, Query(alias="state")] = None,
    after: Annotated[str, Query(max_length=_LONGEST_PATH)] = "",
    limit: Annotated[int, Query(ge=1, le=_MOST_FILES)] = _MOST_FILES,
) -> dict[str, Any]:
    """Files of a folder by path, after `after`, all or those in a state."""
    found = await state.documents.folders.files(folder, only, after, limit + 1)
    return {
        "data": [with_localizable(asdict(file)) for file in found[:limit]],
        "has_more": len(found) > limit,
    }


@router.delete("/folders/{folder}", tags=_FOLDERS)
async def remove_folder(folder: str, state: State) -> dict[str, Any]:
    """Stop following a folder; its documents are deleted, its files stay as they are."""
    await state.documents.folders.remove(folder)
    return {"id": folder, "deleted": True}


def _view(folder: Folder) -> dict[str, Any]:
    """A folder, with `short`, its path as people write it: ~ for the home folder."""
    return {**asdict(folder), "short": short(folder.path)}
