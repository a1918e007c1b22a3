"""Puts the cloud peer together: the only place where its parts are built and closed."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import torch
from fastapi import FastAPI, Response, WebSocket
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from dragon.errors import AuthenticationError, ConfigurationError, OverloadedError
from dragon.inference.engine import Engine
from dragon.inference.estimates import DecodeDelay
from dragon.inference.kv_store import KVStore
from dragon.inference.profile import Profile
from dragon.link import control
from dragon.link.address import LINK_PATH
from dragon.retrieval import relevance
from dragon.retrieval.embedder import Embedder, TextEmbedder
from dragon.retrieval.judge import Judge
from dragon.retrieval.prompt_rows import Answers
from peer.context import PeerMetrics, Shared
from peer.corpus.store import Corpus
from peer.corpus.versions import Versions
from peer.keys import USAGE, DeviceKey, KeyRing, KeyUsage, key_file
from peer.server import ENDING, REVOKED, serve
from peer.serving import Retriever
from peer.settings import PeerSettings

log = logging.getLogger(__name__)

_PROXIED = frozenset({"forwarded", "via", "x-forwarded-for", "x-real-ip"})
"""Headers that a proxy on this machine adds: its clients may be remote."""

Opening = Callable[[TextEmbedder, str | None], Corpus]
"""Opens a version of the corpus, by default the one to serve."""

_LOOK_S = 0.5  # how often to check keys and corpus, and, while draining, the connections
_LEFT_LOOK_S = 0.05
_KEEP_EVERY = 10  # checks


def open_state(
    settings: PeerSettings, opening: Opening, turn: Callable[[], None] | None = None
) -> Shared:
    """Load models and corpus, wait for the `turn`, build the rest. Raises `ConfigurationError`."""
    torch.set_num_threads(settings.threads)
    tokenizer, model = settings.load()
    embedder = Embedder.load(settings.embedder)
    judge = Judge.load(settings.reranker)
    corpus = opening(embedder, None)
    if turn is not None:
        turn()
    # Shared by all versions of the corpus: most passages are the same in several.
    store = KVStore(settings.peer_corpus / "kv", model.kv, settings.kv_cache_mb << 20)
    engine = Engine(model, batching=not settings.exact, store=store)
    answers = Answers.of(settings.answers, quotes=model.quotes)
    return Shared(
        engine=engine,
        tokenizer=tokenizer,
        retriever=Retriever(engine, embedder, judge, corpus, tokenizer, answers),
        hello=control.Hello(
            tokenizer=tokenizer.fingerprint,
            relevance=relevance.scale_of(embedder.fingerprint, judge.fingerprint),
            model=model.name,
        ),
        max_sessions=settings.peer_max_sessions,
        metrics=PeerMetrics(lambda: engine.free_slots),
        decode=DecodeDelay(Profile.read(settings.data_dir, model.name)),
        keys=KeyRing(settings.peer_keys, key_file(settings.data_dir)),
        usage=KeyUsage(settings.data_dir / USAGE),
    )


def create_app(
    settings: PeerSettings,
    opening: Opening | None = None,
    *,
    turn: Callable[[], None] | None = None,
) -> FastAPI:
    """The peer's ASGI app, which builds its parts on start and waits for its `turn` to serve."""
    opening = opening or partial(Corpus.open, settings.peer_corpus)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.peer = shared = await asyncio.to_thread(open_state, settings, opening, turn)
        retriever = shared.retriever
        watching = [
            asyncio.create_task(watch(shared), name="watch"),
            asyncio.create_task(follow(retriever, settings.peer_corpus, opening), name="follow"),
        ]
        yield
        for task in watching:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await shared.usage.keep()
        shared.engine.stop()
        retriever.corpus.close()

    app = FastAPI(title="DRAGON peer", lifespan=lifespan, openapi_url=None)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> JSONResponse:
        shared: Shared = app.state.peer
        body = {
            "ready": shared.engine.alive and not shared.draining,
            "draining": shared.draining,
            "model": shared.engine.model.name,
            "corpus": shared.retriever.corpus.version,
            "passages": shared.retriever.corpus.manifest.passages,
            "sessions": shared.sessions,
            "free_slots": shared.engine.free_slots,
        }
        return JSONResponse(body, 200 if body["ready"] else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        shared: Shared = app.state.peer
        found = generate_latest(shared.metrics.registry)
        return Response(found, media_type=CONTENT_TYPE_LATEST)

    @app.websocket(LINK_PATH)
    async def link(socket: WebSocket) -> None:
        shared: Shared = app.state.peer
        try:
            key = _admitted(socket, shared.keys)
        except AuthenticationError as error:
            # Plain text: the device shows it to its user unchanged.
            host = socket.client and socket.client.host
            log.warning("refused a link from %s: %s", host, error.message.partition(":")[0])
            await socket.send_denial_response(PlainTextResponse(error.message, 401))
            return
        if shared.draining:
            refusal = PlainTextResponse("this peer is about to end", 503)
            await socket.send_denial_response(refusal)
            return
        await socket.accept()
        await serve(shared, socket, shared.holder(key, f"connection {id(socket)}"))

    return app


async def drain(app: FastAPI, deadline_s: float) -> None:
    """Send devices elsewhere, and hang up once their answers are finished, or at the deadline."""
    shared: Shared = app.state.peer
    log.info("draining: no new answers are accepted")
    shared.draining = True
    for connection in tuple(shared.connections):
        connection.leave()
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline_s):
            # There is no single event to wait for.
            while not all(each.left for each in shared.connections):  # noqa: ASYNC110
                await asyncio.sleep(_LEFT_LOOK_S)
    # Some devices have nowhere else to go, and Ray waits for every connection.
    for connection in tuple(shared.connections):
        connection.end(OverloadedError(ENDING))


