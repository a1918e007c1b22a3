"""`/api/projects`: collections with a standing instruction and conversations."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from app.container import State
from app.documents.uploads import MAX_COLLECTION_CHARACTERS

router = APIRouter(prefix="/api/projects", tags=["projects"])

Name = Annotated[str, Field(min_length=1, max_length=MAX_COLLECTION_CHARACTERS, pattern=r"\S")]


class ProjectBody(BaseModel):
    """A project; its name is that of its collection."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: Name
    instruction: Annotated[str, Field(max_length=2000)] = ""


@router.get("")
async def list_projects(state: State) -> dict[str, Any]:
    """All projects, with how many documents and conversations they have."""
    found = await state.conversations.projects.list()
    return {"data": [asdict(project) for project in found]}


@router.put("")
async def put_project(project: ProjectBody, state: State) -> dict[str, str]:
    """Create a project, or change its instruction."""
    projects = state.conversations.projects
    return {"name": await projects.put(project.name, project.instruction)}


@router.delete("")
async def delete_project(
    name: Annotated[str, Query(max_length=MAX_COLLECTION_CHARACTERS)], state: State
) -> dict[str, Any]:
    """Delete a project that has no documents; its conversations stay."""
    await state.conversations.projects.delete(name)
    return {"name": name, "deleted": True}
