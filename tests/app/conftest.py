"""The device service around a scripted model: in process, or on a port of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio
from fastapi import FastAPI

from app.api.page.parameters import Params, branch_request
from app.auth import Authenticator
from app.container import AppState
from app.conversations.background_run import BackgroundRun, BackgroundRuns
from app.conversations.store import ConversationStore
from app.documents.store import DocumentStore
from app.embeddings import EmbeddingService
from app.generation.admission import Admission, Threads
from app.generation.events import GenerationRequest
from app.ledger.writer import Ledger
from app.main import create_app
from app.metrics import Metrics
from app.reranking import RerankingService
from app.settings import Settings
from app.storage.database import Sessions, connect, database_url, session_maker
from app.storage.purge import Purge
from app.storage.tables import StoredMessage
from cli.server import server
from dragon.inference.choice import ModelChoice
from dragon.inference.estimates import DecodeDelay, LinkMeter, Pace
from dragon.inference.tokenizer import Tokenizer
from harness.faults.openai_server import Served
from harness.models import SMALL_MODEL
from tests.app.stores import migrated, opened
from tests.documents import one_parsing
from tests.fakes import FakeDocuments, FakeGeneration
from tests.samples import embedder, judge

KEY = "test-key"
HEADERS = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(SMALL_MODEL)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_parsing() -> AsyncIterator[None]:
    """For modules whose tests run on one event loop."""
    async with one_parsing():
        yield


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DocumentStore]:
    async with opened(tmp_path) as store:
        yield store


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Sessions]:
    """Of an empty database."""
    engine = connect(migrated(tmp_path))
    yield session_maker(engine)
    await engine.dispose()


@pytest.fixture
def generation(tokenizer: Tokenizer) -> FakeGeneration:
    return FakeGeneration(tokenizer)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(_env_file=None, data_dir=tmp_path, api_key=KEY, model=str(SMALL_MODEL))


@pytest.fixture(scope="session")
def served() -> Served:
    """The embedded model behind a server of OpenAI's kind."""
    return Served(*ModelChoice(model=str(SMALL_MODEL)).load())


@pytest.fixture(scope="session")
def embeddings() -> Iterator[EmbeddingService]:
    with ThreadPoolExecutor(1) as chores:
        yield EmbeddingService(embedder(), chores.submit, Threads())


@pytest.fixture(scope="session")
def reranking() -> Iterator[RerankingService]:
    with ThreadPoolExecutor(1) as chores:
        yield RerankingService(judge(), embedder(), "reranker", chores.submit, Threads())


@pytest.fixture
def conversations(tmp_path: Path) -> Iterator[ConversationStore]:
    """Without tables: who stores something migrates first, for that takes a while."""
    database = connect(database_url(tmp_path))
    sessions = session_maker(database)
    yield ConversationStore(sessions, Purge(sessions))
    asyncio.run(database.dispose())


@pytest.fixture
def state(
    settings: Settings,
    generation: FakeGeneration,
    embeddings: EmbeddingService,
    reranking: RerankingService,
    conversations: ConversationStore,
) -> AppState:
    metrics = Metrics(
        lambda: generation.peer_state.state == "connected",
        lambda: 1,
        Pace(LinkMeter(), DecodeDelay()),
    )
    generation.observers = (metrics,)
    return AppState(
        settings=settings,
        auth=Authenticator(KEY),
        generation=generation,
        admission=Admission(),
        embeddings=embeddings,
        reranking=reranking,
        documents=FakeDocuments(),
        ledger=Ledger(session_maker(connect(database_url(settings.data_dir)))),
        metrics=metrics,
        conversations=conversations,
        background_runs=BackgroundRuns(conversations, generation.write, "a model"),
    )


@pytest.fixture
def app(settings: Settings, state: AppState) -> FastAPI:
    return create_app(settings, state)


@pytest.fixture
async def real(app: FastAPI, state: AppState, store: DocumentStore) -> AsyncIterator[AppState]:
    """The app's parts, with a store of real documents."""
    app.state.dragon = whole = replace(state, documents=store)
    yield whole
    await whole.background_runs.close()


async def started(state: AppState, answer: StoredMessage, **params: Any) -> BackgroundRun:
    """The run that writes an answer, or goes on with it, from its branch."""
    path = await state.conversations.path(answer.id)

    async def prepare() -> tuple[GenerationRequest, int]:
        return await branch_request(state, path, answer.text, Params(**params))

    return state.background_runs.start(answer, prepare)


def in_process(app: FastAPI, headers: dict[str, str] = HEADERS) -> httpx.AsyncClient:
    """A client of the app that needs no port, with the key unless it sends other headers."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=headers)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Signed in with the key, in process."""
    async with in_process(app) as client:
        yield client


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The app on a real port, in a thread; yields its address without a scheme.

    Where it asks for no key, requests act for whom the test does.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        served = server(app, "127.0.0.1", 0)
        acting = copy_context()
        thread = threading.Thread(target=acting.run, args=(asyncio.run, served.serve([listener])))
        thread.start()
        try:
            wait_until(lambda: served.started)
            yield address
        finally:
            served.should_exit = True
            thread.join()


@contextmanager
def hanging_up(address: str, path: str, body: dict[str, Any]) -> Iterator[None]:
    """A request whose client hangs up at the end, having read nothing."""
    host, port = address.split(":")
    content = json.dumps(body)
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            f"POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            f"{content}".encode()
        )
        yield


@pytest.fixture
def address(app: FastAPI) -> Iterator[str]:
    with serving(app) as address:
        yield address


@pytest.fixture
def stock(address: str) -> openai.OpenAI:
    """OpenAI's own client."""
    return openai.OpenAI(base_url=f"http://{address}/v1", api_key=KEY, max_retries=0)


@pytest.fixture
def library(app: FastAPI, state: AppState, tmp_path: Path) -> Iterator[str]:
    """The address of a device with a store of real documents."""
    build = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with build(app), opened(tmp_path) as store:
            app.state.dragon = replace(state, documents=store)
            yield

    app.router.lifespan_context = lifespan
    embedder()  # loaded before the clock of `serving` runs
    with serving(app) as address:
        yield address


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.005)
