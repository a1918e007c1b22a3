"""The openai-agents SDK with its default class of models, which speaks `/v1/responses`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agents
import openai
import pytest
from pydantic import BaseModel

from tests.conformance.conftest import ANSWER, MODEL, QUESTION, Service


class Place(BaseModel):
    """Where something is."""

    room: str


def find_key(room: str) -> str:
    """Look for the key in a room."""
    return f"It hangs on a hook in the {room}."


@pytest.fixture(scope="module")
def agent(device: Service, with_tools: Service) -> Callable[..., agents.Agent]:
    agents.set_tracing_disabled(disabled=True)

    def made(model: str = MODEL, **more: Any) -> agents.Agent:
        service = device if model == MODEL else with_tools
        client = openai.AsyncOpenAI(base_url=service.api, api_key=service.key, max_retries=0)
        told = agents.OpenAIResponsesModel(model, client)
        return agents.Agent(name="Ada", instructions="Be brief.", model=told, **more)

    return made


def test_answers(agent: Callable[..., agents.Agent]) -> None:
    found = agents.Runner.run_sync(agent(), QUESTION)
    assert ANSWER in found.final_output
    history = [*found.to_input_list(), {"role": "user", "content": QUESTION}]
    assert ANSWER in agents.Runner.run_sync(agent(), history).final_output


async def read(agent: agents.Agent, question: str) -> tuple[list[str], Any]:
    running = agents.Runner.run_streamed(agent, question)
    kinds = [event.data.type async for event in running.stream_events() if hasattr(event, "data")]
    return kinds, running.final_output


def test_streams(agent: Callable[..., agents.Agent]) -> None:
    kinds, output = asyncio.run(read(agent(), QUESTION))
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert ANSWER in output


def test_searches_files(agent: Callable[..., agents.Agent], device: Service, note: Path) -> None:
    stock = openai.OpenAI(base_url=device.api, api_key=device.key)
    store = stock.vector_stores.create(name="flat")
    kept = stock.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=note)
    search = agents.FileSearchTool(vector_store_ids=[store.id], include_search_results=True)
    found = agents.Runner.run_sync(agent(tools=[search]), "What is the code of the key safe?")
    assert "7731-M" in found.final_output
    stock.vector_stores.delete(store.id)
    stock.files.delete(kept.id)


def test_calls_functions(agent: Callable[..., agents.Agent]) -> None:
    settings = agents.ModelSettings(tool_choice="required", temperature=0)
    made = agent(
        "model",
        tools=[agents.function_tool(find_key)],
        model_settings=settings,
        tool_use_behavior="stop_on_first_tool",
    )
    found = agents.Runner.run_sync(made, "Where is the key?")
    (call,) = [item for item in found.raw_responses[0].output if item.type == "function_call"][:1]
    assert call.name == "find_key"
    assert found.final_output.endswith(f"hook in the {json.loads(call.arguments)['room']}.")


def test_keeps_to_a_type(agent: Callable[..., agents.Agent]) -> None:
    settings = agents.ModelSettings(temperature=0, max_tokens=200)
    found = agents.Runner.run_sync(
        agent("model", output_type=Place, model_settings=settings), "Where is the key?"
    )
    assert isinstance(found.final_output, Place)
