"""What leaves the device by default: nothing where its own documents answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from dragon.protocol.messages import Correction
from harness import services
from harness.models import SMALL_MODEL
from harness.services import Setup
from tests.contract.tapped import Tapped, opened, tapped_pair, words

pytestmark = pytest.mark.services

WIFI = "The wifi password of the cabin is heron-42-lantern."
FLIGHT = "I fly to Bhutan on 14 June."
ASKED = "What is the wifi password of the cabin?"
PUBLIC = "What is the capital of Kenya?"


@pytest.fixture(scope="module")
def tapped(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tapped]:
    env = {"DRAGON_FIRST_TOKEN_DEADLINE": "60", **services.AS_INSTALLED}
    setup = Setup(tmp_path_factory.mktemp("ladder"), env)
    with tapped_pair(setup, corpus, cabin=WIFI, flight=FLIGHT) as running:
        yield running


def test_where_own_documents_answer_nothing_leaves(tapped: Tapped) -> None:
    answer, sent = tapped.ask(ASKED)
    assert "heron-42-lantern" in answer["text"]
    assert sent == []
    assert answer["not_asked"] is True
    assert answer["participation"] == []
    assert {source["side"] for source in answer["sources"]} == {"private"}


def test_always_sends_the_question_and_no_word_of_the_answer(
    tapped: Tapped, tokenizer: Tokenizer
) -> None:
    answer, sent = tapped.ask(ASKED, cloud="always")
    assert "heron-42-lantern" in answer["text"]
    (conversation,) = opened(sent, tokenizer)
    assert ASKED in conversation
    assert words(sent, tokenizer) == ""
    assert answer["not_asked"] is False
    # What has no part in the answer is not among its sources either.
    assert {source["side"] for source in answer["sources"]} == {"private"}
    assert answer["participation"] == []


def test_never_sends_nothing(tapped: Tapped) -> None:
    _, sent = tapped.ask(PUBLIC, cloud="never")
    assert sent == []


def test_where_they_do_not_answer_the_cloud_does(tapped: Tapped, tokenizer: Tokenizer) -> None:
    answer, sent = tapped.ask(PUBLIC)
    assert "Nairobi" in answer["text"]
    assert answer["participation"] != []
    assert answer["not_asked"] is False
    assert PUBLIC in opened(sent, tokenizer)[0]


def test_a_private_answer_stays_private_in_the_next_message(
    tapped: Tapped, tokenizer: Tokenizer
) -> None:
    private, _ = tapped.ask(ASKED)
    for cloud in ("when_needed", "always"):
        answer, sent = tapped.ask(ASKED, private["text"], PUBLIC, cloud=cloud)
        assert "Nairobi" in answer["text"]
        (conversation,) = opened(sent, tokenizer)
        assert PUBLIC in conversation
        assert "wifi" not in conversation
        assert "heron" not in conversation + words(sent, tokenizer)
    # A public answer before is known to the cloud.
    public, _ = tapped.ask(PUBLIC)
    _, sent = tapped.ask(PUBLIC, public["text"], "How high is Mount Kenya?")
    assert public["text"].strip() in opened(sent, tokenizer)[0]


@pytest.mark.parametrize("stop", [[], [" b", "k"]])
def test_every_word_that_goes_up_stands_in_the_answer(
    tapped: Tapped, tokenizer: Tokenizer, stop: list[str]
) -> None:
    sent_at_all = 0
    for seed in range(6):
        asked = ASKED if seed % 2 else PUBLIC
        sampling = {"temperature": 2.0, "seed": seed, "max_tokens": 24, "stop": stop}
        answer, sent = tapped.continued(asked, sampling, cloud="always")
        corrections = [message for message in sent if isinstance(message, Correction)]
        runs = [tokenizer.decode(message.tokens).strip() for message in corrections]
        runs = [run for run in runs if run]
        assert all(run in answer["text"] for run in runs)
        ledger = tapped.ledger(answer)
        assert all(any(run in word for word in ledger["words"]) for run in runs)
        assert bool(ledger["words"]) is bool(runs)
        sent_at_all += len(runs)
    assert sent_at_all, "no answer had a word to correct"


def test_a_budget_bounds_what_words_say_of_a_passage(tapped: Tapped, tokenizer: Tokenizer) -> None:
    """So small a budget leaves next to nothing of a passage that is quoted otherwise."""
    chance = {"temperature": 1.0, "seed": None, "max_tokens": 16}
    for _ in range(4):
        answer, sent = tapped.ask(ASKED, sampling=chance, cloud="always", epsilon=1.0)
        assert ASKED in opened(sent, tokenizer)[0]
        assert "heron" not in answer["text"] + words(sent, tokenizer)
        assert answer["participation"] != []
        found = tapped.ledger(answer)
        assert found["epsilon"]["allowed"] == pytest.approx(1.0)
        assert 0.0 <= found["epsilon"]["spent"] <= 1.0
        assert found["epsilon"]["delta"] == 1e-6
        (spent,) = found["epsilon"]["passages"]
        assert spent >= found["epsilon"]["spent"]
    # Begun in its words, it has something to say.
    found = tapped.completed("The wifi password of the cabin is", cloud="always", epsilon=1.0)
    assert 0.0 < found["epsilon"]["spent"] <= 1.0
    # Alone, or without a budget, the same passage is quoted.
    private, _ = tapped.ask(ASKED, private=True, epsilon=1.0, sampling=chance)
    assert "heron-42-lantern" in private["text"]
    assert tapped.ledger(private)["epsilon"] is None
    unbounded, _ = tapped.ask(ASKED, cloud="always")
    assert "heron-42-lantern" in unbounded["text"]
    assert tapped.ledger(unbounded)["epsilon"] is None


def test_a_prompt_that_is_only_scored_leaves_where_it_needs_to(tapped: Tapped) -> None:
    scored = {"echo": True, "logprobs": 0, "max_tokens": 0, "temperature": 0}
    _, sent = tapped.continued(WIFI, scored)
    assert sent == []
    _, sent = tapped.continued(WIFI, scored, cloud="always")
    assert [type(message) for message in sent[:1]] == [control.ScoreText]


def test_the_ledger_names_all_that_the_cloud_was_asked_with(tapped: Tapped) -> None:
    asked: list[dict[str, str]] = [
        {"role": "system", "content": "Speak as to a child."},
        {"role": "developer", "content": "Never mention my sister Ida."},
        {"role": "user", "content": "What do I pay for the berth?"},
        {"role": "user", "content": PUBLIC},
    ]
    answer, sent = tapped.said(asked, cloud="always")
    ledger = tapped.ledger(answer)
    kinds = [(part["kind"], part["text"]) for part in ledger["given"]]
    assert kinds == [
        ("instructions", asked[0]["content"]),
        ("instructions", asked[1]["content"]),
        ("earlier", asked[2]["content"]),
        ("question", PUBLIC),
    ]
    assert ledger["left"] == "Your question, earlier questions, instructions"
    # The statistics are the ledger's.
    assert answer["stats"]["sent_frames"] == len(ledger["frames"]) == len(sent)
    assert answer["stats"]["sent_bytes"] == ledger["bytes"]
    # Where the cloud is asked when needed, a question that nobody answered was not for it.
    answer, sent = tapped.said(asked)
    ledger = tapped.ledger(answer)
    assert "berth" not in str(sent) + str(ledger["given"])
    assert ledger["left"] == "Your question, instructions"


CHAT = f"Name this chat:\nUSER: {ASKED}\nASSISTANT: It is heron-42-lantern."


def test_a_chat_in_one_text_stays_where_the_cloud_is_asked_when_needed(tapped: Tapped) -> None:
    """Programs send them to have a title; what was private of it nobody can tell."""
    more: list[dict[str, str]] = [{}, {"cloud": "when_needed"}]
    for dragon in more:
        for answer, sent in (
            tapped.ask(CHAT, sampling={"max_tokens": 8}, **dragon),
            tapped.continued(f"{CHAT}\nUSER: {PUBLIC}\n", {"max_tokens": 8}, **dragon),
        ):
            assert (sent, answer["not_asked"]) == ([], True)
    told = [{"role": "system", "content": CHAT}, {"role": "user", "content": PUBLIC}]
    answer, sent = tapped.said(told)
    assert (sent, answer["not_asked"]) == ([], True)
    answer, sent = tapped.continued(CHAT, {"max_tokens": 8}, cloud="always")
    assert isinstance(sent[0], control.Open)
    assert tapped.ledger(answer)["given"] == [{"kind": "prompt", "text": CHAT}]


def test_words_that_are_to_be_likelier_are_named(tapped: Tapped, tokenizer: Tokenizer) -> None:
    biased = {str(token): 1 for token in tokenizer.encode("Vanterpool")}
    answer, sent = tapped.ask(PUBLIC, sampling={"logit_bias": biased})
    (asked,) = [message for message in sent if isinstance(message, control.Open)]
    assert [str(token) for token, _ in asked.sampling.logit_bias] == [*biased]
    ledger = tapped.ledger(answer)
    assert {"kind": "words", "text": "Vanterpool"} in ledger["given"]
    assert ledger["left"].startswith("Your question, words asked for or against")


def test_what_was_asked_goes_from_the_ledger_with_its_chat(tapped: Tapped) -> None:
    device = tapped.device
    body = {"model": SMALL_MODEL.name, "input": PUBLIC, "dragon": {"cloud": "always"}}
    with device.client(120) as client:
        written = client.post("/v1/responses", json=body).raise_for_status().json()
        (key, *_) = [each["answer"] for each in client.get("/api/ledger").json()["data"]]
        assert client.get(f"/api/ledger/{key}").json()["given"][0]["text"] == PUBLIC
        client.delete(f"/v1/responses/{written['id']}").raise_for_status()
        assert client.get(f"/api/ledger/{key}").json()["given"] is None
