"""The parts of the running device service, typed, at `app.state.dragon`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Annotated, Protocol, cast

from fastapi import Depends
from pydantic import SecretStr
from starlette.requests import HTTPConnection

from app.auth import Authenticator
from app.conversations.background_run import BackgroundRuns
from app.conversations.store import ConversationStore
from app.documents.store import DocumentStore
from app.embeddings import EmbeddingService
from app.generation.admission import Admission, Threads
from app.generation.service import GenerationService
from app.ledger.writer import Ledger
from app.metrics import Metrics
from app.models.download import Downloads
from app.models.trial import Trials
from app.places import Places
from app.reranking import RerankingService
from app.settings import Settings


class Succession(Protocol):
    """Replaces this device with one that runs another model, if `dragon up` started it."""

    @property
    def loading(self) -> bool:
        """Whether the next device is loading its model."""

    def turn(self) -> None:
        """Wait until the previous device has released the data directory and the port."""

    def switch(self) -> None:
        """Load the chosen model in a new device; this one ends once that is done."""


@dataclass(frozen=True)
class AppState:
    """Everything the routes need; `app.main` builds and closes it."""

    settings: Settings
    auth: Authenticator
    generation: GenerationService
    admission: Admission
    embeddings: EmbeddingService
    reranking: RerankingService
    documents: DocumentStore
    metrics: Metrics
    ledger: Ledger
    conversations: ConversationStore
    background_runs: BackgroundRuns
    # For computing vectors and rankings beside answers, one at a time per household.
    beside: Places = field(default_factory=lambda: Places(2, 1))
    threads: Threads = field(default_factory=Threads)
    trials: Trials = field(default_factory=Trials)
    downloads: Downloads = field(default_factory=Downloads)
    # Keys that users gave for model servers, by URL; stored when such a model is chosen.
    model_keys: dict[str, SecretStr] = field(default_factory=dict)
    succession: Succession | None = None
    started: int = field(default_factory=lambda: int(time.time()))


def get_state(connection: HTTPConnection) -> AppState:
    return cast(AppState, connection.app.state.dragon)


State = Annotated[AppState, Depends(get_state)]
