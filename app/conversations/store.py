"""Conversations in the device's database, trees of questions and answers, and their projects.

A question after an earlier answer, or another answer to a question, begins a branch; `leaf` is the
branch shown. Deleted text is overwritten, also in the search index. A project has a collection of
documents, a standing instruction, and the conversations about it.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, false, func, literal_column, select, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from app.documents.erasure import cited, without
from app.documents.redaction import Redaction
from app.documents.uploads import clean_collection
from app.owners import acting, everyone
from app.storage import message_search
from app.storage.purge import Purge, blank_given
from app.storage.tables import Conversation, Document, MessageState, Project, StoredMessage
from dragon.errors import InvalidRequestError, NotFoundError
from dragon.localizable import localizable

_TITLE = 60
_WORD = re.compile(r"\w+")
_insertion: ColumnElement[int] = literal_column("conversations.rowid")
_NO_MESSAGE = localizable("chat.message", "This message no longer exists.")


Listed = tuple[Conversation, str | None]
"""A conversation in the list, and the snippet that a search found."""


class ConversationStore:
    """Stores conversations; call `start` first."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession], purge: Purge) -> None:
        self._sessions = sessions
        self._purge = purge
        # By the id of an answer that was in progress then, and of the document.
        self._redactions: dict[str, dict[str, Redaction]] = {}
        self.projects = Projects(sessions)

    async def start(self) -> None:
        """Mark answers that a crash interrupted as stopped."""
        writing = update(StoredMessage).where(StoredMessage.state == MessageState.WRITING)
        with everyone():
            async with self._sessions.begin() as session:
                await session.execute(writing.values(state=MessageState.STOPPED))

    async def list(
        self,
        search: str,
        limit: int,
        before: int | None = None,
        after: str = "",
        project: str | None = None,
        *,
        archived: bool = False,
    ) -> Sequence[Listed]:
        """The latest first, without pinned ones; with `project`, only that project's.

        With `search`, all whose title or text has words that begin with it. With `before`, in Unix
        seconds, only those last changed earlier; with `after`, the id of one changed at that very
        second, also those of the same second that come after it in this order.
        """
        query = _latest(project)
        if before is not None:
            earlier = Conversation.updated_at < before
            # If that one is gone, its place is unknown: list its whole second again.
            last = select(_insertion).where(Conversation.id == after).scalar_subquery()
            tied = (Conversation.updated_at == before) & (_insertion < func.coalesce(last, 1 << 62))
            query = query.where(earlier | tied if after else earlier)
        words = _WORD.findall(search)
        async with self._sessions() as session:
            found = await message_search.found(session, words)
            if words:
                title = Conversation.title.icontains(search.strip(), autoescape=True)
                query = query.where(title | Conversation.id.in_(found))
            else:
                query = query.where(Conversation.archived.is_(archived), ~Conversation.pinned)
            rows = await session.scalars(query.limit(limit))
            return [(row, found.get(row.id)) for row in rows]

    async def pinned(self, project: str | None = None) -> Sequence[Listed]:
        """All that are pinned, the latest first."""
        async with self._sessions() as session:
            rows = await session.scalars(_latest(project).where(Conversation.pinned))
            return [(row, None) for row in rows]

    async def get(self, identity: str) -> Conversation:
        """One conversation. Raises `NotFoundError`."""
        async with self._sessions() as session:
            return await _conversation(session, identity)

    async def messages(self, identity: str) -> Sequence[StoredMessage]:
        """All its messages, parents first and branches in order. Raises `NotFoundError`."""
        async with self._sessions() as session:
            await _conversation(session, identity)
            return await _messages(session, StoredMessage.conversation_id == identity)

    async def message(self, identity: str) -> StoredMessage:
        """One message. Raises `NotFoundError`."""
        async with self._sessions() as session:
            return await _message(session, identity)

    async def path(self, identity: str) -> Sequence[StoredMessage]:
        """The branch that ends with a message, its first question first. Raises `NotFoundError`."""
        conversation = (await self.message(identity)).conversation_id
        known = {each.id: each for each in await self.messages(conversation)}
        path: list[StoredMessage] = []
        above: str | None = identity
        while above is not None:
            if above not in known:  # deleted at this moment
                raise NotFoundError(_NO_MESSAGE)
            path.append(known[above])
            above = path[-1].parent_id
        return path[::-1]

    async def answers(self, question: str) -> Sequence[StoredMessage]:
        """All answers to a question, the earliest first."""
        async with self._sessions() as session:
            return await _messages(session, StoredMessage.parent_id == question)

    async def ask(
        self,
        conversation: str | None,
        parent: str | None,
        question: str,
        *,
        private: bool,
        project: str | None = None,
    ) -> tuple[Conversation, StoredMessage, StoredMessage]:
        """Store a question and the answer that is about to be written.

        Without a conversation, the question begins one in the `project`, private if it is itself;
        without a parent, it is a first question. Raises `NotFoundError`, and `InvalidRequestError`
        if the parent is a question.
        """
        async with self._sessions.begin() as session:
            if conversation is None:
                now = int(time.time())
                found = Conversation(
                    id=_new_id("conv"),
                    title=title_of(question),
                    created_at=now,
                    updated_at=now,
                    leaf=None,
                    project=project,
                    private=private,
                )
                session.add(found)
                await session.flush()
            else:
                found = await _conversation(session, conversation)
            if parent is not None:
                above = await _message(session, parent)
                if above.conversation_id != found.id or above.role != "assistant":
                    order = localizable("chat.order", "A question must follow an answer.")
                    raise InvalidRequestError(order, param="parent")
            asked = await _add(session, found, parent, "user", question, private=private)
            answer = await _add(session, found, asked.id, "assistant", "", private=private)
            return found, asked, answer

    async def answer_again(
        self, question: str, *, private: bool
    ) -> tuple[Conversation, StoredMessage, StoredMessage]:
        """Another answer to an existing question. Raises `NotFoundError`."""
        async with self._sessions.begin() as session:
            asked = await _message(session, question)
            if asked.role != "user":
                wrong = localizable("chat.question", "Only a question can be answered.")
                raise InvalidRequestError(wrong, param="message")
            found = await _conversation(session, asked.conversation_id)
            # A private question stays private.
            kept = private or asked.private
            answer = await _add(session, found, question, "assistant", "", private=kept)
            return found, asked, answer

    async def reopen(self, identity: str, *, private: bool) -> StoredMessage:
        """Reopen an answer, to continue it. Raises `InvalidRequestError` if that is impossible.

        An answer that becomes private has `private_from` in its record, in characters: the text
        before that may have left the device.
        """
        async with self._sessions.begin() as session:
            answer = await _message(session, identity)
            if answer.role != "assistant" or answer.state == MessageState.WRITING:
                unfinished = localizable("chat.answer", "Only a finished answer goes on.")
                raise InvalidRequestError(unfinished, param="message")
            answer.state = MessageState.WRITING
            if private and not answer.private:
                answer.record = {**answer.record, "private_from": len(answer.text)}
                answer.private = True
            return answer

    async def save(
        self,
        identity: str,
        state: MessageState,
        text: str,
        record: dict[str, Any],
        tokens: Sequence[Any] | None = None,
    ) -> None:
        """Store what is written of an answer; one deleted meanwhile stays deleted.

        Redactions since it was begun apply to it, too.
        """
        known = dict(self._redactions.get(identity, {}))
        for each in known.values():
            text, record = await each.of(text, record, state)
        async with self._sessions.begin() as session:
            mine = update(StoredMessage).where(StoredMessage.id == identity)
            saved = await session.scalar(mine.values(state=state).returning(StoredMessage))
            if saved is not None:
                # Checked within the transaction, after its first write: no document is deleted or
                # redacted from here on.
                held = self._redactions.get(identity, {})
                for late in held.keys() - known.keys():
                    text, record = await held[late].of(text, record, state)
                cites = cited(record)
                there = await session.scalars(select(Document.id).where(Document.id.in_(cites)))
                saved.text, saved.record = text, without(record, cites.difference(there))
                if tokens is not None or held:
                    saved.tokens = [] if held else list(tokens or ())
                its = update(Conversation).where(Conversation.id == saved.conversation_id)
                await session.execute(its.values(updated_at=int(time.time())))
                if state != MessageState.WRITING:
                    await message_search.index(session, saved)
        if saved is None or state != MessageState.WRITING:
            self._redactions.pop(identity, None)

    async def redact(self, redaction: Redaction) -> None:
        """Redact what is stored, and what will be stored of answers in progress."""

        def hold(answer: str) -> None:
            self._redactions.setdefault(answer, {})[redaction.document] = redaction

        await redaction.apply(hold)

    async def change(
        self,
        identity: str,
        *,
        title: str | None = None,
        leaf: str | None = None,
        project: str | None = None,
        pinned: bool | None = None,
        archived: bool | None = None,
        private: bool | None = None,
    ) -> Conversation:
        """Rename, show another branch, set the project ("": none), pin, archive, make private.

        Archiving unpins, and pinning unarchives. Raises `NotFoundError`.
        """
        async with self._sessions.begin() as session:
            found = await _conversation(session, identity)
            if title is not None:
                found.title = title_of(title)
            if leaf is not None:
                if (await _message(session, leaf)).conversation_id != identity:
                    raise NotFoundError(f"There is no message '{leaf}' in this conversation.")
                found.leaf = leaf
            if project is not None:
                found.project = project or None
            if pinned is not None:
                found.pinned, found.archived = pinned, found.archived and not pinned
            if archived is not None:
                found.archived, found.pinned = archived, found.pinned and not archived
            if private is not None:
                found.private = private
            return found

    async def ledgers(self, identity: str, answer: str | None = None) -> set[str]:
        """The ledger ids of all answers, or of one and those after it. Raises `NotFoundError`."""
        messages = await self.messages(identity)
        chosen = messages if answer is None else _turn(messages, answer)
        return set(_ledgers(chosen))

    async def delete(self, identity: str) -> None:
        """Delete a conversation, on disk and from the search. Raises `NotFoundError`."""
        async with self._sessions.begin() as session:
            await _delete(session, identity)
            await message_search.merge(session)
        await self._purge.now()

    async def delete_turn(self, answer: str) -> None:
        """Delete an answer, its question and what follows. Raises `NotFoundError`.

        A conversation without turns is deleted.
        """
        async with self._sessions.begin() as session:
            # The first statement writes: nothing follows the turn from here on.
            await session.execute(update(StoredMessage).where(false()).values(text=""))
            conversation = (await _message(session, answer)).conversation_id
            messages = await _messages(session, StoredMessage.conversation_id == conversation)
            turn = _turn(messages, answer)
            question, gone = turn[0], {message.id for message in turn}
            for each in gone:
                self._redactions.pop(each, None)
            if len(gone) == len(messages):
                await _delete(session, conversation)
            else:
                await blank_given(session, _ledgers(turn))
                await session.execute(delete(StoredMessage).where(StoredMessage.id == question.id))
                changed = await _conversation(session, conversation)
                if changed.leaf in gone:
                    others = (message.id for message in messages if message.id not in gone)
                    changed.leaf = question.parent_id or next(others)
                for identity in gone:
                    await message_search.forget(session, message=identity)
            await message_search.merge(session)
        await self._purge.now()


