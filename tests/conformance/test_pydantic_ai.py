"""`pydantic-ai`, over chats and over responses."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, UsageLimitExceeded, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from tests.conformance.conftest import ANSWER, MODEL, QUESTION, Service

Kind = type[OpenAIChatModel] | type[OpenAIResponsesModel]
KINDS = pytest.mark.parametrize("kind", [OpenAIChatModel, OpenAIResponsesModel])
SETTINGS = ModelSettings(temperature=0, max_tokens=200)


class Place(BaseModel):
    """Where something is."""

    room: str


def model(kind: Kind, service: Service, name: str) -> OpenAIChatModel | OpenAIResponsesModel:
    return kind(name, provider=OpenAIProvider(base_url=service.api, api_key=service.key))


@KINDS
def test_answers_and_goes_on(kind: Kind, device: Service) -> None:
    agent = Agent(model(kind, device, MODEL), instructions="Be brief.", model_settings=SETTINGS)
    first = agent.run_sync(QUESTION)
    assert ANSWER in first.output
    assert first.usage.output_tokens > 0
    second = agent.run_sync(QUESTION, message_history=first.all_messages())
    assert ANSWER in second.output


@KINDS
def test_streams(kind: Kind, device: Service) -> None:
    async def read() -> list[str]:
        agent = Agent(model(kind, device, MODEL), model_settings=SETTINGS)
        async with agent.run_stream(QUESTION) as running:
            return [piece async for piece in running.stream_text(delta=True, debounce_by=None)]

    pieces = asyncio.run(read())
    assert ANSWER in "".join(pieces)
    assert len(pieces) > 1


@KINDS
def test_calls_functions(kind: Kind, with_tools: Service) -> None:
    made_to = {**SETTINGS, "extra_body": {"tool_choice": "required"}}
    agent = Agent(model(kind, with_tools, "model"), model_settings=made_to)
    asked = []

    @agent.tool_plain
    def get_weather(location: str) -> str:
        """The weather at a location."""
        asked.append(location)
        return "It rains."

    with pytest.raises(UsageLimitExceeded):
        agent.run_sync("What is the weather?", usage_limits=UsageLimits(request_limit=2))
    assert len(asked) == 2


@KINDS
@pytest.mark.parametrize("output", [Place, NativeOutput(Place)], ids=["function", "format"])
def test_keeps_to_a_type(kind: Kind, output: type[Place], with_tools: Service) -> None:
    agent = Agent(model(kind, with_tools, "model"), output_type=output, model_settings=SETTINGS)
    assert isinstance(agent.run_sync("Where is the key?").output, Place)
