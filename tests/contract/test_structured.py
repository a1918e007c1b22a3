"""Replies held to a schema by both sides, whatever runs their models: each one validates.

`DRAGON_TEST_SCHEMAS=1000` tries so many random schemas in each mode, over either backend.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from dragon.inference.tokenizer import Tokenizer
from harness import services
from harness.llama_server import serving
from harness.models import SMALL_MODEL
from harness.services import KEY, Service, Setup
from tests.contract.asking import upload

pytestmark = pytest.mark.services

COUNT = int(os.environ.get("DRAGON_TEST_SCHEMAS", "8"))
TOKENS = 160
AT_ONCE = 4
TORCH, LLAMA, SERVER = "torch", "llama.cpp", "llama-server"
MODEL = SMALL_MODEL.name
ENV = {
    "DRAGON_ANSWERS": "words",
    "DRAGON_FIRST_TOKEN_DEADLINE": "60",
    "DRAGON_TOKENIZER": str(SMALL_MODEL),
}
ASK = [{"role": "user", "content": "Who keeps the lighthouse of Askham?"}]
NAMES = ["name", "age", "tags"]


def fields(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of objects with some of the names, of which some are required."""

    def of(properties: dict[str, Any], required: set[str]) -> dict[str, Any]:
        closed = {"additionalProperties": False, "required": sorted(required & properties.keys())}
        return {"type": "object", "properties": properties, **closed}

    names = st.sampled_from(NAMES)
    return st.builds(of, st.dictionaries(names, inner, max_size=3), st.sets(names))


SCALARS = st.one_of(
    st.fixed_dictionaries({"type": st.just("string"), "maxLength": st.integers(0, 9)}),
    st.fixed_dictionaries({"type": st.just("string"), "pattern": st.just("^[a-z]{2,5}$")}),
    st.fixed_dictionaries(
        {"type": st.just("integer"), "minimum": st.integers(-5, 5), "maximum": st.integers(6, 99)}
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["boolean", "null", "number"])}),
    st.fixed_dictionaries(
        {"enum": st.lists(st.sampled_from(["yes", 1, None, 2.5, "caf\u00e9 \"'\\"]), min_size=1)}
    ),
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        fields(inner),
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner, "maxItems": st.integers(0, 3)}
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def torch_peer(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    model = {"DRAGON_MODEL": str(SMALL_MODEL)}
    with services.peer(Setup(tmp_path_factory.mktemp("torch"), ENV | model), corpus) as peer:
        yield peer


@pytest.fixture(scope="module", params=[TORCH, LLAMA, SERVER])
def device(
    request: pytest.FixtureRequest,
    embedded_gguf: Path,
    corpus: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """A device whose model writes, and a peer with another backend."""
    folder = tmp_path_factory.mktemp("structured")
    with ExitStack() as stack:
        models = {TORCH: str(SMALL_MODEL), LLAMA: str(embedded_gguf)}
        if request.param == SERVER:
            server = serving(embedded_gguf, folder / "log", slots=8)
            models[SERVER] = stack.enter_context(server).url
        if request.param == TORCH:
            theirs = Setup(folder, ENV | {"DRAGON_MODEL": models[LLAMA]})
            peer = stack.enter_context(services.peer(theirs, corpus))
        else:
            peer = request.getfixturevalue("torch_peer")
        own = Setup(folder, ENV | {"DRAGON_MODEL": models[request.param]})
        running = stack.enter_context(services.device(own, peer.port))
        upload(running, "note.txt", "Obadiah Thornley keeps the lighthouse of Askham.")
        services.wait_joint(running)
        yield running


@pytest.fixture(scope="module")
def closing() -> dict[str, float]:
    """A bias towards what ends a text soon: else random words may fill it."""
    tokenizer = Tokenizer.load(SMALL_MODEL)
    marks = {'"', '"}', "}", "]", '", "', '"]'}
    return {str(tokenizer.by_text[each]): 8.0 for each in marks if each in tokenizer.by_text}


def held(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    return {"model": MODEL, "messages": ASK, "response_format": form, **more}


def drawn() -> list[tuple[dict[str, Any], int]]:
    """Schemas, each with a seed."""
    found = []

    @settings(
        max_examples=COUNT,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(SCHEMAS, st.integers(0, 99))
    def keep(schema: dict[str, Any], seed: int) -> None:
        found.append((schema, seed))

    keep()
    return found


@pytest.mark.timeout(60 + 8 * COUNT)
def test_every_reply_validates(device: Service, closing: dict[str, float]) -> None:
    def end(schema: dict[str, Any], seed: int, mode: str) -> str:
        more = {"seed": seed, "temperature": 1, "max_tokens": TOKENS, "logit_bias": closing}
        body = held(schema, dragon={"aggregation": mode}, **more)
        reply = client.post("/v1/chat/completions", json=body)
        if reply.status_code == 400:  # nothing satisfies it
            assert "response_format" in reply.text, reply.text
            return "refused"
        assert reply.status_code == 200, reply.text
        (choice,) = reply.json()["choices"]
        if choice["finish_reason"] == "stop":
            jsonschema.validate(json.loads(choice["message"]["content"]), schema)
        return str(choice["finish_reason"])

    modes = ("oneway", "coupled", "local")
    asked = [(schema, seed, mode) for schema, seed in drawn() for mode in modes]
    with (
        device.client(120) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        ends = Counter(pool.map(lambda each: end(*each), asked))
    print(dict(ends))
    assert ends["stop"] > 0.6 * ends.total()


class Keeper(BaseModel):
    """Who keeps what."""

    name: str
    years: list[int]
    retired: bool | None


def test_the_openai_client_parses(device: Service, closing: dict[str, float]) -> None:
    stock = openai.OpenAI(base_url=f"{device.url}/v1", api_key=KEY, max_retries=0)
    biased = {key: int(value) for key, value in closing.items()}
    reply = stock.chat.completions.parse(
        model=MODEL, messages=ASK, response_format=Keeper, seed=3, logit_bias=biased
    )
    assert isinstance(reply.choices[0].message.parsed, Keeper)
    with stock.chat.completions.stream(
        model=MODEL, messages=ASK, response_format=Keeper, seed=3, logit_bias=biased
    ) as stream:
        stream.until_done()
        assert stream.get_final_completion().choices[0].message.parsed is not None
