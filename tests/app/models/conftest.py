"""The embedded model behind a server of OpenAI's kind."""

from __future__ import annotations

import pytest

from dragon.inference.choice import ModelChoice
from dragon.models import EMBEDDED_MODEL
from harness.faults.openai_server import Served


@pytest.fixture(scope="package")
def served() -> Served:
    return Served(*ModelChoice(model=str(EMBEDDED_MODEL)).load())
