"""Other libraries, run in an environment of their own, which `make rivals` creates.

A module of `bench.rivals` reads a `Task` as JSON and prints the replies as the last line, so both
ends of this pipe are here, and import nothing but the standard library.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[2]
PYTHON = _ROOT / ".venv-rivals" / "bin" / "python"


@dataclass(frozen=True)
class Task:
    """Questions about documents, to be answered greedily in at most so many tokens.

    `llm` and `embeddings` are base URLs of OpenAI's API, with the names of their models.
    """

    documents: Sequence[str]
    questions: Sequence[str]
    tokens: int
    llm: str
    model: str
    embeddings: str
    embedder: str
    key: str


def ask(name: str, task: Task, python: Path = PYTHON) -> list[str]:
    """A rival's reply to each question.

    Raises `SystemExit` without its environment, and `CalledProcessError` where it fails.
    """
    if not python.exists():
        raise SystemExit(f"there is no {python.parents[1].name}: `make rivals` creates it")
    done = subprocess.run(
        [python, "-m", f"bench.rivals.{name}"],
        input=json.dumps(asdict(task)),
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        check=True,
    )
    replies: list[str] = json.loads(done.stdout.splitlines()[-1])
    return replies


def serve(answers: Callable[[Task], list[str]]) -> None:
    """Run a rival: the task of standard input, the replies on standard output."""
    print(json.dumps(answers(Task(**json.load(sys.stdin)))))
