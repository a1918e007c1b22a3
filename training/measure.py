"""Measure an exported model with stock ``transformers``: greedy replies, gold string in the reply.

``python -m training.measure --model MODEL`` asks the hand-written questions with their
document and without one (the closed-book score, which should be near zero).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

VALIDATION = Path(__file__).parent / "reranker" / "validation.jsonl"


@dataclass(frozen=True)
class Question:
    """A document, a question, and a string that a right reply contains."""

    document: str
    question: str
    gold: str


def read_questions(path: Path) -> list[Question]:
    """JSON lines of document, question and gold."""
    return [Question(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


@torch.no_grad()
def reply(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    question: str,
    document: str | None,
    limit: int = 96,
) -> str:
    """The greedy reply to a question."""
    messages = [] if document is None else [{"role": "system", "content": document}]
    messages.append({"role": "user", "content": question})
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    inputs = tokenizer(prompt, return_tensors="pt")
    output = model.generate(
        input_ids=inputs.input_ids, attention_mask=inputs.attention_mask,
        max_new_tokens=limit, do_sample=False,
    )  # fmt: skip
    text = tokenizer.decode(output[0, inputs.input_ids.shape[1] :], skip_special_tokens=True)
    return str(text)


def step_time(model: PreTrainedModel, steps: int = 60) -> float:
    """Milliseconds of one decoding step at a context of about 150 tokens, one row."""
    prompt = torch.randint(5, 8000, (1, 150))
    output = model(prompt, use_cache=True)
    started = time.perf_counter()
    with torch.no_grad():
        for _ in range(steps):
            token = output.logits[:, -1:].argmax(-1)
            output = model(token, past_key_values=output.past_key_values, use_cache=True)
    return 1000 * (time.perf_counter() - started) / steps


def main() -> None:
    """Print the scores and the wrong replies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--questions", type=Path, default=VALIDATION)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    questions = read_questions(args.questions)
    right = closed = 0
    for item in questions:
        text = reply(model, tokenizer, item.question, item.document)
        if item.gold in text:
            right += 1
        else:
            print(f"wrong: {item.question!r} -> {text!r} (gold {item.gold!r})")
        closed += item.gold in reply(model, tokenizer, item.question, None, 32)
    total = len(questions)
    result = {
        "questions": total,
        "gold_in_reply": round(right / total, 4),
        "closed_book": round(closed / total, 4),
        "step_ms": round(step_time(model), 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
