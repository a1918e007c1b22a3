"""The choices of a call: which share a prompt, which are kept, and what the response says of them.

Covers `app.api.openai.replies`.
"""

from __future__ import annotations

from app.api.openai.delivery import best, choices_of
from app.api.openai.replies import dragon_reply
from app.api.openai.schemas import DragonOptions
from app.generation.events import Detailed, Finished, GenerationRequest, SourcesFound, TokenDetail
from dragon.sampling.params import Sampling
from tests.fakes import SOURCE

REQUESTS = [GenerationRequest((1,), "x", Sampling(seed=7), id=f"answer-{n}") for n in range(6)]
LOGPROBS = (-1.0, -0.5, -2.0, -0.25, -3.0, -0.5)


def test_choices_of_a_prompt_share_its_first() -> None:
    choices = choices_of(REQUESTS, 2)
    assert [choice.index for choice in choices] == list(range(6))
    firsts = [choices[0].answer] * 3 + [choices[3].answer] * 3
    assert all(choice.first is first for choice, first in zip(choices, firsts, strict=True))


def test_the_likeliest_of_each_prompt_are_kept_and_numbered_anew() -> None:
    choices = choices_of(REQUESTS, 2)
    for choice, logprob in zip(choices, LOGPROBS, strict=True):
        choice.answer.take(Detailed((TokenDetail(0, 5, "a", 0, 1, logprob),)))
    assert best(choices, 2, 3) == choices
    kept = best(choices, 2, 2)
    assert [choice.index for choice in kept] == [0, 1, 2, 3]
    ids = [choice.answer.request.id for choice in kept]
    assert ids == ["answer-1", "answer-0", "answer-3", "answer-5"]
    assert kept[2].first is choices[3].answer


def test_sources_found_after_a_token_had_no_share_in_it() -> None:
    (choice,) = choices_of(REQUESTS[:1], 1)
    detail = TokenDetail(0, 5, "a", 0, 1, -0.5, (), 0.75, (0.25,), 0.125)
    for event in (
        SourcesFound((SOURCE,)),
        Detailed((detail,)),
        SourcesFound((SOURCE, SOURCE), unread_documents=2),
        Finished("stop", 1, 1, stats={"document_tokens": 7.0}),
    ):
        choice.answer.take(event)
    options = DragonOptions(provenance=True)
    reply = dragon_reply([choice], options)
    assert reply is not None
    (said,) = reply.choices
    assert (reply.seed, reply.usage, said.unread_documents) == (7, {"document_tokens": 7}, 2)
    assert said.provenance is not None
    assert said.provenance[0].documents == [0.25, 0.0]
    again = dragon_reply([choice], options, in_stream=True)
    assert again is not None
    assert again.choices[0].provenance is None
