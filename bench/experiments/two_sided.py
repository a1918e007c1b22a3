"""Do both sides matter? `python -m bench.two_sided`

200 questions whose answer stands only in an uploaded note, 200 whose answer stands only in the
public corpus, and 30 that need both in one answer, asked of both real services; an answer counts
when it contains a gold string. Half of each are written by hand, the rest made from templates and
values that training holds out (`bench.training_overlap` checks). Closed-book is the same model
without any document. `private_asked` is the share of private questions, which own documents answer,
that went to the cloud nonetheless: all of them unless `--cloud when_needed`. `private_frames`,
`private_drafted` and `private_knows` sum up what leaves for the answers to them: bytes, and 5-grams
of notes.

`--systems` compares DRAGON with other ways to answer the same questions with the same model, and
with other people's libraries (`bench/rivals`, in an environment apart: `make rivals`). With
`--squad` the questions are of SQuAD 2.0's open half, and its paragraphs are the notes; a question
that they do not answer is to be declined.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from scipy.special import logsumexp

from app.settings import Cloud
from bench.lib import report, rivals, squad, workload
from dragon.retrieval.relevance import BARE_RELEVANCE, relevance
from dragon.sampling.params import Mode
from harness import services
from harness.llama_server import serving
from harness.services import Service, Setup
from harness.two_sided import QUESTIONS, Question, notes_of, read, spread, upload

_TOKENS = 64
_SYSTEMS = """Shares of right answers, that is, those that contain a gold string, or decline where
there is none; all greedy, of at most 64 tokens. `alone` is the model in llama.cpp's server, without
documents. `central-device` is a device without a peer that has the notes, and the public corpus as
one more document; `central-cloud` has the corpus at the peer and no notes, since these do not
leave; `dragon` is as installed. `llama_index` and `txtai` have every note and every passage of the
corpus as a document, with their own splitting, prompts and number of passages, the model in
llama.cpp's server and DRAGON's embedder over `/v1/embeddings`. A gold string suits answers that
quote: "6 weeks" is not "six weeks"."""


class System(StrEnum):
    """The systems that are compared; the notes of the table say which documents each has."""

    ALONE = "alone"
    CENTRAL_DEVICE = "central-device"
    CENTRAL_CLOUD = "central-cloud"
    DRAGON = "dragon"
    LLAMA_INDEX = "llama_index"
    TXTAI = "txtai"


@dataclass(frozen=True)
class Reply:
    """An answer, and how often each side's own draft was the target, if it was written jointly.

    The ledger says whether the cloud was `asked`, how many `frames` bytes left for it after the
    question, and how many 5-grams of the passages read were `drafted` on the link or stand in what
    the cloud `knows` of the answer.
    """

    text: str
    tokens: int
    accept_heavier: float | None
    asked: bool
    frames: int
    drafted: int
    knows: int


def ask(client: httpx.Client, question: str, tokens: int = _TOKENS, **dragon: Any) -> Reply:
    """The greedy answer to a question, of at most so many tokens."""
    body = {
        "model": client.get("/v1/models").json()["data"][0]["id"],
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "seed": 1,
        "max_tokens": tokens,
        "dragon": dragon,
    }
    reply = client.post("/v1/chat/completions", json=body).raise_for_status().json()
    choice = reply["dragon"]["choices"][0]
    ledger = client.get(f"/api/ledger/{choice['ledger']}").raise_for_status().json()
    kinds, fivegrams = ledger["kinds"], ledger["fivegrams"]
    return Reply(
        reply["choices"][0]["message"]["content"],
        reply["usage"]["completion_tokens"],
        _accepted(choice),
        "open" in kinds,
        sum(kinds[kind]["bytes"] for kind in kinds if kind not in ("open", "close")),
        fivegrams["drafts"],
        fivegrams["answer"],
    )


def _accepted(choice: Any) -> float | None:
    """The acceptance rate of the side with the higher log h."""
    if "accept_device" not in choice["stats"]:
        return None
    private, public = (
        [relevance(s["score"]) for s in choice["sources"] if s["side"] == side]
        for side in ("private", "public")
    )
    device, cloud = (logsumexp(one) if one else BARE_RELEVANCE for one in (private, public))
    accepted: float = choice["stats"]["accept_device" if device >= cloud else "accept_cloud"]
    return accepted


@contextmanager
def running(setup: Setup, corpus: Path, notes: Sequence[str]) -> Iterator[httpx.Client]:
    """Both services with a corpus and these notes, and a client of the device."""
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as device:
        upload(device, notes)
        services.wait_joint(device)
        with device.client(120) as client:
            yield client


@contextmanager
def running_alone(setup: Setup, documents: Sequence[str]) -> Iterator[httpx.Client]:
    """A device with these documents and no peer, and a client of it."""
    with services.device(setup, services.free_port()) as device:
        upload(device, documents)
        with device.client(120) as client:
            yield client


def asked(
    client: httpx.Client, questions: Sequence[Question], label: str, **dragon: Any
) -> list[tuple[Question, Reply]]:
    """Every question with its reply; prints them."""
    pairs = []
    for question in questions:
        reply = ask(client, question.text, **dragon)
        show(label, question, reply.text)
        pairs.append((question, reply))
    return pairs


def right(question: Question, text: str) -> bool:
    """Whether a text has a gold string, or declines a question without one."""
    return question.answered_by(text) if question.gold else squad.declines(text)


def of_squad(path: Path, count: int) -> list[Question]:
    """At most `count` questions that SQuAD's paragraphs answer, and as many that they do not."""
    half = squad.open_half(squad.read(path), count)
    sides = {"answerable": half.answerable, "unanswerable": half.unanswerable}
    return [
        Question(side, one.question, one.answers, one.context, "hand")
        for side, asked in sides.items()
        for one in asked
    ]


