"""Thousands of requests made up from `/openapi.json`, against a device whose peer takes part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
from schemathesis import Case

from app.main import create_app
from app.settings import Settings
from tests import schema
from tests.conformance.conftest import Service

pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
EXAMPLES = 2000
API = schema.described(create_app(Settings(_env_file=None)).openapi(), examples=100, coverage=True)


@pytest.fixture(scope="module")
def headers(device: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {device.key}"}


@pytest.fixture(scope="module")
def file(device: Service, headers: dict[str, str]) -> str:
    upload = {"file": ("note.txt", b"The key is under the mat.")}
    identifier: str = httpx.post(
        f"{device.api}/files", files=upload, headers=headers, timeout=60
    ).json()["id"]
    return identifier


@pytest.fixture(scope="module")
def answers() -> Iterator[Counter[int]]:
    counted: Counter[int] = Counter()
    yield counted
    print(f"\n{counted.total()} made-up requests: {dict(sorted(counted.items()))}")


@API.parametrize()
def test_made_up_requests(
    case: Case, device: Service, headers: dict[str, str], file: str, answers: Counter[int]
) -> None:
    schema.fit(case, file)
    reply = case.call(base_url=device.url, headers=headers)
    answers[reply.status_code] += 1
    case.validate_response(reply, checks=schema.CHECKS)


def test_there_were_enough_of_them(answers: Counter[int]) -> None:
    assert answers.total() >= EXAMPLES
