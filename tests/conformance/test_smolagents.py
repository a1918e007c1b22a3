"""`smolagents`: an agent that calls functions."""

from __future__ import annotations

from smolagents import ChatMessage, MessageRole, OpenAIServerModel, ToolCallingAgent, tool

from tests.conformance.conftest import ANSWER, MODEL, QUESTION, Service


def model(service: Service, name: str) -> OpenAIServerModel:
    return OpenAIServerModel(name, api_base=service.api, api_key=service.key, temperature=0)


def test_chats(device: Service) -> None:
    ask = [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": QUESTION}])]
    reply = model(device, MODEL).generate(ask)
    assert ANSWER in reply.content
    assert reply.token_usage.output_tokens > 0
    pieces = [piece.content or "" for piece in model(device, MODEL).generate_stream(ask)]
    assert ANSWER in "".join(pieces)


def test_calls_functions(with_tools: Service) -> None:
    asked = []

    @tool
    def get_weather(location: str) -> str:
        """The weather at a location.

        Args:
            location: the place
        """
        asked.append(location)
        return "It rains."

    agent = ToolCallingAgent(
        [get_weather], model(with_tools, "model"), max_steps=1, verbosity_level=0
    )
    agent.run("What is the weather?")
    assert asked
