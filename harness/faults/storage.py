"""A device's storage without its models, and a user's actions on it, step by step."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.documents.store import DocumentStore
from app.documents.uploads import identity
from app.ledger.writer import Ledger
from app.owners import DEVICE, act_as
from app.storage import database
from dragon.inference.kv_store import KVStore
from harness.letters import Letters
from harness.no_judge import NoJudge


@dataclass(frozen=True)
class Note:
    """A file to upload, and a word that finds it."""

    name: str
    content: bytes
    word: str

    @property
    def id(self) -> str:
        """Its id in the store."""
        return identity(self.name, "", hashlib.sha256(self.content).hexdigest(), DEVICE)


HUT = Note("hut.txt", b"The key of the hut hangs left of the door.\n", "hangs")
MOVED = Note("hut.txt", b"The key of the hut is in the red bucket.\n", "bucket")
BOAT = Note("boat.txt", b"The boat is moored at the northern jetty.\n", "moored")
GARDEN = Note("garden.txt", b"The gardener comes on the first Friday of May.\n", "gardener")
NOTES = {note.id: note for note in (HUT, MOVED, BOAT, GARDEN)}

STEPS = (
    ("recorded", "answer-1"),
    ("added", HUT.id),
    ("added", BOAT.id),
    ("recorded", "answer-2"),
    ("deleted", BOAT.id),
    ("added", MOVED.id),  # it replaces the other of its name
    ("deleted", HUT.id),
    ("added", GARDEN.id),
    ("recorded", "answer-3"),
)


@asynccontextmanager
async def storage(data_dir: Path) -> AsyncIterator[tuple[DocumentStore, Ledger]]:
    """A running store and ledger on a data directory, for the device's own key."""
    act_as(DEVICE)
    engine = database.connect(database.database_url(data_dir))
    sessions = database.session_maker(engine)
    store = DocumentStore(
        data_dir, sessions, Letters(), KVStore(data_dir / "kv", None, 0), NoJudge()
    )
    ledger = Ledger(sessions)
    await store.start()
    await ledger.start()
    yield store, ledger
    await store.close()
    await ledger.close()
    await engine.dispose()
