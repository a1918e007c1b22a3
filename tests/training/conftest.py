"""A little prose to draw examples from."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer

from dragon.models import EMBEDDED_MODEL
from training.data.prose import ProseSource
from training.data.sources import SCHEMAS
from training.data.synonyms import Synonyms

PARAGRAPHS = [
    f"The {colour} barge of the {place} ferrymen was launched in {1700 + i} after a long quarrel. "
    f"Its master, Obadiah {place}, kept a journal of every crossing. The {place} ferrymen sold "
    "it when the bridge was opened, and nobody regretted that."
    for i, (colour, place) in enumerate(
        (colour, place)
        for colour in ("green", "grey", "black", "white", "yellow")
        for place in ("Thornley", "Askham", "Morland", "Cressing", "Ulverby")
    )
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(EMBEDDED_MODEL / "tokenizer.json"))


@pytest.fixture(scope="module")
def prose(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> ProseSource:
    data = tmp_path_factory.mktemp("data")
    question = {"context": PARAGRAPHS[0], "question": "Who kept a journal?", "answer": "Obadiah"}
    (data / "grounded_qa_train.jsonl").write_text(json.dumps(question) + "\n")
    words = {"noun": ["barge", "bridge", "journal"], "adjx": ["green", "long"]}
    kept = {"articles": PARAGRAPHS * 2, "books": PARAGRAPHS * 2, **words}
    (data / "prose.json").write_text(json.dumps(kept))
    prose = ProseSource(data, data / "prose.json", Synonyms(SCHEMAS / "synonyms.txt"))
    prose.use_vocabulary(tokenizer.get_vocab())
    return prose
