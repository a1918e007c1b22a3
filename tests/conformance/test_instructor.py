"""`instructor`: replies of a type, by tools and by a schema."""

from __future__ import annotations

import instructor
import openai
import pytest
from pydantic import BaseModel

from tests.conformance.conftest import Service

ASK = {"model": "model", "temperature": 0, "max_tokens": 200, "max_retries": 0}


class Place(BaseModel):
    """Where something is."""

    room: str
    shelf: int


@pytest.mark.parametrize(
    "mode", [instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA]
)
@pytest.mark.parametrize("stream", [False, True])
def test_keeps_to_a_type(mode: instructor.Mode, stream: bool, with_tools: Service) -> None:
    stock = openai.OpenAI(base_url=with_tools.api, api_key=with_tools.key, max_retries=0)
    client = instructor.from_openai(stock, mode=mode)
    messages = [{"role": "user", "content": "Where is the key?"}]
    if stream:
        *_, found = client.create_partial(response_model=Place, messages=messages, **ASK)
        found = Place.model_validate(found.model_dump())
    else:
        found = client.create(response_model=Place, messages=messages, **ASK)
    assert isinstance(found, Place)
