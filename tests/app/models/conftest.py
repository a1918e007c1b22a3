"""The embedded model behind a server of OpenAI's kind."""

from __future__ import annotations

import pytest

from dragon.inference.choice import ModelChoice
from harness.faults.openai_server import Served
from harness.models import SMALL_MODEL


@pytest.fixture(scope="package")
def served() -> Served:
    return Served(*ModelChoice(model=str(SMALL_MODEL)).load())
