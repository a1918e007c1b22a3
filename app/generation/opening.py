"""Opens the generation service with its link, and closes both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from app.generation.cloud_view import CloudView
from app.generation.deciding import Decider
from app.generation.retrieval import Retrieval, Searcher
from app.generation.rewriting import Rewriter
from app.generation.service import GenerationService
from app.ledger.writer import Ledger
from app.peer_link.client import Link
from app.settings import Settings
from dragon.errors import DragonError
from dragon.inference.engine import Engine
from dragon.inference.estimates import Pace
from dragon.inference.tokenizer import Tokenizer
from dragon.retrieval.answers import Answers
from dragon.retrieval.embedder import TextEmbedder
from dragon.retrieval.judge import TextJudge

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_generation(
    settings: Settings,
    tokenizer: Tokenizer,
    embedder: TextEmbedder,
    judge: TextJudge,
    engine: Engine,
    documents: Searcher,
    link: Link,
    pace: Pace,
    ledger: Ledger,
) -> AsyncIterator[GenerationService]:
    """The service with its link running; the engine, which runs the embedder, is the caller's."""
    task = asyncio.create_task(link.run(), name="link")
    try:
        # Now, and in a thread: reading all of a large model takes seconds.
        await asyncio.to_thread(lambda: engine.model.weights)
        if not tokenizer.chats:
            log.warning(
                "%s has no chat template: it is a base model, and chats are rendered as plain "
                "text; an instruct model answers better",
                engine.model.name,
            )
        retrieval = Retrieval(
            tokenizer,
            embedder,
            judge,
            engine,
            documents,
            link,
            Answers.of(settings.answers, quotes=engine.model.quotes),
            settings.top_k,
            settings.rescore_every,
        )
        taught = retrieval.answers is Answers.LINES
        view = CloudView(ledger.sessions)
        decider = Decider(retrieval, Rewriter(engine, tokenizer, taught), link, ledger)
        try:
            yield GenerationService(
                settings,
                tokenizer,
                engine,
                retrieval,
                link,
                pace,
                ledger,
                view,
                decider,
                settings.usual(quotes=retrieval.answers is Answers.QUOTES),
            )
        finally:
            await view.close()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, DragonError):
            await task