def _latest(project: str | None) -> Select[Conversation]:
    query = select(Conversation).order_by(Conversation.updated_at.desc(), _insertion.desc())
    return query if project is None else query.where(Conversation.project == project)


def title_of(question: str) -> str:
    """A conversation's title: the question's first line, cut at a word."""
    line = " ".join(next((line for line in question.splitlines() if line.strip()), "").split())
    if len(line) <= _TITLE:
        return line or "Untitled"
    return line[:_TITLE].rsplit(" ", 1)[0].rstrip(",.;:") + "…"


async def _delete(session: AsyncSession, conversation: str) -> None:
    mine = StoredMessage.conversation_id == conversation
    await blank_given(session, _ledgers(await _messages(session, mine)))
    await session.delete(await _conversation(session, conversation))
    await message_search.forget(session, conversation=conversation)


def _turn(messages: Sequence[StoredMessage], answer: str) -> list[StoredMessage]:
    """A question, its answer and what follows, of all messages. Raises `NotFoundError`."""
    parents = {message.id: message.parent_id for message in messages}
    if answer not in parents:
        raise NotFoundError(_NO_MESSAGE)
    ids = {parents[answer] or answer}
    for message in messages:  # parents come first
        if message.parent_id in ids:
            ids.add(message.id)
    return [message for message in messages if message.id in ids]


