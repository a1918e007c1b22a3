"""A service as experiments need it: `python -m harness.serve device|peer [options]`.

Starts the real service and, once its parts are built, slows it down to a floor, gives it fixed
documents instead of a search, keeps it from ending its answers early, or makes it aggregate in a
way that its API does not offer.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI

from app.documents.hits import EVERYTHING, DocumentHit, Scope
from app.main import create_app as create_device
from app.settings import Settings
from cli.server import peer_server, server
from dragon.inference.backends.backend import Backend
from dragon.inference.tokenizer import Tokenizer
from dragon.protocol.aggregator_policy import Schedule
from dragon.retrieval.prompt_rows import Answers
from dragon.retrieval.relevance import Hit
from harness import fixed_documents
from harness.no_judge import NoJudge
from harness.reference import Passage
from harness.throttle import slow_down
from peer.corpus.store import Corpus
from peer.main import create_app as create_peer
from peer.serving import Retriever
from peer.settings import PeerSettings

OWN = "own"  # the document of all of the device's passages


@dataclass(frozen=True)
class FixedSearcher:
    """The device's documents by query, instead of a search."""

    passages: dict[str, list[Passage]]

    async def search(
        self, query: str, k: int, scope: Scope = EVERYTHING, *, relevant: bool = True
    ) -> Sequence[DocumentHit]:
        """The first k; `KeyError` for a query without documents."""
        return [
            DocumentHit(n, OWN, f"own {n}", p.text, p.score, p.relevance, None, 0, 0)
            for n, p in enumerate(self.passages[query][:k], start=1)
        ]

    async def passages_about(
        self, query: str, k: int, scope: Scope = EVERYTHING
    ) -> Sequence[DocumentHit]:
        """The same: they are not part of a longer text."""
        return await self.search(query, k, scope)

    async def closest(self, query: str, k: int, scope: Scope = EVERYTHING) -> Sequence[DocumentHit]:
        """Nothing: all of them answer."""
        return []

    async def said(self, reply: str, scope: Scope = EVERYTHING) -> DocumentHit | None:
        """Nothing: replies are not traced to them."""
        return None

    async def unread(self, scope: Scope = EVERYTHING) -> int:
        """Zero: all of them can be searched."""
        return 0


@dataclass
class FixedRetriever(Retriever):
    """The peer's documents by query, instead of a search."""

    passages: dict[str, list[Passage]]

    def _search(
        self, corpus: Corpus, query: str, top_k: int, *, judged: bool, premise: str
    ) -> list[Hit]:
        return [
            Hit(n, f"public-{n}", f"public {n}", p.text, p.score, p.relevance)
            for n, p in enumerate(self.passages[query][:top_k], start=1)
        ]


def never_end(model: Backend, tokenizer: Tokenizer) -> None:
    """Give end tokens no probability, so that every answer reaches its limit."""
    ends = torch.tensor(sorted(tokenizer.end_ids))
    forward = model.forward

    def endless(*row: Any, **options: Any) -> torch.Tensor:
        return forward(*row, **options).index_fill(-1, ends, -torch.inf)

    model.forward = endless  # type: ignore[method-assign]


def adapt_model(model: Backend, tokenizer: Tokenizer, options: argparse.Namespace) -> None:
    """Apply `--floor-ms` and `--endless` to a model."""
    if options.floor_ms:
        slow_down(model, options.floor_ms)
    if options.endless:
        never_end(model, tokenizer)


def answers_of(usual: Answers, options: argparse.Namespace) -> Answers:
    """The form of a model's answers: a row per passage with fixed documents or `--rows`.

    Endless answers cannot be quotes, which are finite.
    """
    written = usual is Answers.WORDS and (options.rows or options.documents)
    return Answers.ROWS if written or options.endless else usual


def adapt_device(app: FastAPI, options: argparse.Namespace) -> None:
    """Change the parts of a started device."""
    generation = app.state.dragon.generation
    generation.retrieval.answers = answers_of(generation.retrieval.answers, options)
    adapt_model(generation.engine.model, generation.tokenizer, options)
    if options.documents:
        own = fixed_documents.load(options.documents, "device")
        generation.retrieval.documents = FixedSearcher(own)
        generation.retrieval.judge = NoJudge()  # else small tasks would be answered without them
        generation.engine.store.admit(OWN)
    generation.schedule = options.schedule
    generation.catch_up = options.catch_up
    generation.certificates = options.certificates


def adapt_peer(app: FastAPI, options: argparse.Namespace) -> None:
    """Change the parts of a started peer."""
    shared = app.state.peer
    shared.retriever.answers = answers_of(shared.retriever.answers, options)
    adapt_model(shared.engine.model, shared.tokenizer, options)
    if options.documents:
        found = fixed_documents.load(options.documents, "cloud")
        parts = vars(shared.retriever)
        shared.retriever = FixedRetriever(**parts, passages=found)


def started(app: FastAPI, adapt: Callable[[], None]) -> FastAPI:
    """Return the app, changed to run `adapt` once its parts are built."""
    build = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(whole: Any) -> AsyncIterator[None]:
        async with build(whole):
            adapt()
            yield

    app.router.lifespan_context = lifespan
    return app


def parser() -> argparse.ArgumentParser:
    """The options of a service under test."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("service", choices=("device", "peer"))
    options.add_argument("--floor-ms", type=float, default=0.0, help="the least a step takes")
    options.add_argument("--documents", type=Path, help="what harness.fixed_documents saved")
    options.add_argument("--endless", action="store_true", help="no end tokens")
    options.add_argument(
        "--rows", action="store_true", help="a model that writes has a passage a row"
    )
    options.add_argument(
        "--schedule",
        type=Schedule,
        choices=list(Schedule),
        default=Schedule.GREEDY,
        help="who aggregates in speculative aggregation, on both sides",
    )
    options.add_argument(
        "--no-catch-up",
        dest="catch_up",
        action="store_false",
        help="neither side runs the other's drafts",
    )
    options.add_argument(
        "--no-certificates",
        dest="certificates",
        action="store_false",
        help="no token is taken before the cloud's distribution is there",
    )
    return options


def main() -> None:
    """Start a service, changed as the options say."""
    options = parser().parse_args()
    logging.basicConfig()
    if options.service == "device":
        device = Settings.read()
        app = create_device(device)
        running = started(app, lambda: adapt_device(app, options))
        server(running, device.host, device.port).run()
    else:
        peer = PeerSettings.read()
        app = create_peer(peer)
        running = started(app, lambda: adapt_peer(app, options))
        peer_server(running, peer).run()


if __name__ == "__main__":
    main()
