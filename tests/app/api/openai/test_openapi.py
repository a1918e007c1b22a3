"""`/openapi.json`, and requests made up from it against the whole service with its real model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest
from schemathesis import Case

from app.api.errors import MESSAGES, OLLAMA
from app.main import create_app
from app.settings import Settings
from tests import schema
from tests.app.conftest import HEADERS, KEY, serving

pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
EXAMPLES = 200
API = schema.described(create_app(Settings(_env_file=None)).openapi(), examples=10, coverage=False)


@dataclass(frozen=True)
class Served:
    """A running device, a file it holds, and what it answered."""

    url: str
    file: str
    answers: Counter[int] = field(default_factory=Counter)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("device")
    settings = Settings(_env_file=None, data_dir=directory, api_key=KEY)
    with serving(create_app(settings)) as address:
        upload = {"file": ("note.txt", b"The key is under the mat.")}
        reply = httpx.post(f"http://{address}/v1/files", files=upload, headers=HEADERS, timeout=60)
        yield Served(f"http://{address}", reply.json()["id"])


@API.parametrize()
def test_made_up_requests(case: Case, served: Served) -> None:
    schema.fit(case, served.file)
    # On a machine with much else to do an answer takes longer than a client's usual ten seconds.
    reply = case.call(base_url=served.url, headers=HEADERS, timeout=60)
    served.answers[reply.status_code] += 1
    case.validate_response(reply, checks=schema.CHECKS)


def test_there_were_enough_of_them(served: Served) -> None:
    assert served.answers.total() >= EXAMPLES
    assert served.answers[200] >= EXAMPLES / 4  # not everything was refused


def test_every_failure_has_the_error_shape() -> None:
    for path, operations in API.raw_schema["paths"].items():
        for operation in operations.values():
            assert "422" not in operation["responses"]
            for status, response in operation["responses"].items():
                if status >= "400" and (path, status) != ("/ready", "503"):
                    schema_of = response["content"]["application/json"]["schema"]
                    shape = "OllamaErrorReply" if path in OLLAMA else "ErrorReply"
                    if path.startswith(MESSAGES):
                        shape = "MessageErrorReply"
                    assert schema_of == {"$ref": f"#/components/schemas/{shape}"}


def test_a_stream_is_declared_with_its_chunks() -> None:
    chat = API.raw_schema["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"]
    assert chat["application/json"]["schema"]["$ref"].endswith("/ChatCompletion")
    data, done = chat["text/event-stream"]["schema"]["properties"]["data"]["anyOf"]
    assert done == {"const": "[DONE]"}
    assert data["contentSchema"]["$ref"].endswith("/ChatCompletionChunk")
    assert "ChunkChoice" in API.raw_schema["components"]["schemas"]


@pytest.mark.parametrize("subject", ["conversations", "projects"])
def test_routes_are_grouped_by_subject(subject: str) -> None:
    paths = API.raw_schema["paths"]
    assert paths[f"/api/{subject}"]["get"]["tags"] == [subject]
