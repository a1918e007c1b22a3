"""Projects: a collection of documents, a standing instruction, and the conversations about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.uploads import clean_collection
from app.owners import acting
from app.storage.tables import Conversation, Document, Project
from dragon.errors import InvalidRequestError
from dragon.localizable import localizable


@dataclass(frozen=True)
class ProjectSummary:
    """A project with the numbers of its documents and conversations."""

    name: str
    instruction: str
    files: int
    conversations: int


class Projects:
    """All projects; a project's documents are those of the collection with its name."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def list(self) -> Sequence[ProjectSummary]:
        """All projects by name: collections with documents, and projects created empty."""
        async with self._sessions() as session:
            of_collection = select(Document.collection, func.count()).group_by(Document.collection)
            files = {row[0]: row[1] for row in await session.execute(of_collection)}
            of_project = select(Conversation.project, func.count()).group_by(Conversation.project)
            chats = {row[0]: row[1] for row in await session.execute(of_project)}
            every = await session.scalars(select(Project))
            instructions = {project.name: project.instruction for project in every}
        names = sorted({name for name in files if name} | instructions.keys(), key=str.casefold)
        return [
            ProjectSummary(name, instructions.get(name, ""), files.get(name, 0), chats.get(name, 0))
            for name in names
        ]

    async def put(self, name: str, instruction: str) -> str:
        """Create a project, or change its instruction; returns its name.

        Raises `InvalidRequestError` for a name that no collection may have.
        """
        if not (clean := clean_collection(name)):
            raise InvalidRequestError(
                localizable("project.name", "A project needs a name."), param="name"
            )
        row = insert(Project).values(name=clean, instruction=instruction.strip())
        async with self._sessions.begin() as session:
            values = {"instruction": row.excluded.instruction}
            await session.execute(row.on_conflict_do_update(["owner", "name"], set_=values))
        return clean

    async def instruction(self, name: str) -> str:
        """A project's instruction; empty if it has none."""
        async with self._sessions() as session:
            found = select(Project.instruction).where(Project.name == name)
            return await session.scalar(found) or ""

    async def delete(self, name: str) -> None:
        """Delete a project without documents; its conversations stay.

        Raises `InvalidRequestError` while it has documents.
        """
        async with self._sessions.begin() as session:
            await session.execute(delete(Project).where(Project.name == name))
            own = Document.owner == acting()
            held = select(func.count()).where(Document.collection == name, own)
            if await session.scalar(held):
                raise InvalidRequestError(
                    localizable(
                        "project.full", "'{name}' has documents. Delete them first.", name=name
                    )
                )
            of_project = Conversation.project == name
            await session.execute(update(Conversation).where(of_project).values(project=None))
