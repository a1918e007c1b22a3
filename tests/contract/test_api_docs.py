"""The examples of docs/api.md, run as a reader would run them, against a real device and peer."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import services
from harness.services import AS_INSTALLED, KEY, ROOT, Service, Setup
from tests.contract.asking import upload
from tests.scans import fake_tesseract, picture, saved

pytestmark = pytest.mark.services

DOCS = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
NOTE = "Holiday flat in Ravello.\nThe key safe code is 7731-M and it hangs left of the door.\n"
SECTIONS = (
    "Models",
    "Sampling parameters",
    "Structured output",
    "Tools",
    "Responses",
    "Messages",
    "Vector stores",
    "Reranking",
    "Ollama",
    "Assistants",
    "Waiting for the cloud",
    "Folders",
    "Text in pictures",
)
PRINTED = {
    "Folders": "walk.md indexed",
    "Text in pictures": "The alarm code of the boathouse is 4410-B. 72",
}


@dataclass(frozen=True)
class Example:
    """A command, or a program in Python, and what it prints: `...` stands for anything."""

    command: list[str]
    output: str


def examples(section: str, printed: str = "...7731-M...") -> list[Example]:
    """Those of a section, whose programs print this."""
    text = DOCS.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        if language == "python":
            found.append(Example([sys.executable, "-c", block], printed))
        elif not language:
            found += [shell(each) for each in block.split("$ ")[1:]]
    return found


def shell(text: str) -> Example:
    """The command is as many lines as it takes for its quotes to be closed."""
    lines = text.splitlines()
    for count in range(1, len(lines) + 1):
        command = "\n".join(lines[:count])
        try:
            shlex.split(command)
        except ValueError:
            continue
        return Example(["bash", "-c", command], "".join(lines[count:]))
    raise AssertionError(f"a quote is open in {text}")


@pytest.fixture(scope="module")
def device(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    scanned = "words = 'The alarm code of the boathouse is 4410-B.'.split(); confidence = 72"
    programs = fake_tesseract(tmp_path_factory.mktemp("tesseract"), scanned)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    setup = Setup(tmp_path_factory.mktemp("docs"), {**AS_INSTALLED, "PATH": path})
    with services.peer(setup, corpus) as peer, services.device(setup, peer.port) as running:
        upload(running, "ravello.txt", NOTE)
        services.wait_joint(running)
        yield running


@pytest.mark.parametrize("section", SECTIONS)
def test_examples_print_what_they_say(section: str, device: Service, tmp_path: Path) -> None:
    notes, scan = tmp_path / "Notes", tmp_path / "scan.png"
    notes.mkdir()
    (notes / "walk.md").write_text("The walk begins at the chapel.")
    scan.write_bytes(saved(picture("The alarm code"), "PNG"))
    found = examples(section, PRINTED.get(section, "...7731-M..."))
    assert found
    run(found, device, NOTES=str(notes), SCAN=str(scan))


def run(found: Sequence[Example], device: Service, **more: str) -> None:
    """Run examples with more variables, and compare what they print."""
    shown = {"A": f"Authorization: Bearer {KEY}", "J": "Content-Type: application/json"}
    env = {**os.environ, **shown, "KEY": KEY, "B": device.url, **more}
    for example in found:
        done = subprocess.run(
            example.command, env=env, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, (example, done.stderr)
        printed, said = ("".join(each.split()) for each in (done.stdout, example.output))
        pattern = ".*".join(map(re.escape, said.split("...")))
        assert re.fullmatch(pattern, printed), f"{example.command}\n{done.stdout}\n{example.output}"
