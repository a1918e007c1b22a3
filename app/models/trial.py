"""Trying a model: a process of its own loads it, writes a short answer and ends.

   python -m app.models.trial

tries the model set in its environment on the `Task` that it reads as JSON, and writes one JSON
object as its last line: a `Report`, or {"error": sentence}, where sentences are `Localizable`.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from app.models.choice import on_this_machine
from app.models.model import KEY, Model, ModelKind, gigabytes, installed_memory
from dragon.errors import (
    DragonError,
    HandshakeError,
    InvalidRequestError,
    LinkError,
    OverloadedError,
)
from dragon.inference.choice import is_server
from dragon.localizable import Localizable, localizable

if TYPE_CHECKING:
    from app.settings import Settings
    from dragon.inference.backends.backend import Backend
    from dragon.inference.tokenizer import Tokenizer

_TOKENS = 48
_LONGEST_S = 600.0


@dataclass(frozen=True)
class Task:
    """A model's task: a `question` or, if it quotes, a question `about` a `text`.

    The text is sentences, one per line; the one to quote is `answer`.
    """

    question: str
    text: str
    about: str
    answer: str

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Task:
        """The task in the language of the page's texts."""
        names = ("trial.question", "trial.text", "trial.about", "trial.answer")
        return cls(*(texts[name] for name in names))

    def as_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True)
class Report:
    """The outcome of a trial: the answer to the question, and how fast the model wrote.

    `works`: it wrote something; if it quotes, the sentence of `text` that answers. `text` is empty
    if it does not quote. `memory` is how many bytes DRAGON takes with it on this machine, None if
    another program runs the model; `installed` is the machine's memory. `peer` says whether the
    configured peer has the same vocabulary, and `fits` is that in short; None if unknown.
    """

    model: str
    question: str
    text: str
    answer: str
    works: bool
    tokens_per_s: float
    words_per_s: float
    memory: int | None
    installed: int
    context: int
    fingerprint: str
    fits: bool | None
    peer: Localizable


COMMAND = (sys.executable, "-m", "app.models.trial")


def environment(model: Model) -> dict[str, str]:
    """The environment of the process that tries a model."""
    # Set even if it is the model's own: `.env` may set that of the current model.
    own = "" if model.kind is ModelKind.SERVER else model.setting
    tokenizer = {"DRAGON_TOKENIZER": model.tokenizer or own}
    key = {KEY: model.key.get_secret_value() if model.key else ""}
    return os.environ | model.settings | {"DRAGON_MODEL": model.setting} | tokenizer | key


def result(output: bytes, status: int | None) -> Report:
    """The process's report. Raises `InvalidRequestError`, saying why the model cannot be used."""
    try:
        said = json.loads(output.strip().rpartition(b"\n")[2])
    except ValueError:
        said = {}
    if "error" in said:
        raise InvalidRequestError(Localizable.from_json(said["error"]))
    if not said and status is not None and status < 0:
        raise InvalidRequestError(
            localizable(
                "trial.killed",
                "The process that loaded it was killed (signal {signal}), most likely for want of "
                "memory: close other programs, or choose a smaller model.",
                signal=-status,
            )
        )
    if not said:
        raise InvalidRequestError(
            localizable(
                "trial.unloaded", "The model could not be loaded; the log of DRAGON says why."
            )
        )
    return Report(**said | {"peer": Localizable.from_json(said["peer"])})