def _ledgers(messages: Iterable[StoredMessage]) -> list[str]:
    return [key for each in messages for key in each.record.get("ledgers", ())]


def _new_id(kind: str) -> str:
    return f"{kind}-{secrets.token_hex(12)}"


async def _messages(session: AsyncSession, which: ColumnElement[bool]) -> Sequence[StoredMessage]:
    query = select(StoredMessage).where(which).order_by(StoredMessage.number)
    return (await session.scalars(query)).all()


async def _conversation(session: AsyncSession, identity: str) -> Conversation:
    if (found := await session.get(Conversation, identity)) is None:
        raise NotFoundError(localizable("chat.gone", "This chat no longer exists."))
    return found


async def _message(session: AsyncSession, identity: str) -> StoredMessage:
    if (found := await session.get(StoredMessage, identity)) is None:
        raise NotFoundError(_NO_MESSAGE)
    return found


async def _add(
    session: AsyncSession,
    conversation: Conversation,
    parent: str | None,
    role: str,
    body: str,
    *,
    private: bool,
) -> StoredMessage:
    mine = StoredMessage.conversation_id == conversation.id
    last = await session.scalar(select(func.max(StoredMessage.number)).where(mine))
    now = int(time.time())
    message = StoredMessage(
        id=_new_id("msg"),
        conversation_id=conversation.id,
        parent_id=parent,
        number=(last or 0) + 1,
        role=role,
        text=body,
        private=private,
        state=MessageState.DONE if role == "user" else MessageState.WRITING,
        created_at=now,
        record={},
        tokens=[],
    )
    session.add(message)
    conversation.leaf, conversation.updated_at = message.id, now
    await session.flush()
    if role == "user":
        await message_search.index(session, message)
    return message


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
        return [
            ProjectSummary(name, instructions.get(name, ""), files.get(name, 0), chats.get(name, 0))
            for name in sorted({*filter(None, files), *instructions}, key=str.casefold)
        ]

    async def put(self, name: str, instruction: str) -> str:
        """Create a project, or change its instruction; returns its name.

        Raises `InvalidRequestError` for a name that no collection may have.
        """
        if not (clean := clean_collection(name)):
            nameless = localizable("project.name", "A project needs a name.")
            raise InvalidRequestError(nameless, param="name")
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
                full = "'{name}' has documents. Delete them first."
                raise InvalidRequestError(localizable("project.full", full, name=name))
            of_project = Conversation.project == name
            await session.execute(update(Conversation).where(of_project).values(project=None))
