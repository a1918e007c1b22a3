"""The parts of the running device service, typed, at `app.state.dragon`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
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
from app.generation.accumulator import ObservedGeneration
from app.generation.admission import Admission, Places
from app.generation.cloud_view import CloudView
from app.generation.events import Event, GenerationRequest
from app.generation.threads import Threads
from app.ledger.writer import Ledger
from app.metrics import Metrics
from app.models.downloads import Downloads
from app.models.trial import Trials
from app.peer_link.status import PeerStatus
from app.reranking import RerankingService
from app.settings import Settings
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.usual import Usual
from dragon.sampling.params import Mode


class Generation(Protocol):
    """What the routes need of the generation service."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    @property
    def model_name(self) -> str:
        """The model's name in `/v1/models`."""

    @property
    def quotes(self) -> bool:
        """Whether questions are answered by quotes."""

    @property
    def quotes_alone(self) -> bool:
        """Whether the model writes nothing but quotes."""

    @property
    def usual(self) -> Usual:
        """The model's default sampling."""

    def fingerprint(self, mode: Mode) -> str:
        """Identifies what writes in a mode: model, release, precision and settings."""

    @property
    def top_k(self) -> int:
        """How many passages a side uses in a chat that sets no number."""

    @property
    def context_length(self) -> int:
        """Tokens the model can hold, prompt and answer together."""

    @property
    def ready(self) -> bool:
        """Whether the model is loaded and the engine runs."""

    @property
    def peer_state(self) -> PeerStatus:
        """The status of the link to the cloud peer."""

    @property
    def cloud_view(self) -> CloudView:
        """What the cloud may see of a conversation."""

    def room(self, request: GenerationRequest) -> int:
        """How many tokens its conversation may have, besides the answer and what precedes it."""

    def check(self, request: GenerationRequest) -> None:
        """Raises `ContextLengthError` unless prompt and answer fit the context together."""

    def generate(self, request: GenerationRequest) -> AsyncGenerator[Event, None]:
        """Write one answer; closing the generator stops both sides.

        An invalid request is raised before the first event, which comes before the prefill.
        """


class Succession(Protocol):
    """How a device with another model takes the place of this one, where `dragon up` runs it."""

    @property
    def loading(self) -> bool:
        """Whether the next one is being loaded."""

    def turn(self) -> None:
        """Wait until the device before has left the data directory and the port."""

    def switch(self) -> None:
        """Have the chosen model loaded beside this one, which ends once that is done."""


@dataclass(frozen=True)
class AppState:
    """Everything the routes need, built once by `app.main` and closed by it."""

    settings: Settings
    auth: Authenticator
    generation: Generation
    answers: ObservedGeneration
    admission: Admission
    embeddings: EmbeddingService
    reranking: RerankingService
    documents: DocumentStore
    metrics: Metrics
    ledger: Ledger
    conversations: ConversationStore
    background_runs: BackgroundRuns
    # For what is computed beside answers (vectors, rankings): one at a time per caller.
    beside: Places = field(default_factory=lambda: Places(2, 1))
    threads: Threads = field(default_factory=Threads)
    trials: Trials = field(default_factory=Trials)
    downloads: Downloads = field(default_factory=Downloads)
    # Keys that users gave for model servers, by URL; stored when such a model is chosen.
    model_keys: dict[str, SecretStr] = field(default_factory=dict)
    succession: Succession | None = None
    started: int = field(default_factory=lambda: int(time.time()))


def get_state(connection: HTTPConnection) -> AppState:
    """The state of the app that serves this connection."""
    return cast(AppState, connection.app.state.dragon)


State = Annotated[AppState, Depends(get_state)]