class Trials:
    """Trials for the device's clients: one at a time, since two might not fit into memory."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(
        self, model: Model, task: Task, gone: Callable[[], Coroutine[Any, Any, None]]
    ) -> Report | None:
        """Try a model; None if `gone` returns first, since the caller has left.

        Raises `OverloadedError` while another is tried, `InvalidRequestError` if the model cannot
        be used.
        """
        if self._turn.locked():
            raise OverloadedError(
                localizable("trial.busy", "Another model is being tried; wait until that is done.")
            )
        async with self._turn:
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                env=environment(model),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            written = asyncio.create_task(process.communicate(task.as_json()))
            left = asyncio.create_task(gone())
            both = (written, left)
            try:
                await asyncio.wait(both, timeout=_LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
                if left.done():
                    return None
                if not written.done():
                    raise InvalidRequestError(
                        localizable("trial.slow", "The model was not loaded within ten minutes.")
                    )
                return result(written.result()[0], process.returncode)
            finally:
                if process.returncode is None:
                    process.kill()
                for each in both:
                    each.cancel()
                await process.wait()


def table(report: Report) -> list[tuple[str, str]]:
    memory = "another program's" if report.memory is None else gigabytes(report.memory)
    return [
        ("Works", "yes" if report.works else "no"),
        ("Speed", f"{report.tokens_per_s:.1f} tokens a second, {report.words_per_s:.1f} words"),
        ("Memory", f"{memory} of {gigabytes(report.installed)}"),
        ("Context", f"{report.context:,} tokens"),
        ("Vocabulary", report.fingerprint),
        ("Peer", report.peer),
    ]


def main() -> None:
    from app.settings import Settings

    try:
        # A file may have the key of the current model, which another server must not see.
        key = SecretStr(given) if (given := os.environ.get(KEY)) else None
        settings = Settings.read().model_copy(update={"model_key": key})
        report = _tried(settings, Task(**json.load(sys.stdin)))
        said = asdict(report) | {"peer": report.peer.as_json()}
    except DragonError as error:
        message = error.message
        shown = message if isinstance(message, Localizable) else Localizable(message)
        said = {"error": shown.as_json()}
    print(json.dumps(said), flush=True)


def _tried(settings: Settings, task: Task) -> Report:
    import torch

    from dragon.retrieval.prompt_rows import Answers

    torch.set_num_threads(settings.threads)
    tokenizer, model = settings.load()
    quotes = Answers.of(settings.answers, quotes=model.quotes) is Answers.QUOTES
    began = time.perf_counter()
    tokens = asyncio.run(_written(model, tokenizer, task, quotes=quotes))
    seconds = time.perf_counter() - began
    answer = tokenizer.decode(tokens).strip()
    unit = 1 if sys.platform == "darwin" else 1024
    services = 2 if on_this_machine(settings) else 1  # the peer loads it, too
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit * services
    fits, peer = _compared(settings, tokenizer.fingerprint, model.name)
    return Report(
        model=model.name,
        question=task.about if quotes else task.question,
        text=task.text if quotes else "",
        answer=answer,
        works=answer == task.answer if quotes else bool(answer),
        tokens_per_s=len(tokens) / seconds,
        words_per_s=len(answer.split()) / seconds,
        memory=None if is_server(settings.model) else memory,
        installed=installed_memory(),
        context=model.context,
        fingerprint=tokenizer.fingerprint,
        fits=fits,
        peer=peer,
    )


async def _written(model: Backend, tokenizer: Tokenizer, task: Task, *, quotes: bool) -> list[int]:
    """The likeliest tokens of a short answer."""
    from dragon.inference.engine import Engine
    from dragon.inference.rows import Row
    from dragon.inference.run import written
    from dragon.retrieval.prompt_rows import quotes_of

    tokens: list[int] = []
    asked, row = task.question, None
    if quotes:
        sentences = task.text.splitlines()
        document = tokenizer.document_row(" ".join(sentences))
        asked, row = task.about, Row(tuple(document), 0.0, quotes=quotes_of(tokenizer, sentences))
    async with aclosing(written(Engine(model), tokenizer, asked, _TOKENS, row)) as writing:
        async for token in writing:
            if token in tokenizer.end_ids:
                break
            tokens.append(token)
            if row and tuple(tokens) in {quote.first for quote in row.quotes}:
                break  # only the first sentence is checked: an answer has each in a row of its own
    return tokens


def _compared(settings: Settings, fingerprint: str, name: str) -> tuple[bool | None, Localizable]:
    """Whether the peer would take part with this model, also as a sentence."""
    from app.peer_link.connection import greet
    from dragon.link.control import Hello
    from dragon.retrieval import relevance
    from dragon.retrieval.embedder import Embedder
    from dragon.retrieval.judge import Judge

    embedder, judge = Embedder.load(settings.embedder), Judge.load(settings.reranker)
    scale = relevance.scale_of(embedder.fingerprint, judge.fingerprint)
    key = settings.peer_key.get_secret_value() if settings.peer_key else None
    hello = Hello(tokenizer=fingerprint, relevance=scale, model=name)
    try:
        greet(settings.peers[0], key, hello)
    except HandshakeError as error:
        if on_this_machine(settings):
            return False, localizable(
                "trial.unfit",
                "The peer runs another model now; the one that is chosen is loaded on both sides.",
            )
        return False, localizable("trial.refused", "The peer refuses it: {why}.", why=error.message)
    except LinkError:
        return None, localizable(
            "trial.alone",
            "No peer answers at {url}, so vocabularies were not compared.",
            url=settings.peers[0].url,
        )
    return True, localizable("trial.fits", "The peer has the same vocabulary.")


if __name__ == "__main__":
    main()
    os._exit(0)  # no need to wait for a model runtime's cleanup
