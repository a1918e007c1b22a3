"""The comparison of systems: its texts, and libraries run in an environment apart."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.experiments import two_sided
from bench.experiments.two_sided import System
from bench.lib import rivals
from harness.two_sided import Question

TASK = rivals.Task(
    documents=["The key hangs left of the door."],
    questions=["Where is the key?", "Who has it?"],
    tokens=8,
    llm="http://127.0.0.1:1/v1",
    model="writer",
    embeddings="http://127.0.0.1:2/v1",
    embedder="embedder",
    key="sesame",
)


def environment(folder: Path, answer: str) -> Path:
    """A Python that runs one rival whatever module it is to run: one that answers so."""
    python = folder / ".venv-rivals" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f"#!{sys.executable}\n"
        f"import sys; sys.path.insert(0, {str(Path(rivals.__file__).parents[2])!r})\n"
        "from bench.lib.rivals import serve\n"
        "print('a library says something')\n"
        f"serve(lambda task: {answer})\n"
    )
    python.chmod(0o700)
    return python


def test_a_rival_is_given_the_task_and_its_last_line_is_the_replies(tmp_path: Path) -> None:
    python = environment(tmp_path, "[f'{q} {task.documents[0]}' for q in task.questions]")
    assert rivals.ask("any", TASK, python) == [
        "Where is the key? The key hangs left of the door.",
        "Who has it? The key hangs left of the door.",
    ]


def test_without_its_environment_the_command_that_creates_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make rivals"):
        rivals.ask("any", TASK, tmp_path / ".venv-rivals" / "bin" / "python")


def test_the_public_corpus_is_given_as_texts_with_titles() -> None:
    texts = two_sided.public_texts()
    assert texts[0].startswith("# France\n\nFrance is a country in western Europe.")
    assert len(texts) > 1000


def test_a_row_has_the_share_of_right_answers_of_each_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [
        Question("private", "Where is the key?", ("left",), "It hangs left of the door.", "hand"),
        Question("private", "Who has it?", ("Ane",), "Ane has it.", "hand"),
        Question("public", "What is the capital of Kenya?", ("Nairobi",), None, "hand"),
    ]
    said = ["Left of the door.", "Nobody.", "Nairobi."]
    monkeypatch.setattr(two_sided, "answers_of", lambda *_: said)
    rows = two_sided.compare([System.DRAGON, System.TXTAI], questions, tmp_path, "any.gguf")
    assert rows == [
        {"system": system, "private": 0.5, "public": 1.0} for system in ("dragon", "txtai")
    ]


def test_what_nothing_answers_is_right_where_it_is_declined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"question": "Who built it?", "unanswerable": False, "answers": ["Otto"]},
        {"question": "When was it sold?", "unanswerable": True, "answers": ["1066"]},
    ]
    context = "Otto built it in 1066."
    file = tmp_path / "squad.jsonl"
    file.write_text("".join(json.dumps(row | {"context": context}) + "\n" for row in rows))
    questions = two_sided.of_squad(file, 5)
    assert [(q.side, q.note) for q in questions] == [
        ("answerable", context),
        ("unanswerable", context),
    ]
    for said, shares in (
        (["Otto built it.", "I found no direct answer."], (1.0, 1.0)),
        (["I found no direct answer.", "1066"], (0.0, 0.0)),
    ):
        monkeypatch.setattr(two_sided, "answers_of", lambda *_, said=said: said)
        folder = tmp_path / said[0]
        folder.mkdir()
        (row,) = two_sided.compare([System.DRAGON], questions, folder, "any.gguf")
        assert (row["answerable"], row["unanswerable"]) == shares
