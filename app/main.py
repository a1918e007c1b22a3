"""Assembles the device service: the only place where its parts are built and closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

import torch
from fastapi import APIRouter, FastAPI
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from app.api import errors
from app.api.anthropic import messages
from app.api.mcp.endpoint import McpEndpoint
from app.api.ollama import routes as ollama
from app.api.openai import (
    completions,
    embeddings,
    files,
    models,
    openapi,
    search,
    tokenize,
    vector_stores,
)
from app.api.openai.field_types import HEADER
from app.api.page import conversations, documents, ledger, model_choice, pages, socket
from app.api.responses import routes as responses
from app.api_keys import api_keys
from app.auth import Authenticator, api_key
from app.container import AppState, State, Succession
from app.conversations.background_run import BackgroundRuns
from app.conversations.store import ConversationStore
from app.documents.store import DocumentStore
from app.embeddings import EmbeddingService
from app.erasing import Erasing
from app.generation.admission import Admission, Threads
from app.generation.cloud_view import CloudView
from app.generation.deciding import Decider
from app.generation.everyday import Everyday
from app.generation.retrieval import Retrieval
from app.generation.rewriting import Rewriter
from app.generation.service import GenerationService
from app.ledger.writer import Ledger
from app.metrics import Metrics
from app.middleware import AccessControl, BodyLimit, LenientHttp, RequestContext
from app.peer_link.client import Link
from app.peer_link.connection import Introduction
from app.peer_link.status import PeerStatus
from app.reranking import RerankingService
from app.settings import Settings
from app.storage.data_dir import note_database, owned, require_database
from app.storage.database import connect, database_url, migrate, session_maker
from dragon.inference.engine import Engine
from dragon.inference.estimates import DecodeDelay, LinkMeter, Pace
from dragon.inference.kv_store import KVStore
from dragon.inference.profile import Profile
from dragon.link.control import Hello
from dragon.retrieval import relevance
from dragon.retrieval.calibration import slope_of
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.judge import Judge
from dragon.retrieval.prompt_rows import Answers

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 4 * 2**20
_ROUTERS = (
    models,
    completions,
    embeddings,
    tokenize,
    vector_stores,
    files,
    search,
    responses,
    messages,
    ollama,
    conversations,
    documents,
    ledger,
    model_choice,
    pages,
    socket,
)
_HEALTH = APIRouter(tags=["health"])


def create_app(
    settings: Settings,
    state: AppState | None = None,
    *,
    succession: Succession | None = None,
) -> FastAPI:
    """The device's ASGI app. It builds its parts on start, unless `state` provides them."""

    mcp = McpEndpoint()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            app.state.dragon = state or await stack.enter_async_context(
                open_state(settings, succession)
            )
            stack.push_async_callback(mcp.close)
            yield

    app = FastAPI(
        title="DRAGON",
        lifespan=lifespan,
        # The documentation pages load third-party scripts.
        docs_url=None,
        redoc_url=None,
        # A redirect would drop a client's key, and is no error in OpenAI's shape.
        redirect_slashes=False,
        middleware=[
            Middleware(RequestContext),
            Middleware(LenientHttp, strict=settings.strict),
            *_cross_origin(settings),
            Middleware(AccessControl, host=settings.host),
            Middleware(BodyLimit, limit=MAX_BODY_BYTES, unbounded=frozenset({"/v1/files"})),
        ],
    )
    if state is not None:
        app.state.dragon = state
    errors.install(app)
    openapi.install(app)
    for router in (*(module.router for module in _ROUTERS), _HEALTH):
        app.include_router(router)
    app.router.routes.append(Route("/mcp", mcp))
    app.mount("/static", GZipMiddleware(pages.PageFiles(directory=pages.STATIC)))
    return app


def _cross_origin(settings: Settings) -> list[Middleware]:
    """CORS for the configured origins; never with a cookie, so their pages need a key."""
    if not settings.cors_origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id", "Mcp-Session-Id", HEADER],
        )
    ]


