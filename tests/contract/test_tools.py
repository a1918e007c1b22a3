"""Tools over HTTP with a real model: one that knows its text by heart, and has to call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import openai
import pytest

from harness import services
from harness.services import KEY, Service, Setup
from tests import memorised
from tests.contract.asking import upload
from tests.contract.test_api_docs import examples, run

pytestmark = pytest.mark.services

ASK = [{"role": "user", "content": "Where is the key of the shed?"}]
PARAMETERS = {
    "type": "object",
    "properties": {"room": {"enum": ["hall", "attic"]}, "deep": {"type": "boolean"}},
    "required": ["room"],
    "additionalProperties": False,
}
FUNCTION = {"name": "find_key", "description": "Find a key.", "parameters": PARAMETERS}
TOOLS: list[Any] = [
    {"type": "function", "function": FUNCTION},
    {"type": "function", "function": {"name": "now"}},
]
CALL = '<tool_call>\n{"name": "find_key", "arguments": {"room": "attic"}}\n</tool_call>'
KNOWN = f"Let me look.\n{CALL}"


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A device alone, whose model calls a tool whatever it is asked."""
    folder = tmp_path_factory.mktemp("tools")
    model = memorised.save_calling(folder / "model", KNOWN)
    setup = Setup(folder, {"DRAGON_MODEL": str(model), "DRAGON_CLOUD": "never"})
    with services.device(setup, services.free_port()) as running:
        upload(running, "shed.md", "A spare key of the shed hangs behind the mower.")
        yield running


@pytest.fixture
def stock(device: Service) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{device.url}/v1", api_key=KEY, max_retries=0)


def asked(**more: Any) -> dict[str, Any]:
    return {"model": "model", "messages": ASK, "tools": TOOLS, "temperature": 0, **more}


def test_none_is_text(stock: openai.OpenAI) -> None:
    for more in ({"tool_choice": "none"}, {"tools": openai.omit}):
        choice = stock.chat.completions.create(**asked(**more)).choices[0]
        assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None)
        assert choice.message.content == KNOWN


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"tool_choice": "required"}, {"find_key", "now"}),
        ({"tool_choice": "required", "parallel_tool_calls": False}, {"find_key", "now"}),
        ({"tool_choice": {"type": "function", "function": {"name": "now"}}}, {"now"}),
    ],
)
def test_what_has_to_be_called_is_called_by_its_schema(
    stock: openai.OpenAI, more: dict[str, Any], names: set[str], seed: int
) -> None:
    body = asked(seed=seed, **more) | {"temperature": 2}
    choice = stock.chat.completions.create(**body).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    calls = choice.message.tool_calls
    assert len(calls) == 1 or (more["tool_choice"] == "required" and len(more) == 1)
    schemas = {"find_key": PARAMETERS, "now": {"maxProperties": 0}}
    for call in calls:
        assert call.function.name in names
        jsonschema.validate(json.loads(call.function.arguments), schemas[call.function.name])


def test_the_example_of_responses(device: Service) -> None:
    (example,) = examples("Tools in responses", printed='find_key{"room":"..."}...')
    run([example], device)
