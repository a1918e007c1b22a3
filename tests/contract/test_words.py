"""A model that writes, on both sides: the embedded one as a `.gguf`, told to, and a tiny one.

Its words are bad, the way is that of any model: passages, citations, questions made to stand alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragon.inference.tokenizer import Tokenizer
from dragon.link import control
from harness import services
from harness.services import Service, Setup
from tests import memorised
from tests.contract.asking import Ask, ask_all, chunks, eventually, posted, upload
from tests.contract.chatting import chat
from tests.contract.tapped import Tapped, opened, tapped_pair

pytestmark = pytest.mark.services

CABIN = (
    "# Cabin\n\nThe wifi password of the cabin is heron-42-lantern. The router stands in the loft."
)
ASKED = "What is the wifi password of the cabin?"
PUBLIC = "What is the capital of Kenya?"
KNOWN = "The key is under the blue pot [1], and never [3] in the shed [2]."


@pytest.fixture(scope="module")
def tapped(
    embedded_gguf: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tapped]:
    env = {"DRAGON_MODEL": str(embedded_gguf), "DRAGON_ANSWERS": "words"}
    env["DRAGON_FIRST_TOKEN_DEADLINE"] = "60"
    setup = Setup(tmp_path_factory.mktemp("words"), {**env, **services.AS_INSTALLED})
    with tapped_pair(setup, corpus, cabin=CABIN) as running:
        yield running


def test_where_a_passage_of_ones_own_is_relevant_enough_nothing_leaves(tapped: Tapped) -> None:
    answer, sent = tapped.ask(ASKED)
    (source,) = answer["sources"]
    assert (source["side"], source["citation"]) == ("private", 1)
    assert source["text"] == CABIN[CABIN.index("The wifi") :]
    assert (sent, answer["not_asked"]) == ([], True)
    assert answer["text"]


def test_the_cloud_answers_with_numbers_of_its_own(tapped: Tapped, tokenizer: Tokenizer) -> None:
    answer, sent = tapped.ask(PUBLIC)
    assert answer["participation"]
    public = [source for source in answer["sources"] if source["side"] == "public"]
    assert [source["citation"] for source in public] == list(range(6, 6 + len(public)))
    assert any("Nairobi" in source["text"] for source in public)
    assert sum(source["weight"] for source in public) == pytest.approx(1.0)
    assert PUBLIC in opened(sent, tokenizer)[0]


def test_both_sides_take_part_in_an_answer_where_it_is_to_be_asked(tapped: Tapped) -> None:
    answer, _ = tapped.ask(f"{ASKED} {PUBLIC}", cloud="always", top_k=2)
    numbers = [(source["side"], source["citation"]) for source in answer["sources"]]
    assert numbers[0] == ("private", 1)
    assert set(numbers) <= {("private", 1), ("public", 3), ("public", 4)}


def test_tokens_are_due_to_passages_in_equal_parts(tapped: Tapped) -> None:
    """Of one row they cannot be told apart."""
    answer, _ = tapped.ask(f"{ASKED} {PUBLIC}", cloud="always", top_k=2, provenance=True)
    public = [n for n, each in enumerate(answer["sources"]) if each["side"] == "public"]
    assert public
    for token in answer["provenance"]:
        assert sum(token["documents"]) == pytest.approx(1.0)
        assert len({round(token["documents"][n], 6) for n in public}) == 1


def test_nothing_private_of_a_conversation_is_in_what_leaves(
    tapped: Tapped, tokenizer: Tokenizer
) -> None:
    """Neither in the conversation nor in the question that the model made of it."""
    private, _ = tapped.ask(ASKED)
    said = f"It is heron-42-lantern. {private['text']}"
    for following in (PUBLIC, "And the capital of Kenya?", "And what of it?"):
        _, sent = tapped.ask(ASKED, private["text"], following, cloud="always", top_k=1)
        _, unknown = tapped.ask(ASKED, said, following, top_k=1)
        asked = [each for each in [*sent, *unknown] if isinstance(each, control.Open)]
        assert asked
        for message in asked:
            left = tokenizer.decode(message.conversation) + message.query
            for word in ("heron", "lantern", "wifi", "cabin", "loft"):
                assert word not in left.lower()


def test_what_the_cloud_was_asked_may_help_to_ask_it_again(
    tapped: Tapped, tokenizer: Tokenizer
) -> None:
    public, _ = tapped.ask(PUBLIC)
    _, sent = tapped.ask(PUBLIC, public["text"], "And how many people live there?", cloud="always")
    (asked,) = [message for message in sent if isinstance(message, control.Open)]
    assert asked.query
    assert PUBLIC in tokenizer.decode(asked.conversation)


def test_a_streamed_answer_is_the_whole_one(tapped: Tapped) -> None:
    ask = Ask(PUBLIC, "oneway", 0.0, model="dragon-7m")
    (whole,) = ask_all(tapped.device, [ask])
    assert "".join(pieces(tapped.device, ask.body())) == whole.text


def test_losing_the_cloud_and_stopping(tapped: Tapped) -> None:
    free = tapped.device.metric("dragon_free_slots")
    with chat(tapped.device) as talk:
        talk.ask(PUBLIC, max_tokens=200, seed=3, temperature=1.0, cloud="always")
        talk.until(lambda event: event["type"] == "peer" and event["joint"])
        tapped.tap.cut()
        assert talk.done()["finish_reason"] in ("stop", "length")
    services.wait_joint(tapped.device)
    body = Ask(PUBLIC, "oneway", 1.0, tokens=300, model="dragon-7m").body()
    for _ in pieces(tapped.device, body):
        break
    eventually(lambda: tapped.device.metric("dragon_answers_in_progress") == 0)
    assert tapped.device.metric("dragon_free_slots") == free


def pieces(device: Service, body: dict[str, Any]) -> Iterator[str]:
    """The text of a stream, piece by piece."""
    for chunk in chunks(device, "/v1/chat/completions", body):
        for choice in chunk["choices"]:
            if content := choice["delta"].get("content"):
                yield content


@pytest.fixture(scope="module")
def citing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A device alone, whose model says nothing of quotes and knows an answer by heart."""
    folder = tmp_path_factory.mktemp("citing")
    model = memorised.save(folder / "model", KNOWN)
    setup = Setup(folder, {"DRAGON_MODEL": str(model), **services.AS_INSTALLED})
    with services.device(setup, services.free_port()) as device:
        upload(device, "pots.md", "The key of the shed lies under the blue pot.")
        upload(device, "shed.md", "A spare key of the shed hangs in the shed, behind the mower.")
        yield device


