"""LangChain's own suite of what a chat model has to do, over `langchain-openai`.

By its properties it is told what is not here: the device reads no pictures, no sound and no files
in a message; nor does this model, which knows one text by heart, write the JSON it is told to.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

from tests.conformance.conftest import Service


@pytest.fixture(scope="module")
def quote(with_tools: Service) -> int:
    """The token of a quotation mark."""
    reply = httpx.post(
        f"{with_tools.url}/tokenize",
        json={"model": "model", "prompt": '"'},
        headers={"Authorization": f"Bearer {with_tools.key}"},
        timeout=60,
    )
    (token,) = reply.json()["tokens"]
    return int(token)


class TestChatModel(ChatModelIntegrationTests):
    """With a model that calls functions and has to keep to their schemas."""

    @pytest.fixture(autouse=True)
    def _told(self, with_tools: Service, quote: int) -> None:
        self.device, self.quote = with_tools, quote

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "model": "model",
            "base_url": self.device.api,
            "api_key": self.device.key,
            "max_retries": 0,
            "temperature": 0,
            "stream_usage": True,
            # Else a string that is not the text it knows may have no end.
            "logit_bias": {self.quote: 6},
        }

    @property
    def model_override_value(self) -> str:
        return "model"

    @property
    def supports_json_mode(self) -> bool:
        return False

    @property
    def supports_image_inputs(self) -> bool:
        return False

    @property
    def supports_image_tool_message(self) -> bool:
        return False

    @property
    def supports_audio_inputs(self) -> bool:
        return False

    @property
    def supports_pdf_inputs(self) -> bool:
        return False

    @property
    def supports_pdf_tool_message(self) -> bool:
        return False

    @property
    def supports_anthropic_inputs(self) -> bool:
        return False
