"""Train the judge: `python -m training.judge --data DATA --teacher TEACHER --minutes 240`.

A large encoder (all-mpnet-base-v2) learns from the written questions which line of a passage
answers, or that none does. The packaged all-MiniLM-L6-v2 then learns from the teacher's
distributions on those texts, and on texts that answer no question. Both read a passage as in
`dragon.retrieval.judge`. Resumes from WORK; uses a GPU if there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

from app.generation import everyday
from dragon.retrieval.embedder import read_weights
from dragon.retrieval.judge import (
    NOTES,
    WEIGHTS,
    EncodedPair,
    JudgeNetwork,
    PaddedPairs,
    Pairs,
    outcomes,
)
from training.examples import Example, Source
from training.texts import (
    FOLDER,
    KEPT_APART,
    grounded,
    held_out,
    read_file,
    read_texts,
    strangers,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

ROWS, POOL = (64 if DEVICE == "cuda" else 32), 8
"""Rows of a step, and the number of steps whose rows are sorted by length together."""

RATES = {"teacher": (4e-5, 5e-4), "student": (1.5e-4, 1e-3)}
WARM_UP = 100
LABELLED = 0.3  # weight of the labels relative to the teacher's distribution


@dataclass(frozen=True)
class Drawn:
    """A batch: the rows, which lines answer (float [n, 1 + lines], the first: none), and messages
    with whether they need no document."""

    rows: PaddedPairs
    answers: Tensor
    messages: PaddedPairs
    needless: Tensor


class Draws(IterableDataset[Drawn]):
    """Endless batches, different in each worker."""

    def __init__(
        self, source: Source, messages: Sequence[tuple[EncodedPair, bool]], seed: int
    ) -> None:
        self.source, self.messages, self.seed = source, messages, seed

    def __iter__(self) -> Iterator[Drawn]:
        worker = torch.utils.data.get_worker_info()
        rng = random.Random(f"{self.seed} {worker.id if worker else 0}")
        questions = range(len(self.source.questions))
        needless = [each for each, none in self.messages if none]
        needing = [each for each, none in self.messages if not none]
        while True:
            drawn = [self.source.draw(rng.choice(questions), rng) for _ in range(ROWS * POOL)]
            drawn.sort(key=lambda each: len(each.encoded.tokens))
            batches = [drawn[at : at + ROWS] for at in range(0, len(drawn), ROWS)]
            rng.shuffle(batches)
            for rows in batches:
                asked = [(rng.choice(needless), True) for _ in range(ROWS // 4)]
                asked += [(rng.choice(needing), False) for _ in range(ROWS // 4)]
                yield Drawn(
                    PaddedPairs.of([example.encoded for example in rows], multiple=32),
                    answers_of(rows),
                    PaddedPairs.of([each for each, _ in asked], multiple=16),
                    torch.tensor([float(none) for _, none in asked]),
                )


def answers_of(examples: Sequence[Example]) -> Tensor:
    """Which outcomes are right, float [n, 1 + lines]; several lines of a row may be."""
    lines = 1 + max(max(example.encoded.lines) for example in examples)
    right = torch.zeros(len(examples), 1 + lines)
    for row, example in enumerate(examples):
        for line in example.answers:
            right[row, 1 + line] = 1
        right[row, 0] = float(not example.answers)
    return right


class Student(JudgeNetwork):
    """The packaged MiniLM with new heads, and with dropout; its embeddings stay as they are."""

    def __init__(self, base: Path) -> None:
        config = BertConfig.from_pretrained(str(base))
        super().__init__(BertModel(config, add_pooling_layer=False), config.hidden_size)
        self.encoder.load_state_dict(read_weights(base))
        self.encoder.embeddings.requires_grad_(False)

    def states(self, batch: PaddedPairs) -> Tensor:
        made: Tensor = self.encoder(
            input_ids=batch.tokens, attention_mask=batch.mask, token_type_ids=batch.segments
        ).last_hidden_state
        return made


class Teacher(JudgeNetwork):
    """all-mpnet-base-v2, read with the student's tokens: its vocabulary has the same words."""

    def __init__(self, directory: Path, vocabulary: dict[str, int]) -> None:
        config = MPNetConfig.from_pretrained(str(directory))
        encoder = MPNetModel(config, add_pooling_layer=False)
        encoder.encoder.relative_attention_bias.requires_grad_(False)
        for layer in encoder.encoder.layer:
            layer.attention.attn.forward = partial(_attend, layer.attention.attn)
        super().__init__(encoder, config.hidden_size)
        encoder.load_state_dict(unpacked(load_file(directory / "model.safetensors")), strict=False)
        own = Tokenizer.from_file(str(directory / "tokenizer.json")).get_vocab()
        own |= {"[CLS]": own["<s>"], "[SEP]": own["</s>"], "[PAD]": own["<pad>"]}
        ids = torch.full((len(vocabulary),), own["[UNK]"])
        for word, number in vocabulary.items():
            ids[number] = own.get(word, own["[UNK]"])
        self.register_buffer("ids", ids, persistent=False)

    def states(self, batch: PaddedPairs) -> Tensor:
        ids: Tensor = self.ids
        made: Tensor = self.encoder(
            input_ids=ids[batch.tokens], attention_mask=batch.mask
        ).last_hidden_state
        return made


