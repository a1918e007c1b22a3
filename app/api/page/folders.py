"""`/api/folders`: the folders whose files are documents, with the state of each file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from app.api.openai.openapi import failures
from app.container import AppState, State
from app.documents.folders.folders import FileState, Folder
from app.documents.uploads import MAX_COLLECTION_CHARACTERS
from app.owners import acting, acting_as
from app.paths import short
from dragon.errors import InvalidRequestError
from dragon.localizable import with_localizable

router = APIRouter(prefix="/api/folders", tags=["folders"])

_MOST_FILES = 1000
_LONGEST_PATH = 4096  # Linux's limit; escaped in a URL it still fits in a request's header


class NewFolder(BaseModel):
    """A folder on the device's machine; its collection has its name unless set otherwise.

    Its documents belong to `key`, one with documents of its own, or else to the device.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    path: Annotated[str, Field(min_length=1, max_length=_LONGEST_PATH)]
    collection: Annotated[str, Field(max_length=MAX_COLLECTION_CHARACTERS)] | None = None
    key: str | None = None


@router.get("")
async def list_folders(state: State) -> dict[str, Any]:
    """Every folder, with how many of its files are in each state."""
    return {"data": [_view(folder) for folder in await state.documents.folders.list()]}


@router.post("")
async def add_folder(folder: NewFolder, state: State) -> dict[str, Any]:
    """Follow a folder; if it is already followed, retry the files that could not be read."""
    folders = state.documents.folders
    with acting_as(acting() if folder.key is None else _owner(folder.key, state)):
        identity = await folders.add(Path(folder.path), folder.collection)
        return _view(await folders.get(identity))


def _owner(name: str, state: AppState) -> str:
    """The owner for a key with documents of its own. Raises `InvalidRequestError`."""
    if name not in state.auth.owners():
        raise InvalidRequestError(f"There is no key {name} with documents of its own.", param="key")
    return name


@router.get("/{folder}", responses=failures(404))
async def get_folder(folder: str, state: State) -> dict[str, Any]:
    """One folder."""
    return _view(await state.documents.folders.get(folder))


@router.get("/{folder}/files", responses=failures(404))
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


@router.delete("/{folder}", responses=failures(404))
async def remove_folder(folder: str, state: State) -> dict[str, Any]:
    """Stop following a folder; its documents are deleted, its files stay as they are."""
    await state.documents.folders.remove(folder)
    return {"id": folder, "deleted": True}


def _view(folder: Folder) -> dict[str, Any]:
    """A folder, with `short`, its path as people write it: ~ for the home folder."""
    return {**asdict(folder), "short": short(folder.path)}