def show(label: str, question: Question, text: str) -> None:
    """Print a question with its answer, and whether it is right."""
    mark = "+" if right(question, text) else "-"
    shown = f"{question.text} -> {text!r} ({question.gold[:1]})"
    print(f"{label:>20} {mark} {shown}", flush=True)


def share(pairs: Sequence[tuple[Question, Reply]], by: str = "") -> float | None:
    """The share of questions answered rightly, of those made one way."""
    outcomes = [right(q, reply.text) for q, reply in pairs if by in ("", q.by)]
    return round(sum(outcomes) / len(outcomes), 4) if outcomes else None


def measure(
    client: httpx.Client, questions: Sequence[Question], mode: Mode = Mode.ONEWAY
) -> dict[str, float | None]:
    """The shares of right answers, and the acceptance of the heavier side, weighted by tokens."""
    asking = partial(asked, client, aggregation=mode)
    private, public, both = (
        [q for q in questions if q.side == side] for side in ("private", "public", "both")
    )
    answers = {
        "private": asking(private, "private"),
        "public": asking(public, "public"),
        "both": asking(both, "both"),
        "public_without_peer": asking(public, "public without peer", private=True),
        "closed_book": asking(private + public, "closed book", private=True, top_k=0),
    }
    joint = [reply for side in ("private", "public") for _, reply in answers[side]]
    accepted = [(r.accept_heavier, r.tokens) for r in joint if r.accept_heavier is not None]
    result = {name: share(pairs) for name, pairs in answers.items()}
    for side in ("private", "public"):
        for by in ("hand", "template"):
            result[f"{side}_{by}"] = share(answers[side], by)
    went = [reply.asked for _, reply in answers["private"]]
    result["private_asked"] = round(sum(went) / len(went), 4) if went else None
    for name in ("frames", "drafted", "knows"):
        result[f"private_{name}"] = sum(getattr(reply, name) for _, reply in answers["private"])
    if accepted:
        shares, tokens = zip(*accepted, strict=True)
        result["accept_heavier"] = round(float(np.average(shares, weights=tokens)), 4)
    return result


def public_texts() -> list[str]:
    """The passages of the demo corpus, each as a text with its title."""
    with services.DEMO_CORPUS.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [f"# {row['title']}\n\n{row['text']}" for row in rows]


