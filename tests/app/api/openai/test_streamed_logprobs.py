"""Log-probabilities in the chunk of the text that they are of, and usage in each chunk."""

from __future__ import annotations

import httpx

from app.api.openai.logprobs import Pairing
from app.generation.events import Detailed, TextDelta, TokenDetail
from tests.app.api.openai.test_reasoning import events
from tests.app.api.test_bad_input import ASK, CHAT, CONTINUE, TEXT
from tests.fakes import FakeGeneration


async def test_each_chunk_of_a_chat_has_those_of_its_text(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    reply = await client.post(CHAT, json=ASK | {"stream": True, "logprobs": True})
    said = [chunk["choices"][0] for chunk in events(reply.text)]
    written = [choice for choice in said if choice["delta"].get("content")]
    assert "".join(choice["delta"]["content"] for choice in written) == generation.script
    for choice in written:
        (score,) = choice["logprobs"]["content"]
        assert score["token"] == choice["delta"]["content"]


async def test_each_chunk_of_a_completion_has_those_of_its_text(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    ids = {"return_tokens_as_token_ids": True}
    reply = await client.post(TEXT, json=CONTINUE | {"stream": True, "logprobs": 0} | ids)
    written = [c["choices"][0] for c in events(reply.text) if c["choices"][0]["text"]]
    assert "".join(choice["text"] for choice in written) == generation.script
    names = [choice["logprobs"]["tokens"] for choice in written]
    tokens = generation.tokenizer.encode(generation.script)
    assert names == [[f"token_id:{token}"] for token in tokens]


def test_text_waits_for_all_of_its_tokens() -> None:
    pairing = Pairing()
    details = [TokenDetail(n, n, "x", n, n + 1, -1.0) for n in range(4)]
    assert not list(pairing.take(TextDelta("ab", (0, 1))))
    assert not list(pairing.take(Detailed((details[0],))))
    assert not list(pairing.take(TextDelta("c", (2,))))
    found = list(pairing.take(Detailed((details[1], details[2]))))
    assert [(piece.text, [d.token for d in of]) for piece, of in found] == [
        ("ab", [0, 1]),
        ("c", [2]),
    ]
    assert not list(pairing.take(TextDelta("d", (3,))))
    assert [(piece.text, of) for piece, of in pairing.rest()] == [("d", [])]


async def test_usage_in_each_chunk(client: httpx.AsyncClient, generation: FakeGeneration) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    for path, asked in ((CHAT, ASK), (TEXT, CONTINUE)):
        reply = await client.post(path, json=asked | {"stream": True, "stream_options": options})
        used = [chunk["usage"] for chunk in events(reply.text)]
        counts = [usage["completion_tokens"] for usage in used]
        assert counts == sorted(counts)
        assert counts[-1] == len(generation.tokenizer.encode(generation.script))
        assert {usage["prompt_tokens"] for usage in used} == {used[0]["prompt_tokens"]}


async def test_what_ends_a_text_is_part_of_it_where_that_is_asked_for(
    client: httpx.AsyncClient, generation: FakeGeneration
) -> None:
    under = generation.tokenizer.encode(generation.script)[2]
    before = generation.tokenizer.decode(generation.tokenizer.encode(generation.script)[:2])
    for asked, text in (
        ({"stop": "under"}, "The key is "),
        ({"stop": "under", "include_stop_str_in_output": True}, "The key is under"),
        ({"stop_token_ids": [under]}, before),
    ):
        choice = (await client.post(TEXT, json=CONTINUE | asked)).json()["choices"][0]
        assert (choice["text"], choice["finish_reason"]) == (text, "stop")
