"""`lm-evaluation-harness`: the device scores as `transformers` does on the same weights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.models import SMALL_MODEL
from tests.conformance.conftest import MODEL, WRITER, Service

HERE = Path(__file__).resolve().parent

Scores = list[list[tuple[float, bool]]]


@pytest.fixture(scope="module", autouse=True)
def _offline(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["HF_HOME"] = str(tmp_path_factory.mktemp("hub"))
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"


def evaluated(
    model: str, arguments: dict[str, Any], limit: int | None = None
) -> tuple[dict[str, float], Scores]:
    """The task's metrics, and of every choice of every question log-likelihood and greediness."""
    from lm_eval import simple_evaluate

    task = yaml.safe_load((HERE / "choices.yaml").read_text())
    task["dataset_kwargs"] = {"data_files": str(HERE / "choices.jsonl")}
    done = simple_evaluate(
        model=model, model_args=arguments, tasks=[task], bootstrap_iters=0, limit=limit
    )
    samples = sorted(done["samples"]["choices"], key=lambda sample: sample["doc_id"])
    scores = [[(float(a), bool(b)) for a, b in sample["filtered_resps"]] for sample in samples]
    metrics = done["results"]["choices"]
    return {name: metrics[f"{name},none"] for name in ("acc", "acc_norm")}, scores


@pytest.fixture(scope="module")
def reference() -> tuple[dict[str, float], Scores]:
    return evaluated("hf", {"pretrained": str(SMALL_MODEL), "dtype": "float32", "device": "cpu"})


@pytest.mark.parametrize("tokenized", [True, False])
@pytest.mark.parametrize("batch", [1, 4])
def test_local_completions(
    local: Service,
    reference: tuple[dict[str, float], Scores],
    monkeypatch: pytest.MonkeyPatch,
    tokenized: bool,
    batch: int,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", local.key)
    metrics, scores = evaluated(
        "local-completions",
        {
            "model": MODEL,
            "base_url": f"{local.api}/completions",
            "tokenizer": str(SMALL_MODEL),
            "tokenizer_backend": "huggingface",
            "tokenized_requests": tokenized,
            "batch_size": batch,
            "max_length": 2048,
        },
    )
    expected_metrics, expected = reference
    assert [len(choices) for choices in scores] == [len(choices) for choices in expected]
    for ours, theirs in zip(scores, expected, strict=True):
        for (likelihood, greedy), (expected_likelihood, expected_greedy) in zip(
            ours, theirs, strict=True
        ):
            assert likelihood == pytest.approx(expected_likelihood, abs=1e-3)
            assert greedy == expected_greedy
    assert metrics == expected_metrics


def test_the_built_in_model(
    writer: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has an adapter on its weights, so that there is no reference: token ids score as text."""
    from transformers import AutoTokenizer

    file = Path(os.environ["DRAGON_WRITER_FILE"])
    AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).save_pretrained(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", writer.key)
    served = {
        "model": WRITER,
        "base_url": f"{writer.api}/completions",
        "tokenizer": str(tmp_path),
        "tokenizer_backend": "huggingface",
        "batch_size": 1,
        "max_length": 2048,
    }
    (_, ids), (_, texts) = (
        evaluated("local-completions", served | {"tokenized_requests": each}, limit=3)
        for each in (True, False)
    )
    assert [len(choices) for choices in ids] == [3, 4, 4]
    for of_ids, of_texts in zip(ids, texts, strict=True):
        for (likelihood, greedy), (other, likeliest) in zip(of_ids, of_texts, strict=True):
            assert likelihood == pytest.approx(other, abs=1e-3)
            assert likelihood < 0
            assert greedy == likeliest
