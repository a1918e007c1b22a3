"""Where the services are that `tests.conformance.serve` has started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

# Else it fetches a list of prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
MODEL, EMBEDDER = "dragon-7m", "all-MiniLM-L6-v2"
WRITER = "SmolLM2-135M-Instruct.Q4_1"
QUESTION, ANSWER = "What is the currency of Vietnam?", "dong"  # of the peer's demo corpus


@dataclass(frozen=True)
class Service:
    """A running device."""

    url: str
    key: str

    @property
    def api(self) -> str:
        return f"{self.url}/v1"


@pytest.fixture(scope="session")
def device() -> Service:
    """A device whose peer takes part."""
    return Service(os.environ["DRAGON_URL"], os.environ["DRAGON_KEY"])


@pytest.fixture(scope="session")
def local() -> Service:
    """A device alone, in `local` mode."""
    return Service(os.environ["DRAGON_LOCAL_URL"], os.environ["DRAGON_KEY"])


@pytest.fixture(scope="session")
def with_tools() -> Service:
    """A device alone, whose model `model` calls functions."""
    return Service(os.environ["DRAGON_TOOLS_URL"], os.environ["DRAGON_KEY"])


@pytest.fixture(scope="session")
def writer() -> Service:
    """A device alone, with the built-in model that writes."""
    return Service(os.environ["DRAGON_WRITER_URL"], os.environ["DRAGON_KEY"])


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "ravello.txt"
    path.write_text("The key safe code is 7731-M and it hangs left of the door.\n")
    return path
