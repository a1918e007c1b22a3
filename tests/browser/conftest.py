"""Chromium, both real services started once, and a device that writes what a test gives it.

All of it ends with this package: Playwright keeps an event loop running, which the tests of other
packages could not start theirs beside.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from app.auth import Authenticator
from app.container import AppState
from app.conversations.background_run import BackgroundRuns
from app.conversations.store import ConversationStore
from app.embeddings import EmbeddingService
from app.generation.admission import Admission, Threads
from app.ledger.writer import Ledger
from app.main import create_app
from app.metrics import Metrics
from app.reranking import RerankingService
from app.settings import Settings
from app.storage.database import connect, database_url, migrate, session_maker
from app.storage.purge import Purge
from dragon.inference.estimates import DecodeDelay, LinkMeter, Pace
from dragon.inference.tokenizer import Tokenizer
from harness import services
from harness.models import SMALL_MODEL
from harness.services import KEY, Floor, Service, Setup
from tests import memorised, tiny
from tests.app.conftest import serving
from tests.browser.page import ChatPage
from tests.fakes import FakeDocuments, FakeGeneration
from tests.samples import embedder, judge

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_FOLDER = Path(__file__).parent
ANSWER = (_FOLDER / "answer.md").read_text()
Opened = Callable[..., ChatPage]
# What breathes or blinks is drawn sixty times a second while an answer is waited for: without a
# GPU that takes the time of those who write it.
MOTION: Literal["reduce"] = "reduce"
# A machine may be busy: what is waited for decides, not how long it takes.
expect.set_options(timeout=60_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marks = (
        pytest.mark.browser,
        pytest.mark.services,
        pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    )
    for item in items:
        if item.path.is_relative_to(_FOLDER):
            for mark in marks:
                item.add_marker(mark)


@dataclass(frozen=True)
class Pair:
    device: Service
    peer: Service
    setup: Setup
    corpus: Path

    def peer_again(self) -> AbstractContextManager[Service]:
        """The peer started anew where it was."""
        return services.peer(self.setup, self.corpus, self.peer.port)


@pytest.fixture(scope="package")
def pair(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The embedded model, slowed down a little so that there is time to press stop."""
    setup = Setup(tmp_path_factory.mktemp("page"), {}, Floor(5), Floor(5))
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as running:
        services.wait_joint(running)
        yield Pair(running, peer, setup, corpus)


@pytest.fixture(scope="package")
def device(pair: Pair) -> Service:
    return pair.device


@pytest.fixture
def emptied(device: Service) -> Iterator[None]:
    """The device's documents and projects are the test's own; they are deleted after it."""
    with device.client() as client:
        _delete_all(client)
        yield
        _delete_all(client)


def _delete_all(client: httpx.Client) -> None:
    for file in client.get("/v1/files").json()["data"]:
        client.delete(f"/v1/files/{file['id']}")
    for project in client.get("/api/projects").json()["data"]:
        client.delete("/api/projects", params={"name": project["name"]})


@pytest.fixture(scope="package")
def endless_device(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A model that never ends an answer by itself; at this pace its context lasts a minute."""
    folder = tmp_path_factory.mktemp("endless")
    model = tiny.save(folder / "model")
    setup = Setup(folder, {"DRAGON_MODEL": str(model)}, Floor(120), Floor(120), rows=True)
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as running:
        services.wait_joint(running)
        yield Pair(running, peer, setup, corpus)


@pytest.fixture(scope="package")
def telling_device(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both sides know `answer.md` by heart, and take some seconds to write it."""
    folder = tmp_path_factory.mktemp("telling")
    model = memorised.save(folder / "model", ANSWER)
    setup = Setup(folder, {"DRAGON_MODEL": str(model)}, Floor(50), Floor(50), rows=True)
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as running:
        services.wait_joint(running)
        yield Pair(running, peer, setup, corpus)


@dataclass
class Scripted:
    """A device whose answers are given by the test."""

    url: str
    generation: FakeGeneration


@pytest.fixture(scope="package")
def scripted_device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scripted]:
    folder = tmp_path_factory.mktemp("scripted")
    settings = Settings(_env_file=None, data_dir=folder, api_key=KEY, model=str(SMALL_MODEL))
    generation = FakeGeneration(Tokenizer.load(SMALL_MODEL), context_length=32_768)
    migrate(database_url(folder))
    sessions = session_maker(connect(database_url(folder)))
    store = ConversationStore(sessions, Purge(sessions))
    pace = Pace(LinkMeter(), DecodeDelay())
    metrics = Metrics(lambda: True, lambda: 1, pace)
    generation.observers = (metrics,)
    errands = ThreadPoolExecutor(1)
    state = AppState(
        settings=settings,
        auth=Authenticator(KEY),
        generation=generation,
        admission=Admission(),
        embeddings=EmbeddingService(embedder(), errands.submit, Threads()),
        reranking=RerankingService(judge(), embedder(), "reranker", errands.submit, Threads()),
        documents=FakeDocuments(),
        ledger=Ledger(sessions),
        metrics=metrics,
        conversations=store,
        background_runs=BackgroundRuns(store, generation.write, generation.model_name),
    )
    with serving(create_app(settings, state)) as address:
        yield Scripted(f"http://{address}", generation)


@pytest.fixture
def scripted(scripted_device: Scripted) -> Iterator[Scripted]:
    generation = scripted_device.generation
    usual = generation.script
    yield scripted_device
    generation.script, generation.delay, generation.fail_after = usual, 0.0, None
    generation.no_room = None


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    running = playwright.chromium.launch(
        executable_path=CHROMIUM,
        args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
    )
    yield running
    running.close()


@pytest.fixture(scope="package")
def modules(browser: Browser, scripted_device: Scripted) -> Iterator[Page]:
    """A page in which tests try what its modules offer, and which they leave as it is."""
    with closing(browser.new_context(service_workers="block")) as context:
        yield signed_in(context.new_page(), scripted_device.url).page


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 900},
        permissions=["clipboard-read", "clipboard-write"],
        accept_downloads=True,
        # What a worker fetches no route of a test would see.
        service_workers="block",
        reduced_motion=MOTION,
    )
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def chat(page: Page, device: Service) -> ChatPage:
    """Signed in to the device with the embedded model, which writes the same each time."""
    page.add_init_script("localStorage['dragon.settings'] ??= JSON.stringify({ seed: '5' })")
    return signed_in(page, device.url)


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Signs in to a device by its URL, in a browser of other options."""
    with ExitStack() as contexts:

        def open_at(url: str, **options: Any) -> ChatPage:
            context = browser.new_context(service_workers="block", reduced_motion=MOTION, **options)
            return signed_in(contexts.enter_context(closing(context)).new_page(), url)

        yield open_at


@pytest.fixture
def german(opened: Opened, device: Service, emptied: None) -> ChatPage:
    """The page of a device without documents, in a German browser."""
    return opened(device.url, locale="de-DE")


def signed_in(page: Page, url: str) -> ChatPage:
    chat = ChatPage(page)
    chat.sign_in(f"{url}/sign-in?key={KEY}")
    return chat
