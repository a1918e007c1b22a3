"""The packaged model gives what sentence-transformers gives, bit for bit, without its import."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import BertModel

from dragon.retrieval.embedder import Bert, Embedder, packaged_directory, read_weights
from tests.samples import embedder

_WORDS = "rain key lock under the Flowerpot Assam tea naïve 東京 running, well; (x) 3.14 étude"


@pytest.fixture(scope="module")
def reference() -> Embedder:
    model = SentenceTransformer(str(packaged_directory()), device="cpu", local_files_only=True)
    return Embedder(model, "reference")


def texts() -> list[str]:
    """Empty ones, short ones, and some over the limit."""
    draw = random.Random(1)
    lengths = [draw.randint(1, 400 if number % 9 == 0 else 30) for number in range(40)]
    return ["", " a\tb\n c ", *(" ".join(draw.choices(_WORDS.split(), k=n)) for n in lengths)]


def test_vectors_equal_the_librarys(reference: Embedder) -> None:
    assert np.array_equal(embedder().embed(texts()), reference.embed(texts()))
    assert (embedder().dim, embedder().max_tokens) == (reference.dim, reference.max_tokens)


def test_vectors_of_tokens_equal_the_librarys(reference: Embedder) -> None:
    rows = [[101, *range(2000, 2000 + length), 102] for length in (1, 7, 40, 254)]
    assert np.array_equal(embedder().embed_tokens(rows), reference.embed_tokens(rows))


def test_a_tokenizer_equal_to_the_librarys(reference: Embedder) -> None:
    assert embedder().tokenizer.fingerprint == reference.tokenizer.fingerprint


def test_states_equal_those_of_transformers_bit_for_bit() -> None:
    directory = packaged_directory()
    reference = BertModel.from_pretrained(str(directory)).eval()
    network = Bert(directory, read_weights(directory))
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(1000, 30000, (4, 70), generator=draw)
    segments = (torch.arange(70) > 20).long().expand(4, 70)
    lengths = torch.tensor([70, 69, 33, 5])
    mask = (torch.arange(70) < lengths[:, None]).long()
    with torch.inference_mode():
        own = network(tokens, mask, segments)
        said = reference(tokens, attention_mask=mask, token_type_ids=segments).last_hidden_state
    assert torch.equal(own, said)


def test_loading_judge_and_embedder_imports_no_trainer_and_no_compiler() -> None:
    code = (
        "import sys; from dragon.retrieval.embedder import Embedder; Embedder.load();"
        "from dragon.retrieval.judge import Judge; Judge.load();"
        "heavy = ('sentence_transformers', 'sklearn', 'scipy', 'sympy', 'torch._dynamo');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
