"""Log-probabilities and provenance of real answers, against whole forwards of every row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import torch

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.rows import Quoting, Row
from dragon.inference.tokenizer import Message, Tokenizer
from dragon.inference.weighting import Weights
from dragon.retrieval.prompt_rows import document_rows
from dragon.sampling.mixture import ETA_ONE, device_weight
from dragon.sampling.params import Mode, Sampling
from dragon.sampling.quantized import SCALE, cut
from harness import reference
from harness.network_emulator import Network
from harness.reference import Passage
from harness.services import wait_joint
from tests.contract.asking import chunks, questions
from tests.contract.conftest import Pair

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
BOTH = "What is the capital of Kenya, and what is my gym locker's code?"
TOKENS = 7
SEED = 11
TOP = 20
# A forward of another shape, and a weight on the wire that it rounds to the next.
CLOSE = 2e-4
STEP = 2.0 / SCALE


@dataclass(frozen=True)
class Slow:
    """Distributions by whole forwards, of rows as they are, without a cache."""

    model: LanguageModel
    own: Sequence[Row]
    public: Sequence[Row]
    whole: bool  # of the cloud's distributions, which else come cut to their nucleus
    logits: dict[tuple[int, ...], torch.Tensor] = field(default_factory=dict)

    def after(self, row: Row, conversation: Sequence[int], text: Sequence[int]) -> torch.Tensor:
        """The logits after each beginning of a text, [tokens + 1, V], by one forward of it all."""
        tokens = (*row.tokens, *conversation, *text)
        if tokens not in self.logits:
            (slot,) = self.model.cache.acquire(1) or []
            made = self.model.forward([slot], [0], torch.tensor([tokens]), len(text) + 1)
            self.model.cache.release([slot])
            self.logits[tokens] = made[0]
        return self.logits[tokens]

    def side(
        self, rows: Sequence[Row], conversation: Sequence[int], text: Sequence[int], position: int
    ) -> tuple[torch.Tensor, int]:
        """Weighted probabilities of the rows at a position, float64 [rows, V], and log h."""
        weights = Weights.of([row.relevance for row in rows])
        logits = [self.after(row, conversation, text)[position] for row in rows]
        shares = torch.softmax(torch.stack(logits).double(), -1)
        allowed = Quoting([row.quotes for row in rows], self.model.ends).allowed(text[:position])
        for row, tokens in enumerate(allowed):
            if tokens:
                forbidden = torch.ones(shares.shape[1], dtype=torch.bool)
                forbidden[list(tokens)] = False
                shares[row, forbidden] = 0.0
                shares[row] /= shares[row].sum()
        weights = weights.among(torch.tensor([each is None or bool(each) for each in allowed]))
        return weights.rows[:, None] * shares, weights.log_h

    def parts(
        self, conversation: Sequence[int], text: Sequence[int], position: int, *, joint: bool
    ) -> torch.Tensor:
        """The share of every row of both sides in the mixture, float64 [rows of both, V]."""
        own, own_log_h = self.side(self.own, conversation, text, position)
        if not joint:
            return own
        public, log_h = self.side(self.public, conversation, text, position)
        whole = public.sum(0)
        if not self.whole:
            wire = cut(whole.float().numpy()).wire
            there = whole.clamp(min=torch.finfo(whole.dtype).tiny)
            public = public / there * torch.from_numpy(wire.dense(len(whole)) / wire.total)
        eta = device_weight(own_log_h, log_h) / ETA_ONE
        return torch.cat([eta * own, (1 - eta) * public])


def slow_of(
    model: LanguageModel,
    tokenizer: Tokenizer,
    sources: Sequence[dict[str, Any]],
    *,
    raw: bool,
    whole: bool = True,
) -> Slow:
    """The rows behind a response's sources."""
    rows = []
    for side in ("private", "public"):
        found = [Passage(s["text"], s["score"]) for s in sources if s["side"] == side]
        rows.append(document_rows(tokenizer, found, model.context, raw=raw, quotes=model.quotes)[0])
    return Slow(model, *rows, whole)


def close(logprob: float) -> Any:
    """A probability, of its logarithm."""
    return pytest.approx(math.exp(logprob), rel=CLOSE, abs=STEP)


def post(pair: Pair, path: str, body: dict[str, Any]) -> dict[str, Any]:
    url, waits = pair.device.url + path, 300
    reply = httpx.post(url, headers=pair.device.headers, json=body, timeout=waits, verify=False)
    assert reply.status_code == 200, reply.text
    assert "Infinity" not in reply.text
    found: dict[str, Any] = reply.json()
    return found