def _attend(
    attention: nn.Module, states: Tensor, mask: Tensor | None, bias: Tensor, **_: object
) -> tuple[Tensor]:
    """MPNet's attention in one fused operation: that of `transformers` takes most of the time."""
    shape = (*states.shape[:-1], -1, attention.attention_head_size)
    q, k, v = (
        part(states).view(shape).transpose(1, 2) for part in (attention.q, attention.k, attention.v)
    )
    added = bias.to(q.dtype) if mask is None else bias.to(q.dtype) + mask.to(q.dtype)
    dropped = attention.dropout.p if attention.training else 0.0
    made = functional.scaled_dot_product_attention(q, k, v, added, dropped)
    return (attention.o(made.transpose(1, 2).flatten(2)),)


def unpacked(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights in float32, of a file that may store them in 8 bits with a scale per row."""
    made = {}
    for name, weight in weights.items():
        if name.endswith(".q"):
            made[name[:-2]] = weight.float() * weights[name[:-2] + ".s"]
        elif not name.endswith(".s"):
            made[name] = weight.float()
    return made


def loss_of(logits: Tensor, answers: Tensor, said: Tensor | None) -> Tensor:
    """Cross-entropy with the labels, or mostly with the distribution that a teacher `said`."""
    known = outcomes(logits.float())
    right = known.masked_fill(answers == 0, -torch.inf).logsumexp(1)
    if said is None:
        return -right.mean()
    mixed = torch.where(said > 0, said * (said.clamp(min=1e-9).log() - known), 0.0).sum(1)
    return mixed.mean() - LABELLED * right.mean()


def train(
    network: JudgeNetwork,
    kind: str,
    draws: DataLoader[Any],
    minutes: float,
    kept: Path,
    teacher: Teacher | None = None,
) -> None:
    """Train by the clock: the learning rate warms up, stays, and decays to zero at the end."""
    body = [p for n, p in network.named_parameters() if n.startswith("encoder") and p.requires_grad]
    heads = [p for n, p in network.named_parameters() if not n.startswith("encoder")]
    rates = RATES[kind]
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": rates[0]}, {"params": heads, "lr": rates[1]}],
        weight_decay=0.01, betas=(0.9, 0.98),
    )  # fmt: skip
    spent, step = 0.0, 0
    if kept.exists():
        state = torch.load(kept, map_location=DEVICE)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        spent, step = state["spent"], state["step"]
    network.train()
    began, total = time.monotonic() - spent, 0.0
    saved = time.monotonic()

    def keep() -> None:
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state | {"spent": time.monotonic() - began, "step": step}, kept)

    for drawn in draws:
        part = (time.monotonic() - began) / (60 * minutes)
        if part >= 1:
            break
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, (step + 1) / WARM_UP) * min(1.0, 1.02 - part)
        rows, answers = drawn.rows.to(DEVICE), drawn.answers.to(DEVICE)
        with torch.autocast(DEVICE, torch.bfloat16):
            said = None
            if teacher is not None:
                with torch.inference_mode():
                    said = outcomes(teacher(rows).float()).exp()
                said = said.clone()
            loss = loss_of(network(rows), answers, said)
            none = network.needs_none(drawn.messages.to(DEVICE)).float()
            needless = drawn.needless.to(DEVICE)
            loss = loss + 0.2 * functional.binary_cross_entropy_with_logits(none, needless)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        total, step = total + loss.detach(), step + 1
        if step % 20 == 0:
            spent = time.monotonic() - began
            print(f"{kind} step {step} loss {float(total) / 20:.4f}, {spent:.0f} s", flush=True)
            total = 0.0
        if time.monotonic() - saved > 240:
            saved = time.monotonic()
            keep()
    network.eval()
    keep()
    print(f"{kind}: {step} steps", flush=True)


@torch.inference_mode()
def logits_of(network: JudgeNetwork, rows: Sequence[EncodedPair]) -> list[np.ndarray]:
    made: list[np.ndarray] = []
    for at in range(0, len(rows), ROWS):
        part = rows[at : at + ROWS]
        with torch.autocast(DEVICE, torch.bfloat16):
            logits = network(PaddedPairs.of(part, multiple=32).to(DEVICE)).float().cpu().numpy()
        made += [own[: 1 + max(row.lines)] for own, row in zip(logits, part, strict=True)]
    return made


def measured(network: JudgeNetwork, name: str, examples: Sequence[Example]) -> None:
    """Print how often a line that answers is first, and the area under the curve of answered
    against unanswered, by the probability that any line answers."""
    scores = logits_of(network, [example.encoded for example in examples])
    pairs = list(zip(scores, examples, strict=True))
    first = [int(own.argmax()) in each.answers for own, each in pairs if each.answers]
    any_ = [float(np.logaddexp.reduce(own)) for own in scores]
    known = np.array([v for v, each in zip(any_, examples, strict=True) if each.answers])
    unknown = np.array([v for v, each in zip(any_, examples, strict=True) if not each.answers])
    area = float((known[:, None] > unknown[None]).mean()) if len(unknown) else 0.5
    shares = (unknown < 0).mean(), (known < 0).mean()
    print(f"  {name}: first {np.mean(first):.3f}, area {area:.3f}, declined {shares[0]:.2f} "
          f"against {shares[1]:.2f}, of {len(known)} and {len(unknown)}", flush=True)  # fmt: skip


@torch.inference_mode()
def find_near(source: Source, encoder: nn.Module, count: int = 12) -> list[list[int]]:
    """For each question the other texts with the lines nearest to it, by the encoder's cosine."""
    encoder.eval()

    def vectors(rows: Sequence[Sequence[int]]) -> Tensor:
        made = []
        order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
        start, end = source.pairs.start, source.pairs.end
        for at in range(0, len(order), 512):
            texts = [rows[n][:24] for n in order[at : at + 512]]
            part = [
                EncodedPair([start, *text, end], [0] * (len(text) + 2), [-1] * (len(text) + 2))
                for text in texts
            ]
            batch = PaddedPairs.of(part).to(DEVICE)
            with torch.autocast(DEVICE, torch.bfloat16):
                states = encoder(
                    input_ids=batch.tokens, attention_mask=batch.mask
                ).last_hidden_state
            weights = batch.mask.unsqueeze(-1).to(states.dtype)
            made.append(
                functional.normalize(((states * weights).sum(1) / weights.sum(1)).float(), dim=-1)
            )
        back = torch.empty(len(order), dtype=torch.int64)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(made)[back.to(DEVICE)]

    lines = [(place, tokens) for place, passage in enumerate(source.passages)
             for line, tokens in passage.pieces if line >= 0]  # fmt: skip
    said = vectors([tokens for _, tokens in lines])
    owner = torch.tensor([place for place, _ in lines], device=DEVICE)
    asked = vectors(source.encoded)
    near = []
    for at in range(0, len(asked), 1024):
        best = (asked[at : at + 1024] @ said.T).topk(4 * count).indices
        for row, number in zip(owner[best].tolist(), range(at, at + 1024), strict=False):
            own = source.questions[number][0]
            near.append([each for each in dict.fromkeys(row) if each != own][:count])
    return near


def read_messages(pairs: Pairs, questions: Sequence[str]) -> list[tuple[EncodedPair, bool]]:
    lookups = (FOLDER / "lookups.jsonl").read_text("utf-8").splitlines()
    told = [(each.message, True) for each in everyday.read()]
    told += 4 * [(json.loads(line)["q"], False) for line in lookups]
    told += [(question, False) for question in questions]
    return [(pairs.encode(text, ()), none) for text, none in told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--base", type=Path, required=True, help="the packaged embedder's directory"
    )
    parser.add_argument("--teacher", type=Path, help="all-mpnet-base-v2's directory; default: none")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, nargs=2, default=(120, 120))
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    pairs = Pairs(Tokenizer.from_file(str(options.base / "tokenizer.json")))
    began = time.monotonic()
    written = read_texts()
    labelled = [text for text in written if not held_out(text.text)]
    labelled += grounded(options.data / "grounded_qa_train.jsonl")
    others = strangers(options.data)
    source = Source([*labelled, *others], pairs)
    measured_on = {
        "documents": list(read_file(FOLDER / "questions" / KEPT_APART)),
        "held out": [text for text in written if held_out(text.text)],
    }
    validation = {}
    for name, texts in measured_on.items():
        whole = Source(texts, pairs, 512)
        validation[name] = [whole.whole(n) for n in range(len(whole.questions))]
    small = Student(options.base).to(DEVICE)
    near = options.work / f"near-{len(source.questions)}.json"
    if not near.exists():
        near.write_text(json.dumps(find_near(source, small.encoder)))
    source.near = json.loads(near.read_text())
    questions = [text for _, text, _ in source.questions]
    messages = read_messages(pairs, questions[::4])
    needless = sum(none for _, none in messages)
    print(f"{len(labelled)} and {len(others)} texts, {len(source.questions)} questions, "
          f"{needless} needless, {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip

    def loader(drawn: Source, seed: int) -> DataLoader[Any]:
        draws = Draws(drawn, messages, seed)
        ahead = 16 if options.workers else None
        return DataLoader(
            draws, batch_size=None, num_workers=options.workers, prefetch_factor=ahead
        )

    large = None
    if options.teacher:
        large = Teacher(options.teacher, pairs.vocabulary).to(DEVICE)
        alone = Source(labelled, pairs)
        alone.near = [[n for n in row if n < len(labelled)]
                      for row in source.near[: len(alone.questions)]]  # fmt: skip
        train(large, "teacher", loader(alone, 1), options.minutes[0], options.work / "teacher.pt")
        large.requires_grad_(False)
        for name, examples in validation.items():
            measured(large, f"teacher, {name}", examples)
        if not options.minutes[1]:
            return
    train(
        small, "student", loader(source, 2), options.minutes[1], options.work / "student.pt", large
    )
    save(small, options.out, options.base)
    for name, examples in validation.items():
        measured(small, f"student, {name}", examples)


def save(network: JudgeNetwork, out: Path, base: Path) -> None:
    """All weights but the embeddings, in float16, in two files of about the same size."""
    weights = {
        name: weight.half().cpu().contiguous()
        for name, weight in network.state_dict().items()
        if not name.startswith("encoder.embeddings.")
    }
    out.mkdir(parents=True, exist_ok=True)
    second = {n: w for n, w in weights.items() if any(f".layer.{k}." in n for k in (3, 4, 5))}
    first = {n: w for n, w in weights.items() if n not in second}
    for name, part in zip(WEIGHTS, (first, second), strict=True):
        save_file(part, out / name)

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    notes = {
        "embedder": digest(base / "model.safetensors"),
        "sha256": {name: digest(out / name) for name in WEIGHTS},
    }
    (out / NOTES).write_text(json.dumps(notes, indent=1) + "\n")


if __name__ == "__main__":
    main()