def _admitted(socket: WebSocket, keys: KeyRing) -> DeviceKey | None:
    """The key of a link; None if none is required. Raises `AuthenticationError`."""
    if "origin" in socket.headers:
        raise AuthenticationError("pages in a browser are not admitted: links are for devices")
    if keys.open:
        if _PROXIED & set(socket.headers):
            raise AuthenticationError(
                "this peer has no keys: behind a proxy it needs DRAGON_PEER_KEYS, or keys that "
                "`dragon peer keys add` makes"
            )
        return None
    scheme, _, given = socket.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or (key := keys.find(given)) is None:
        raise AuthenticationError(
            "wrong key: set DRAGON_PEER_KEY to one of the peer's DRAGON_PEER_KEYS, or to one that "
            "`dragon peer keys add` has made"
        )
    return key


async def watch(shared: Shared) -> None:
    """Follow changes of the keys, and disconnect devices whose key was revoked."""
    for look in itertools.count(1):
        await asyncio.sleep(_LOOK_S)
        try:
            if shared.keys.refresh():
                log.info("the keys were changed")
                for connection in tuple(shared.connections):
                    held = connection.holder.key
                    current = None if held is None else shared.keys.current(held)
                    if current is not None:
                        connection.holder.renew(current)
                    elif held is not None or not shared.keys.open:
                        connection.end(AuthenticationError(REVOKED))
        except (ConfigurationError, OSError) as error:
            log.warning("keeping the previous keys: %s", error)
        if look % _KEEP_EVERY == 0:
            await shared.usage.keep()


async def follow(retriever: Retriever, root: Path, opening: Opening) -> None:
    """Serve the version of the corpus chosen to be served; a damaged one is reported once."""
    versions, seen = Versions(root), None
    while True:
        await asyncio.sleep(_LOOK_S)
        if (mark := versions.mark) == seen:
            continue
        seen = mark
        try:
            if (named := versions.current) == retriever.corpus.version:
                continue
            corpus = await asyncio.to_thread(opening, retriever.embedder, named)
        except ConfigurationError as error:
            log.warning("the corpus stays %s: %s", retriever.corpus.version, error)
            continue
        await retriever.switch(corpus)
        log.info("now serving the corpus %s", named)