def ask(pair: Pair, question: str, mode: Mode, temperature: float, **more: Any) -> dict[str, Any]:
    own = {"aggregation": mode, **more.pop("dragon", {})}
    body = {
        "model": "dragon-7m",
        "messages": [{"role": "user", "content": question}],
        "temperature": temperature,
        "seed": SEED,
        "max_tokens": TOKENS,
        "dragon": own,
    }
    return post(pair, "/v1/chat/completions", body | more)


def check_documents(
    found: dict[str, Any], slow: Slow, shares: torch.Tensor, sources: Sequence[dict[str, Any]]
) -> None:
    """`shares` of the rows in one token; a side without a document has a row that is left out."""
    of_rows = (shares / shares.sum()).tolist()
    expected = []
    for side, rows in (
        ("private", of_rows[: len(slow.own)]),
        ("public", of_rows[len(slow.own) :]),
    ):
        expected += rows[: sum(source["side"] == side for source in sources)]
    expected += [0.0] * (len(sources) - len(expected))
    own, documents = len(slow.own), found["documents"]
    if slow.whole:
        assert documents == pytest.approx(expected, abs=1e-4)
        return
    assert documents[:own] == pytest.approx(expected[:own], abs=1e-4)
    # A byte a row where the token is the cloud's draft; else by the weights of its documents.
    cloud = sum(expected[own:])
    weighed = [cloud * source["weight"] for source in sources if source["side"] == "public"]
    said = pytest.approx(expected[own:], abs=cloud / 255 + 1e-4)
    assert documents[own:] == said or documents[own:] == pytest.approx(weighed, abs=1e-4)


@pytest.mark.parametrize(
    ("mode", "temperature", "rtt_ms"),
    [
        (Mode.ONEWAY, 1.0, 0),
        (Mode.ONEWAY, 0.0, 100),
        (Mode.COUPLED, 1.0, 0),
        (Mode.TOKENWISE, 1.0, 0),
        (Mode.EXCHANGE, 1.0, 0),
        (Mode.SPECULATIVE, 1.0, 50),
        (Mode.SEQUENCEWISE, 1.0, 0),
        (Mode.LOCAL, 1.0, 0),
    ],
)
def test_every_token_of_an_answer(
    exact: Pair,
    model: LanguageModel,
    tokenizer: Tokenizer,
    mode: Mode,
    temperature: float,
    rtt_ms: int,
) -> None:
    exact.network.network = Network(rtt_ms / 1000)
    wait_joint(exact.device)
    for question in (questions()[0].text, BOTH):
        plain = ask(exact, question, mode, temperature)
        told = ask(
            exact, question, mode, temperature,
            logprobs=True, top_logprobs=TOP, dragon={"provenance": True},
        )  # fmt: skip
        choice, own = told["choices"][0], told["dragon"]["choices"][0]
        text = choice["message"]["content"]
        assert text == plain["choices"][0]["message"]["content"], "details change the text"
        assert "logprobs" in choice
        assert plain["choices"][0]["logprobs"] is None
        alone = mode is Mode.SPECULATIVE  # in which one side aggregates each token
        assert len(own["aggregators"]) == (len(own["verdicts"]) if alone else 0)
        assert set(own["aggregators"]) <= {"d", "c"}

        sources = own["sources"]
        # A finished answer is scored with the cloud's whole distributions.
        whole = mode is Mode.SEQUENCEWISE
        slow = slow_of(model, tokenizer, sources, raw=False, whole=whole)
        conversation = tokenizer.conversation([Message("user", question)])
        passages = [
            [Passage(s["text"], s["score"]) for s in sources if s["side"] == side]
            for side in ("private", "public")
        ]
        written = reference.write(
            model, tokenizer, question, *passages,
            Sampling(temperature, seed=SEED), TOKENS, mode,
        )  # fmt: skip
        content, provenance = choice["logprobs"]["content"], own["provenance"]
        spoken = [token for token in written if token not in tokenizer.end_ids]
        assert len(provenance) == told["usage"]["completion_tokens"] == len(written)
        assert len(content) == len(spoken)
        joint = mode is not Mode.LOCAL
        for position, token in enumerate(written):
            shares = slow.parts(conversation, written, position, joint=joint)
            mixed = shares.sum(0).log()
            origin = provenance[position]
            assert origin["position"] == position
            assert text[origin["start"] : origin["end"]] in (origin["text"], "")
            cloud = float(shares[len(slow.own) :, token].sum() / shares[:, token].sum())
            assert origin["cloud"] == pytest.approx(cloud, abs=1e-4)
            check_documents(origin, slow, shares[:, token], sources)
            assert (origin["tv"] is not None) is joint
            if position >= len(spoken):
                continue
            entry = content[position]
            assert bytes(entry["bytes"]) == tokenizer.piece(token)
            assert math.exp(entry["logprob"]) == close(float(mixed[token]))
            top = entry["top_logprobs"]
            best = torch.topk(mixed, TOP).values.tolist()
            assert len(top) == TOP
            for likely, value in zip(top, best, strict=True):
                assert math.exp(likely["logprob"]) == close(value)
        assert "".join(bytes(e["bytes"]).decode() for e in content) == text


