"""What these tests share: a network of their own, and the README's first session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.services import ROOT
from tests.image.containers import Container, remove_all


@pytest.fixture(scope="session", autouse=True)
def _alone_in_a_network() -> Iterator[None]:
    """The ports of the compose files are taken as they are: nothing else may have them."""
    interfaces = Path("/proc/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in interfaces] == ["lo"], "run by `make image-test`"
    yield
    remove_all()


@pytest.fixture(scope="session")
def session() -> list[tuple[str, str]]:
    """The commands of the README's first session, each with what it prints."""
    _, _, after = (ROOT / "README.md").read_text().partition("## A first session\n")
    block = after.split("```")[1]
    found = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert found
    # In an image there is no environment beside the program.
    return [(command.replace(".venv/bin/", ""), printed) for command, printed in found]


def hold(device: Container, session: list[tuple[str, str]]) -> None:
    """Have a first session with a device, word for word."""
    for command, printed in session:
        done = device.call("sh", "-c", f"cd /tmp && {command}")
        assert (done.returncode, done.stdout) == (0, printed), done.stderr
