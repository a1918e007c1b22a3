"""`dspy`, told a format: it does not know that this model's answers are held to one."""

from __future__ import annotations

from typing import Any, Literal

import dspy
from pydantic import BaseModel

from tests.conformance.conftest import ANSWER, MODEL, QUESTION, WRITER, Service


class Found(BaseModel):
    """The fields that are predicted."""

    room: Literal["hall", "attic"]


def model(service: Service, name: str, **more: Any) -> dspy.LM:
    return dspy.LM(
        f"openai/{name}",
        api_base=service.api,
        api_key=service.key,
        temperature=0,
        max_tokens=200,
        cache=False,
        num_retries=0,
        **more,
    )


def test_asks(device: Service) -> None:
    (reply,) = model(device, MODEL)(QUESTION)
    assert ANSWER in str(reply)


def test_predicts(writer: Service) -> None:
    schema = {"name": "found", "schema": Found.model_json_schema()}
    lm = model(writer, WRITER, response_format={"type": "json_schema", "json_schema": schema})
    signature = dspy.Signature("question -> room: Literal['hall', 'attic']")
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        found = dspy.Predict(signature)(question="The key hangs in the attic. Where is it?")
    assert found.room in ("hall", "attic")
