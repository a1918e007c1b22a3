"""The ledger's words against the wire, over real chats: regenerated answers, edits, losses.

`DRAGON_TEST_CHATS` sets how many chats are held.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dragon.inference.tokenizer import Tokenizer
from dragon.link import control, registry
from dragon.protocol.messages import Correction, Join
from harness import services, two_sided
from harness.models import SMALL_MODEL
from harness.services import Floor, Setup
from harness.two_sided import Question
from tests.contract.asking import chunks
from tests.contract.tapped import Tapped, message_of, tapped_pair

pytestmark = pytest.mark.services

CHATS = int(os.environ.get("DRAGON_TEST_CHATS", "9"))
LINK = ("hello", "ping", "pong", "probe", "draining")  # messages that belong to no answer


@dataclass(frozen=True)
class Chatting(Tapped):
    tokenizer: Tokenizer
    questions: Sequence[Question]

    def chat(
        self, messages: Sequence[dict[str, str]], chance: random.Random, *, lose: bool
    ) -> tuple[str, dict[str, Any], list[tuple[registry.Message, str]]]:
        """The answer's text, what the ledger says of it, and what left with what it decodes to.

        With `lose` the connection is cut once the answer has begun.
        """
        dragon = {"cloud": chance.choice(["when_needed", "always", "always"])}
        body = {
            "model": SMALL_MODEL.name,
            "messages": messages,
            "temperature": chance.choice([0.0, 0.7, 1.5]),
            "seed": chance.randrange(1000),
            "max_tokens": 40,
            "dragon": dragon,
        }
        before = len(self.tap.sent)
        text, answer = "", dict[str, Any]()
        for chunk in chunks(self.device, "/v1/chat/completions", body):
            for choice in chunk["choices"]:
                text += choice["delta"].get("content") or ""
            if lose and text:
                self.tap.cut()
                lose = False
            for choice in (chunk.get("dragon") or {}).get("choices") or ():
                answer = choice
        services.wait_joint(self.device)
        self.tap.settle()
        sent = list(map(message_of, self.tap.sent[before:]))
        return text, self.ledger(answer), [(message, self.words(message)) for message in sent]

    def words(self, message: registry.Message) -> str:
        """What a message holds of an answer."""
        match message:
            case Correction():
                return self.tokenizer.decode(message.tokens).strip()
            case Join():
                return self.tokenizer.decode(message.tail).strip()
            case control.Open():
                return self.tokenizer.decode(message.committed).strip()
        return ""


@pytest.fixture(scope="module")
def chatting(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chatting]:
    questions = two_sided.spread(two_sided.read(two_sided.QUESTIONS), 20)
    # Slow enough for a connection to be cut in mid-answer.
    setup = Setup(tmp_path_factory.mktemp("chats"), services.AS_INSTALLED, Floor(5), Floor(5))
    with tapped_pair(setup, corpus) as pair:
        two_sided.upload_notes(pair.device, questions)
        yield Chatting(pair.device, pair.tap, Tokenizer.load(SMALL_MODEL), questions)


def test_the_ledger_says_what_was_on_the_wire(chatting: Chatting) -> None:
    seen: set[str] = set()
    for number in range(CHATS):
        chance = random.Random(number)
        messages: list[dict[str, str]] = []
        for turn in range(3):
            if turn == 2:
                match number % 3:
                    case 0:  # the last answer again
                        del messages[-2:]
                    case 1:  # another first question
                        messages[0] = {"role": "user", "content": "Which notes do I have?"}
            question = chance.choice(chatting.questions).text
            messages.append({"role": "user", "content": question})
            lose = chance.random() < 0.2
            text, ledger, sent = chatting.chat(messages, chance, lose=lose)
            messages.append({"role": "assistant", "content": text})
            seen |= compare(text, ledger, sent, lost=lose)
    assert {"nothing", "question", "words"} <= seen


def compare(
    text: str, ledger: dict[str, Any], sent: Sequence[tuple[registry.Message, str]], *, lost: bool
) -> set[str]:
    """Both say the same of an answer; what there was of each kind.

    Of a connection that was lost the ledger may say more: what was queued never went.
    """
    of_answer = [(m, words) for m, words in sent if registry.name_of(m) not in LINK]
    asked = any(isinstance(m, control.Open) for m, _ in of_answer)
    assert len(ledger["frames"]) == len(of_answer) or (
        lost and len(ledger["frames"]) > len(of_answer)
    )
    runs = [words for _, words in of_answer if words]
    # All that was sent is said, and all that is said was sent.
    assert all(any(run in said for said in ledger["words"]) for run in runs)
    queries = [m.query for m, _ in of_answer if isinstance(m, control.Open)]
    together = "".join("".join(runs).split())
    assert lost or all(
        "".join(said.split()) in together or any(said in query for query in queries)
        for said in ledger["words"]
    )
    # A further search takes words along: of the question, or said.
    known = " ".join([*ledger["words"], *queries[:1]]).lower()
    later = {word.strip("?!.,;") for query in queries[1:] for word in query.lower().split()}
    assert all(word in known for word in later)
    # And all of it stands in the answer.
    assert all(run in text for run in runs)
    if not asked:
        assert of_answer == []
        assert ledger["left"] == "Nothing left this device"
        return {"nothing"}
    # So does what it was asked with: every turn of it but those of which it has a mark alone.
    given = {part["text"] for part in ledger["given"]}
    first = next(m for m, _ in of_answer if isinstance(m, control.Open))
    assert first.query in given
    assert ledger["left"].startswith("Your question")
    if not ledger["words"]:
        return {"question"}
    assert " and these words: " in ledger["left"]
    return {"words"}
