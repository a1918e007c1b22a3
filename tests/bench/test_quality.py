"""The measures of quality: on replies made up, and on models of every architecture."""

from __future__ import annotations

import json
import lzma
import math
import random
from pathlib import Path

import pytest

from bench.experiments import quality
from bench.lib import squad
from bench.lib.alone import Alone
from bench.lib.rare_strings import rare_strings
from bench.lib.squad import Asked
from tests import tiny

PARAGRAPHS = [
    f"The lighthouse of {name} was built in {year}. Its keeper, {keeper}, walked up every night. "
    f"The lamp of {name} burned {oil} until the harbour was closed."
    for name, year, keeper, oil in (
        ("Skarholm", 1811, "Ane Brekke", "train oil"),
        ("Vardoya", 1849, "Per Lund", "rapeseed oil"),
        ("Torsker", 1873, "Ola Myhre", "paraffin"),
        ("Kvitsund", 1902, "Liv Aas", "acetylene"),
    )
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as the experiments want them, with text of our own."""
    folder = tmp_path_factory.mktemp("data")
    rows = [
        {"title": "Lights", "context": text, "question": question, "answers": answers,
         "unanswerable": not answers}
        for text, answer in zip(PARAGRAPHS, ("1811", "1849", "1873", "1902"), strict=True)
        for question, answers in (
            (f"When was the lighthouse built {text[18:26]}?", [answer]),
            (f"Who painted the lighthouse {text[18:26]}?", []),
        )
    ]  # fmt: skip
    lines = [json.dumps(row) for row in rows]
    (folder / "squad2_dev_open.jsonl").write_text("\n".join(lines))
    prompt = {"instruction": "Write a poem.", "instances": [{"input": "The sea"}]}
    (folder / "prompts.jsonl").write_text(f"{json.dumps(prompt)}\n" * 2)
    (folder / "wikitext-2").mkdir()
    text = "\n".join(random.Random(i).choice(PARAGRAPHS) * 3 for i in range(30))
    with lzma.open(folder / "wikitext-2" / "train.txt.xz", "wt") as file:
        file.write(text)
    (folder / "wikitext-2" / "valid.txt").write_text(text[:4000])
    return folder


def options(data: Path, model: Path) -> list[str]:
    return ["--data", str(data), "--model", str(model), "--questions", "1", "--squad", "1",
            "--copies", "1", "--loops", "3", "--loop-tokens", "8", "--text-windows", "2",
            "--window-tokens", "64", "--tv-prompts", "1", "--windows", "8"]  # fmt: skip


def test_four_words_more_than_four_times_are_a_loop() -> None:
    assert not quality.loops([1, 2, 3])
    assert not quality.loops([1, 2, 3, 4] * 4)
    assert quality.loops([1, 2, 3, 4] * 5)
    assert quality.loops([9, 8, *[7] * 8])


def test_noise_is_of_many_kinds() -> None:
    texts = quality.noise(60)
    assert len(texts) == 60
    assert all(text.strip() for text in texts)
    assert len(set(texts)) > 50


def test_declining_and_quoting_are_told_apart() -> None:
    assert squad.declines("I could not find that in the documents.")
    assert squad.declines("I found no direct answer.")
    assert squad.declines("The text does not mention who painted it.")
    assert not squad.declines("Its keeper, Per Lund, walked up every night.")
    assert squad.quotes("I think its keeper Per Lund walked up.", PARAGRAPHS)
    assert not squad.quotes("A lighthouse stood there.", PARAGRAPHS)


def test_the_open_half_keeps_kinds_apart(data: Path) -> None:
    asked = squad.read(data / "squad2_dev_open.jsonl")
    half = squad.open_half(asked, 3)
    assert all(one.answers and one.context in half.paragraphs for one in half.answerable)
    assert all(not one.answers and one.context in half.paragraphs for one in half.unanswerable)
    assert all(one.context not in half.paragraphs for one in half.elsewhere)
    for one, three in squad.among_three(asked, 4):
        assert one.answered_by(three)


def test_an_answer_counts_in_any_case() -> None:
    asked = Asked("Where?", ("Skarholm",), PARAGRAPHS[0])
    assert asked.answered_by("at SKARHOLM, I think")
    assert not Asked("Who?", (), PARAGRAPHS[0]).answered_by("anything")


def test_rare_strings_stand_in_their_statement_only() -> None:
    made = rare_strings(500)
    assert len({rare.string for rare in made}) > 450
    for rare in made:
        assert rare.string in rare.text
        assert rare.string not in rare.question


def test_a_model_is_measured(data: Path, tmp_path: Path) -> None:
    model = tiny.save(tmp_path)
    given = quality.parser().parse_args(options(data, model))
    found = [
        *quality.alone_measures(given, Alone.load(model)),
        *quality.distribution_measures(given),
    ]
    values = {measure.measure: measure.value for measure in found}
    assert values["rare strings copied exactly"] == 0  # it has learnt nothing
    # As good as guessing among the vocabulary, or worse: it is sure of itself without reason.
    assert (values["perplexity: none"] or 0) > tiny.VOCABULARY / 4
    assert all(m.value is None or math.isfinite(m.value) for m in found)
    assert 0 <= (values["TV(full, wire): prompts"] or 0) <= 1