def test_citations_are_resolved_to_sources_whole_and_in_pieces(citing: Service) -> None:
    ask = Ask("Where is the key of the shed?", "local", 0.0, tokens=64, model="model")
    whole = posted(citing, ask.path, **ask.body())
    text, dragon = whole["choices"][0]["message"]["content"], whole["dragon"]["choices"][0]
    assert text == KNOWN
    assert [source["citation"] for source in dragon["sources"]] == [1, 2]
    named = [(text[c["start"] : c["end"]], c["source"]) for c in dragon["citations"]]
    assert named == [("1", 0), ("2", 1)]  # there is no third passage

    found: list[dict[str, int]] = []
    last: dict[str, Any] = {}
    for chunk in chunks(citing, ask.path, ask.body()):
        last = chunk.get("dragon") or last
        found += last.get("citations", {}).get("found", []) if "dragon" in chunk else []
    assert found == dragon["citations"] == last["choices"][0]["citations"]


def test_the_page_is_told_of_citations(citing: Service) -> None:
    with chat(citing) as talk:
        talk.ask("Where is the key of the shed?", temperature=0.0, mode="local")
        talk.done()
    found = [event for event in talk.events if event["type"] == "sources"]
    assert [source["citation"] for source in found[-1]["sources"]] == [1, 2]
