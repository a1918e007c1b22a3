"""How good are the answers? `python -m bench.quality --data ../shared/data [--model MODEL]`

Everything is greedy and of the model given, the embedded one by default.

- two-sided questions, through both services (bench/experiments/two_sided.py);
- SQuAD 2.0, its open half: 51 paragraphs are uploaded and questions about them asked through both
  services, answerable ones, ones that nothing answers, and ones about other paragraphs; and the
  sentence that answers among three: given as rows by relevance, as retrieval leaves them, and
  as one row (a sentence picked at random holds the answer in 43 %);
- exact copies of rare strings; prompts and noise, for loops;
- perplexity on WikiText-2; total variation between a distribution and what is sent of it, on the
  prompts and on the questions, and between the sides.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import numpy as np
import torch

from bench.experiments import perplexity, two_sided, wire
from bench.lib import distributions, report, squad, workload
from bench.lib.alone import Alone
from bench.lib.rare_strings import rare_strings
from dragon.retrieval.embedder import Embedder
from dragon.retrieval.judge import Judge
from dragon.sampling.quantized import cut
from harness import services
from harness.fixed_documents import Query
from harness.models import SMALL_MODEL
from harness.reference import Passage
from harness.services import Setup
from harness.two_sided import QUESTIONS, notes_of, read, spread

TOP_K = 2
_GRAM, _REPEATS = 4, 4


@dataclass(frozen=True)
class Measure:
    """A figure, of how many cases, and what it should be."""

    measure: str
    value: float | None
    of: int
    goal: str = ""


def mean(values: Sequence[bool] | Sequence[float]) -> float | None:
    """The mean, rounded, or None of nothing."""
    return round(float(np.mean(values)), 4) if len(values) else None


def loops(tokens: Sequence[int]) -> bool:
    """Whether four tokens in a row stand there more than four times."""
    grams = Counter(zip(*(tokens[start:] for start in range(_GRAM)), strict=False))
    return max(grams.values(), default=0) > _REPEATS


def noise(count: int, seed: int = 0) -> list[str]:
    """Strings that mean nothing: letters, digits, symbols, and single words again and again."""
    rng = random.Random(seed)
    alphabets = (string.ascii_lowercase + " ", string.printable, string.digits, "aeiou ", "?!. ",
                 "äöüßéèñ漢字かな🙂 ")  # fmt: skip
    made = []
    for number in range(count):
        letters = rng.choices(alphabets[number % len(alphabets)], k=rng.randint(3, 120))
        words = "".join(letters).split() or ["x"]
        text = " ".join(words)
        made.append(text if number % 3 else " ".join([words[0][:12]] * rng.randint(3, 20)))
    return made


def two_sided_measures(
    options: argparse.Namespace, setup: Setup, corpus: Path
) -> Iterator[Measure]:
    """Shares of right answers with and without the side that knows."""
    asked = spread(read(QUESTIONS), options.questions)
    with two_sided.running(setup, corpus, notes_of(asked)) as client:
        found = two_sided.measure(client, asked)
    goals = {"private": ">= 0.9", "public": ">= 0.9", "both": ">= 0.3", "accept_heavier": ">= 0.9",
             "public_without_peer": "<= 0.15", "closed_book": "<= 0.15"}  # fmt: skip
    for name, value in found.items():
        side = name.partition("_")[0]
        count = sum(q.side == side for q in asked) or len(asked)
        yield Measure(f"two-sided: {name.replace('_', ' ')}", value, count, goals.get(name, ""))


def squad_measures(client: httpx.Client, half: squad.OpenHalf) -> Iterator[Measure]:
    """Answers and abstention, through both services."""

    def replies(asked: Sequence[squad.Asked]) -> list[str]:
        found = [two_sided.ask(client, one.question).text for one in asked]
        for one, reply in zip(asked, found, strict=True):
            print(f"squad: {one.question} -> {reply!r} {one.answers[:1]}", flush=True)
        return found

    answerable = replies(half.answerable)
    right = [one.answered_by(r) for one, r in zip(half.answerable, answerable, strict=True)]
    yield Measure("SQuAD end to end: answered", mean(right), len(right), ">= 0.4")
    declined = [squad.declines(reply) for reply in answerable]
    yield Measure("SQuAD end to end: declined though answerable", mean(declined), len(declined))
    for name, asked, goal in (
        ("unanswerable", half.unanswerable, ">= 0.5"),
        ("of other paragraphs", half.elsewhere, ""),
    ):
        found = replies(asked)
        fair = [squad.declines(r) or not squad.quotes(r, half.paragraphs) for r in found]
        yield Measure(
            f"SQuAD {name}: declined", mean([squad.declines(r) for r in found]), len(found)
        )
        yield Measure(f"SQuAD {name}: declined or quoted nothing", mean(fair), len(found), goal)


def loop_measure(client: httpx.Client, options: argparse.Namespace, alone: Alone) -> Measure:
    """Prompts and noise, half of each if there are enough prompts."""
    prompts = workload.read_prompts(options.data / "prompts.jsonl", (options.loops + 1) // 2)
    looped = []
    for prompt in [*prompts, *noise(options.loops - len(prompts))]:
        text = two_sided.ask(client, prompt, tokens=options.loop_tokens).text
        looped.append(loops(alone.tokenizer.encode(text)))
        if looped[-1]:
            print(f"loop: {prompt[:80]!r} -> {text[:200]!r}", flush=True)
    return Measure("replies that loop", mean(looped), len(looped), "0")


def alone_measures(options: argparse.Namespace, alone: Alone) -> Iterator[Measure]:
    """Three sentences and rare strings, on one side."""
    embedder, judge = Embedder.load(), Judge.load()
    asked = squad.among_three(squad.read(options.data / "squad2_dev_open.jsonl"), options.squad)
    right = []
    for one, text in asked:
        passages = alone.found(one.question, text, embedder, judge, TOP_K)
        right.append(one.answered_by(alone.reply(one.question, passages)))
    yield Measure("SQuAD among three sentences, as retrieval finds them", mean(right), len(right))
    whole = [
        one.answered_by(alone.reply(one.question, [Passage(text, 0.6)])) for one, text in asked
    ]
    yield Measure("SQuAD among three sentences, in one row", mean(whole), len(whole))
    copied = []
    for rare in rare_strings(options.copies):
        reply = alone.reply(rare.question, [Passage(rare.text, 0.6)])
        copied.append(rare.string in reply)
        if not copied[-1]:
            print(f"not copied: {rare.string!r} -> {reply!r}", flush=True)
    yield Measure("rare strings copied exactly", mean(copied), len(copied), ">= 0.98")


def distribution_measures(options: argparse.Namespace) -> Iterator[Measure]:
    """Perplexity, and what the cut costs."""
    given = ["--wikitext", str(options.data / "wikitext-2"), "--model", str(options.model),
             "--windows", str(options.text_windows), "--window", str(options.window_tokens),
             "--documents", "8"]  # fmt: skip
    for row in perplexity.run(perplexity.parser().parse_args(given)):
        if row["system"] in ("none", "CRCG/cloud", "DRCG/Text", "DRAGON"):
            yield Measure(
                f"perplexity: {row['system']}", round(row["perplexity"], 2), row["tokens"]
            )
            if "gain" in row:
                gain = row["gain"] and round(row["gain"], 3)
                yield Measure("perplexity: gain", gain, row["tokens"], ">= 1.4")
    options.prompts, kinds = options.tv_prompts, dict[str, list[Query]]()
    kinds["prompts"] = workload.build(options, options.model)
    kinds["questions"] = wire.questions(options.tv_prompts)
    for name, queries in kinds.items():
        pairs = distributions.collect(queries, options.model, 48)
        full = [one for pair in pairs for one in (pair.full_device, pair.full_cloud)]
        tv = mean([cut(one.numpy()).tv for one in full])
        yield Measure(f"TV(full, wire): {name}", tv, len(full), "<= 0.05")


def run(options: argparse.Namespace) -> list[Measure]:
    """All measures."""
    torch.set_num_threads(1)
    alone = Alone.load(options.model)
    half = squad.open_half(squad.read(options.data / "squad2_dev_open.jsonl"), options.squad)
    env = {"DRAGON_MODEL": str(options.model)}
    with tempfile.TemporaryDirectory() as folder:
        corpus = services.demo_corpus(Path(folder))
        setups = [Setup(Path(folder) / name, env, rows=True) for name in ("questions", "squad")]
        measures = list(two_sided_measures(options, setups[0], corpus))
        with two_sided.running(setups[1], corpus, half.paragraphs) as client:
            measures += squad_measures(client, half)
            measures.append(loop_measure(client, options, alone))
    return [*measures, *alone_measures(options, alone), *distribution_measures(options)]


def parser() -> argparse.ArgumentParser:
    """The options of `run`."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--model", default=SMALL_MODEL, help="a directory or hub name")
    workload.add_options(made, prompts=0)
    made.add_argument("--questions", type=int, default=200, help="two-sided ones, a side")
    made.add_argument("--squad", type=int, default=200, help="questions of each kind")
    made.add_argument("--copies", type=int, default=500, help="rare strings")
    made.add_argument("--loops", type=int, default=500, help="prompts and noise")
    made.add_argument("--loop-tokens", type=int, default=128, help="at most so many a reply")
    made.add_argument("--text-windows", type=int, default=16, help="of WikiText-2")
    made.add_argument("--window-tokens", type=int, default=512)
    made.add_argument("--tv-prompts", type=int, default=12)
    return made


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    options = parser().parse_args()
    rows = [asdict(measure) for measure in run(options)]
    report.section("quality", rows)
    for row in rows:
        print(f"{row['measure']:50} {row['value']} of {row['of']}  {row['goal']}")
    print(json.dumps({"model": Path(str(options.model)).name, "rows": rows}))


if __name__ == "__main__":
    main()