def test_details_end_where_a_stop_string_cuts(exact: Pair) -> None:
    exact.network.network = Network(0.1)
    wait_joint(exact.device)
    question = questions()[1].text
    whole = ask(exact, question, Mode.COUPLED, 0.0)["choices"][0]["message"]["content"]
    stop = whole[7:9]
    cut = whole[: whole.index(stop)]
    told = ask(
        exact, question, Mode.COUPLED, 0.0, stop=stop, logprobs=True, dragon={"provenance": True}
    )
    choice = told["choices"][0]
    assert choice["message"]["content"] == cut
    provenance = told["dragon"]["choices"][0]["provenance"]
    assert provenance[-1]["end"] == len(cut)
    assert len(choice["logprobs"]["content"]) == len(provenance)


@pytest.mark.parametrize("joint", [1, 30])
def test_a_cloud_lost_in_mid_answer_has_no_share_from_there(exact: Pair, joint: int) -> None:
    exact.network.network = Network(0.05)
    wait_joint(exact.device)
    request = {
        "model": "dragon-7m",
        "prompt": questions()[0].text,
        "temperature": 1.0,
        "seed": SEED,
        "min_tokens": 96,
        "max_tokens": 96,
        "logprobs": 5,
        "dragon": {"aggregation": Mode.COUPLED, "provenance": True},
    }
    written: list[dict[str, Any]] = []
    logprobs: list[float] = []
    lost_at: int | None = None
    try:
        for chunk in chunks(exact.device, "/v1/completions", request):
            choice = chunk["choices"][0]
            logprobs += (choice["logprobs"] or {"token_logprobs": []})["token_logprobs"]
            told = chunk.get("dragon", {})
            if "provenance" in told:
                written += told["provenance"]["tokens"]
            if lost_at is None and len(written) >= joint:
                lost_at = len(written)
                exact.network.cut()
                exact.network.pause()  # not connected again before some tokens are the device's own
            elif lost_at is not None and len(written) >= lost_at + 40:
                exact.network.resume()
    finally:
        exact.network.resume()
    own = told["choices"][0]
    jointly = {t for start, end in own["participation"] for t in range(start, end)}
    assert set(range(joint)) <= jointly
    assert len(jointly) < len(written) == len(logprobs) == 96
    for origin in written:
        if origin["position"] not in jointly or origin["tv"] is None:
            assert origin["cloud"] == 0.0
            assert origin["tv"] is None
    assert all(map(math.isfinite, logprobs))
    wait_joint(exact.device)


def test_a_stream_tells_of_each_token_after_its_text(exact: Pair) -> None:
    body = {"logprobs": True, "top_logprobs": 2, "dragon": {"provenance": True}}
    question = questions()[1].text
    whole = ask(exact, question, Mode.COUPLED, 1.0, **body)
    request = {
        "model": "dragon-7m",
        "messages": [{"role": "user", "content": question}],
        "temperature": 1.0,
        "seed": SEED,
        "max_tokens": TOKENS,
    } | body
    text, content, provenance = "", [], []
    for chunk in chunks(exact.device, "/v1/chat/completions", request):
        choice = chunk["choices"][0]
        text += choice["delta"].get("content") or ""
        content += (choice["logprobs"] or {"content": []})["content"]
        if "provenance" in chunk.get("dragon", {}):
            piece = chunk["dragon"]["provenance"]
            assert piece["index"] == 0
            assert all(token["end"] <= len(text) for token in piece["tokens"])
            provenance += piece["tokens"]
    assert text == whole["choices"][0]["message"]["content"]
    assert content == whole["choices"][0]["logprobs"]["content"]
    assert provenance == whole["dragon"]["choices"][0]["provenance"]