@asynccontextmanager
async def open_state(
    settings: Settings, succession: Succession | None = None
) -> AsyncIterator[AppState]:
    """Build the parts in order of dependency; close them in reverse order.

    In a succession, models are loaded while the previous device still holds the data.
    Raises `ConfigurationError` if a part cannot be built.
    """
    torch.set_num_threads(settings.threads)
    async with AsyncExitStack() as stack:
        if succession is None:
            stack.enter_context(owned(settings.data_dir))
        embedder = await asyncio.to_thread(Embedder.load, settings.embedder)
        judge = await asyncio.to_thread(Judge.load, settings.reranker)
        tokenizer, model = await asyncio.to_thread(settings.load)
        if not tokenizer.chats:
            log.warning(
                "%s has no chat template: it is a base model, and chats are rendered as plain "
                "text; an instruct model answers better",
                model.name,
            )
        if succession is not None:
            await asyncio.to_thread(succession.turn)
            stack.enter_context(owned(settings.data_dir))
        require_database(settings.data_dir)
        key = api_key(settings)
        url = database_url(settings.data_dir)
        await asyncio.to_thread(migrate, url)
        note_database(settings.data_dir)
        database = connect(url)
        stack.push_async_callback(database.dispose)
        sessions = session_maker(database)
        kv_dir, kv_bytes = settings.data_dir / "kv", settings.kv_cache_mb << 20
        store = await asyncio.to_thread(KVStore, kv_dir, model.kv, kv_bytes)
        engine = Engine(model, batching=not settings.exact, store=store)
        stack.push_async_callback(asyncio.to_thread, engine.stop)
        documents = DocumentStore(
            settings.data_dir,
            sessions,
            embedder,
            store,
            judge,
            run_urgent=lambda function: asyncio.wrap_future(engine.submit_urgent(function)),
            run_idle=lambda function: asyncio.wrap_future(engine.submit_idle(function)),
        )
        await documents.start(settings.watch)
        stack.push_async_callback(documents.close)
        hello = Hello(
            tokenizer=tokenizer.fingerprint,
            relevance=relevance.scale_of(embedder.fingerprint, judge.fingerprint),
            model=model.name,
        )
        peer_key = settings.peer_key.get_secret_value() if settings.peer_key else None
        profile = Profile.read(settings.data_dir, model.name)
        pace = Pace(LinkMeter(profile), DecodeDelay(profile))
        ledger = Ledger(sessions)
        await ledger.start()
        stack.push_async_callback(ledger.close)
        introduction = Introduction(peer_key, hello, tokenizer.vocab_size)
        link = Link(settings.peers, introduction, pace, ledger)
        await stack.enter_async_context(link.running())
        # Now, and in a thread: reading all of a large model takes seconds.
        await asyncio.to_thread(lambda: model.weights)
        answers_by = Answers.of(settings.answers, quotes=model.quotes)
        retrieval = Retrieval(
            tokenizer,
            embedder,
            judge,
            engine,
            documents,
            link,
            answers_by,
            settings.top_k,
            settings.rescore_every,
            slope_of(profile, embedder.fingerprint),
        )
        everyday = Everyday(engine, tokenizer, embedder, judge)
        rewriter = Rewriter(engine, tokenizer, taught=answers_by is Answers.LINES)
        view = CloudView(sessions)
        stack.push_async_callback(view.close)
        metrics = Metrics(lambda: link.connected, lambda: engine.free_slots, pace)
        generation = GenerationService(
            settings,
            tokenizer,
            engine,
            retrieval,
            link,
            pace,
            ledger,
            view,
            Decider(retrieval, everyday, rewriter, link, ledger),
            settings.default_sampling(quotes=answers_by is Answers.QUOTES),
            (metrics,),
        )
        conversations = ConversationStore(sessions, documents.purge)
        await conversations.start()
        erasing = Erasing(settings.data_dir, sessions, documents, conversations, ledger)
        await erasing.start()
        stack.push_async_callback(erasing.close)
        admission, threads = Admission(), Threads()
        runs = BackgroundRuns(
            conversations,
            generation.write,
            generation.model_name,
            admission.place,
        )
        stack.push_async_callback(runs.close)
        yield AppState(
            settings=settings,
            auth=Authenticator(
                key, settings.data_dir / "sessions.json", api_keys(settings.data_dir)
            ),
            generation=generation,
            admission=admission,
            embeddings=EmbeddingService(embedder, engine.submit_idle, threads),
            reranking=RerankingService(
                judge,
                embedder,
                settings.reranker.name if settings.reranker else "reranker",
                engine.submit_idle,
                threads,
            ),
            threads=threads,
            documents=documents,
            ledger=ledger,
            metrics=metrics,
            conversations=conversations,
            background_runs=runs,
            succession=succession,
        )


# Asked by supervisors, hence without a key.


class Readiness(BaseModel):
    """Whether the device can answer, and the state of its peer."""

    status: Literal["ready", "starting"]
    model: str
    peer: PeerStatus


@_HEALTH.get("/health")
async def health() -> dict[str, str]:
    """The process is alive."""
    return {"status": "ok"}


@_HEALTH.get("/ready", responses={503: {"model": Readiness}})
async def ready(state: State, response: Response) -> Readiness:
    """200 once the model is loaded, else 503. The device is ready even without its peer."""
    generation = state.generation
    response.status_code = 200 if generation.ready else 503
    return Readiness(
        status="ready" if generation.ready else "starting",
        model=generation.model_name,
        peer=generation.peer_state,
    )


@_HEALTH.get("/metrics", response_class=PlainTextResponse)
async def metrics(state: State) -> Response:
    """Prometheus' text format."""
    return Response(state.metrics.render(), media_type=CONTENT_TYPE_LATEST)