def answers_of(
    system: System, questions: Sequence[Question], setup: Setup, model: str
) -> list[str]:
    """A system's answer to each question."""
    notes = notes_of(questions)

    def answers(client: httpx.Client, **dragon: Any) -> list[str]:
        return [ask(client, question.text, **dragon).text for question in questions]

    match system:
        case System.ALONE:
            with serving(Path(model), setup.data / "llama.log", slots=1) as llm:
                return [plain(llm, question.text) for question in questions]
        case System.CENTRAL_DEVICE:
            with running_alone(setup, [*notes, "\n\n".join(public_texts())]) as client:
                return answers(client, private=True)
        case System.CENTRAL_CLOUD:
            with running(setup, services.demo_corpus(setup.data), []) as client:
                return answers(client, cloud="always", wait=True)
        case System.DRAGON:
            with running(setup, services.demo_corpus(setup.data), notes) as client:
                return answers(client, wait=True)
        case System.LLAMA_INDEX | System.TXTAI:
            with (
                serving(Path(model), setup.data / "llama.log", slots=1) as llm,
                running_alone(setup, []) as embedding,
            ):
                writer, embedder = (m["id"] for m in embedding.get("/v1/models").json()["data"])
                task = rivals.Task(
                    documents=[*notes, *public_texts()],
                    questions=[question.text for question in questions],
                    tokens=_TOKENS,
                    llm=f"{llm.url}/v1",
                    model=writer,
                    embeddings=str(embedding.base_url.join("/v1")),
                    embedder=embedder,
                    key=services.KEY,
                )
                return rivals.ask(system, task)


def plain(llm: Service, question: str) -> str:
    """The model's answer without documents, in llama.cpp's server."""
    body = {
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": _TOKENS,
    }
    reply = httpx.post(f"{llm.url}/v1/chat/completions", json=body, timeout=120)
    return str(reply.raise_for_status().json()["choices"][0]["message"]["content"])


def compare(
    systems: Sequence[System], questions: Sequence[Question], folder: Path, model: str
) -> list[dict[str, Any]]:
    """A row a system: the shares of right answers, by the side that has them."""
    rows = []
    for system in systems:
        setup = Setup(folder / system, services.AS_INSTALLED | {"DRAGON_MODEL": model})
        setup.data.mkdir()
        row: dict[str, Any] = {"system": system.value}
        sides: dict[str, list[bool]] = {}
        for question, text in zip(
            questions, answers_of(system, questions, setup, model), strict=True
        ):
            show(system, question, text)
            sides.setdefault(question.side, []).append(right(question, text))
        row |= {side: round(sum(each) / len(each), 4) for side, each in sides.items()}
        rows.append(row)
    return rows


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    workload.add_model(parser)
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--squad", type=Path, help="SQuAD's questions, for --systems")
    parser.add_argument("--count", type=int, default=200, help="questions a side, at most")
    parser.add_argument("--cloud", type=Cloud, choices=list(Cloud), default=Cloud.ALWAYS)
    parser.add_argument("--modes", type=Mode, nargs="+", choices=list(Mode), default=[Mode.ONEWAY])
    parser.add_argument("--systems", type=System, nargs="+", choices=list(System), default=[],
                        help="compare these, instead of measuring modes")  # fmt: skip
    options = parser.parse_args()
    if options.squad:
        questions = of_squad(options.squad, options.count)
    else:
        questions = spread(read(options.questions), options.count)
    if options.squad and not options.systems:
        parser.error("--squad has questions of one side only: compare --systems on them")
    if options.systems:
        if not options.model.endswith(".gguf"):
            parser.error("--systems needs a .gguf file: others have it in llama.cpp's server")
        with tempfile.TemporaryDirectory() as folder:
            rows = compare(options.systems, questions, Path(folder), options.model)
        title = "two_sided-systems" + ("-squad" if options.squad else "")
        report.section("two_sided", rows, title=title, model=options.model, notes=_SYSTEMS)
        print(json.dumps({"rows": rows}))
        return
    env = services.AS_INSTALLED | {"DRAGON_MODEL": options.model, "DRAGON_CLOUD": options.cloud}
    with (
        tempfile.TemporaryDirectory() as folder,
        running(
            Setup(Path(folder), env), services.demo_corpus(Path(folder)), notes_of(questions)
        ) as client,
    ):
        rows = [{"mode": mode.value, **measure(client, questions, mode)} for mode in options.modes]
    report.section("two_sided", rows, model=options.model)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
