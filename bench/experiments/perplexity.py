"""How well does each system predict text? `python -m bench.perplexity --wikitext PATH`

As in DRAGON, arXiv 2504.11197, section 7: passages of WikiText-2's train split, windows of its
valid split, the first eighth of a window as the query. Of the 2k nearest passages the cloud has the
first k and the device the others. Everything is teacher-forced on full distributions, never on the
wire form.

- `none`: the text alone.
- `DRAGON`, `DRDG/TW`: a passage a row, mixed token by token: one distribution, so one figure.
  A row's relevance is its passage's cosine times the slope, which is calibrated as by `dragon
  profile`, on other windows of the same split; `DRAGON/0` is with all rows alike.
- `DRAGON/rescored`: the same, with relevance re-scored on the text; with `--rescore-every` only.
- `rows/cloud`, `rows/device`: one side's rows alone, mixed token by token.
- `DRDG/SW`: each side's rows mixed token by token, the two sides by the likelihood of the window.
- `CRCG/device`, `CRCG/cloud`: one side's passages before the text, in one row.
- `DRCG/Text`, `DRCG/KV`: both sides' passages, the cloud's first; as KV these are in bfloat16.

`gain` is (PPL_none - PPL_DRAGON) / (PPL_none - the best of CRCG and DRCG), null unless this one is
better than `none`, whichever window is left out; `below_best` is the perplexity of that best one
less the system's own, `below_side` that of the better side's rows alone less DRAGON's. Standard
errors are of the jackknife over windows, so those of differences are of pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.lib import report, wikitext
from bench.lib.teacher_forcing import SIDES, Case, Outcome, Systems
from bench.lib.wikitext import Corpus
from dragon.inference.choice import ModelChoice
from dragon.inference.rows import Row
from dragon.inference.tokenizer import Tokenizer
from dragon.inference.weighting import Rescoring
from dragon.models import EMBEDDED_WRITER
from dragon.retrieval.calibration import LEAST_WINDOWS, ROWS, Window, calibrated, spread
from dragon.retrieval.embedder import Embedder, TextEmbedder
from dragon.retrieval.prompt_rows import rescoring

PASSAGE_TOKENS = 64
CENTRALISED = ("CRCG/device", "CRCG/cloud", "DRCG/Text", "DRCG/KV")
Result = dict[str, Any]


def perplexity(outcomes: Sequence[Outcome], tokens: Sequence[int], key: tuple[str, int]) -> float:
    """exp of the mean negative log likelihood of a token."""
    return math.exp(-sum(outcome[key] for outcome in outcomes) / sum(tokens))


def gain(outcomes: Sequence[Outcome], tokens: Sequence[int], k: int) -> float | None:
    """How far DRAGON goes below `none`, over how far the best centralised system does, if it does.

    After DRAGON, arXiv 2504.11197, section 7.2.
    """
    none = perplexity(outcomes, tokens, ("none", 0))
    dragon = perplexity(outcomes, tokens, ("DRAGON", k))
    best = best_of(outcomes, tokens, CENTRALISED, k)
    return (none - dragon) / (none - best) if best < none else None


def best_of(
    outcomes: Sequence[Outcome], tokens: Sequence[int], names: Sequence[str], k: int
) -> float:
    """The perplexity of the best of these systems."""
    return min(perplexity(outcomes, tokens, (name, k)) for name in names)


def below(
    outcomes: Sequence[Outcome],
    tokens: Sequence[int],
    names: Sequence[str],
    key: tuple[str, int],
) -> float:
    """How far a system is below the best of these."""
    return best_of(outcomes, tokens, names, key[1]) - perplexity(outcomes, tokens, key)


def jackknife(
    figure: Callable[[Sequence[Outcome], Sequence[int]], float | None],
    outcomes: Sequence[Outcome],
    tokens: Sequence[int],
) -> float | None:
    """Standard error of a figure of windows: from what it is without each of them in turn.

    None for a single window, and where the figure is not defined throughout.
    """
    count = len(outcomes)
    if count < 2:
        return None
    without = []
    for i in range(count):
        value = figure([*outcomes[:i], *outcomes[i + 1 :]], [*tokens[:i], *tokens[i + 1 :]])
        if value is None:
            return None
        without.append(value)
    return math.sqrt((count - 1) * statistics.pvariance(without))


def table(outcomes: Sequence[Outcome], tokens: Sequence[int]) -> list[Result]:
    """A row a system and number of passages a side."""
    rows: list[Result] = []
    for name, k in sorted(outcomes[0], key=lambda key: key[1]):
        figure = partial(perplexity, key=(name, k))
        row: Result = {
            "system": name,
            "documents": k,
            "perplexity": figure(outcomes, tokens),
            "stderr": jackknife(figure, outcomes, tokens),
            "tokens": sum(tokens),
        }
        if name.startswith("DRAGON"):
            difference = partial(below, names=CENTRALISED, key=(name, k))
            row["below_best"] = difference(outcomes, tokens)
            row["below_stderr"] = jackknife(difference, outcomes, tokens)
        if name == "DRAGON":
            ratio = partial(gain, k=k)
            row["gain_stderr"] = jackknife(ratio, outcomes, tokens)
            row["gain"] = None if row["gain_stderr"] is None else ratio(outcomes, tokens)
            aside = partial(below, names=SIDES, key=(name, k))
            row["below_side"] = aside(outcomes, tokens)
            row["side_stderr"] = jackknife(aside, outcomes, tokens)
        rows.append(row)
    return rows


def case(
    window: Window,
    corpus: Corpus,
    tokenizer: Tokenizer,
    embedder: TextEmbedder,
    count: int,
    *,
    slope: float = 0.0,
    rescore_every: int = 0,
) -> Case:
    """A window with the `count` passages nearest to it, re-scored with this slope if at all."""
    query = tokenizer.decode(window.query)
    found = corpus.search(query, count)
    cosines = torch.tensor([[p.cosine] for p in found], dtype=torch.float64)
    rows = [
        Row(tuple(tokenizer.encode(p.text)[:PASSAGE_TOKENS]), slope * p.cosine, vector=p.vector)
        for p in found
    ]
    again = rescoring(embedder, tokenizer, query, rows, rescore_every, slope)
    nats = None if again is None else followed(slope * cosines, again, window.target)
    return Case(window, tuple(row.tokens for row in rows), cosines, nats)


def followed(static: torch.Tensor, again: Rescoring, text: Sequence[int]) -> torch.Tensor:
    """Relevance at each position of a text, float64 [rows, tokens], re-scored as it grows."""
    parts = [static.expand(-1, min(again.every, len(text)))]
    for since in range(again.every, len(text), again.every):
        nats = torch.tensor(again.relevance(text[:since]), dtype=torch.float64)
        parts.append(nats[:, None].expand(-1, min(again.every, len(text) - since)))
    return torch.cat(parts, 1)


def run(options: argparse.Namespace) -> list[Result]:
    """Predict the windows under every system; a row a system and number of passages a side.

    Raises `ValueError` if the split has no windows left to calibrate on.
    """
    tokenizer, model = ModelChoice(model=str(options.model)).load()
    embedder = Embedder.load()
    corpus = Corpus(wikitext.passages(wikitext.read(options.wikitext / "train.txt.xz")), embedder)
    windows = wikitext.windows(
        wikitext.read(options.wikitext / "valid.txt"), tokenizer, options.window
    )
    measured = spread(windows, options.windows)
    others = [each for each in windows if each not in measured]
    others = spread(others, min(LEAST_WINDOWS, len(measured)))
    if not others:
        raise ValueError("no windows are left to calibrate on: give fewer `--windows`")
    systems = Systems(model, tokenizer, options.documents)
    begun = time.monotonic()

    def said(what: str, done: int, of: Sequence[Window]) -> None:
        seconds = time.monotonic() - begun
        print(f"{what} {done} of {len(of)}, {seconds:.0f} s   ", end="\r", flush=True)

    prepared = partial(case, corpus=corpus, tokenizer=tokenizer, embedder=embedder)
    rows = []
    for window in others:
        rows.append(systems.rows(prepared(window, count=ROWS)))
        said("calibrated on window", len(rows), others)
    calibration = calibrated(rows, embedder.fingerprint)
    print(f"\n{calibration}")

    slope, count = calibration.slope, 2 * max(options.documents)
    outcomes, tokens = [], []
    for window in measured:
        asked = prepared(window, count=count, slope=slope, rescore_every=options.rescore_every)
        outcomes.append(systems.predict(asked, [slope, *options.slopes]))
        tokens.append(sum(window.scored))
        said("window", len(outcomes), measured)
    print()
    return [
        row | ({"slope": slope} if row["system"] == "DRAGON" else {})
        for row in table(outcomes, tokens)
    ]


def plot(rows: Sequence[Result], path: Path) -> None:
    """Perplexity over passages a side, as an SVG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axes = figure.add_subplot(xlabel="documents a side", ylabel="perplexity")
    none = next(row for row in rows if row["system"] == "none")
    for name in dict.fromkeys(row["system"] for row in rows if row is not none):
        own = [none, *(row for row in rows if row["system"] == name)]
        columns = ([row[key] for row in own] for key in ("documents", "perplexity", "stderr"))
        x, y, error = columns
        axes.errorbar(x, y, error, label=name, marker="o", markersize=3, capsize=2)
    axes.legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def numbers(text: str) -> list[int]:
    """Integers between commas."""
    return [int(part) for part in text.split(",")]


def slopes(text: str) -> list[float]:
    """Numbers between commas."""
    return [float(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    """The options of `run`."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--wikitext", type=Path, required=True, help="train.txt.xz, valid.txt")
    made.add_argument("--documents", type=numbers, default=[0, 1, 2, 4, 8, 16], help="a side")
    made.add_argument("--windows", type=int, default=32)
    made.add_argument("--window", type=int, default=1024, help="tokens a window")
    made.add_argument("--model", default=EMBEDDED_WRITER, help="a directory, hub name or .gguf")
    made.add_argument(
        "--slopes", type=slopes, default=[0, 4, 8, 16, 32],
        help="nats a unit of cosine, beside the calibrated one",
    )  # fmt: skip
    made.add_argument("--rescore-every", type=int, default=0, help="tokens; 0: not measured")
    return made


COLUMNS = ["system", "documents", "perplexity", "stderr", "tokens"]
COLUMNS += ["below_best", "below_stderr", "below_side", "side_stderr"]
COLUMNS += ["gain", "gain_stderr", "slope"]
NOTES = f"""`documents` are those of each side. `gain` is (PPL_none - PPL_DRAGON) / (PPL_none - PPL
of the best centralised system); none unless that one beats no retrieval, whichever window is left
out. `below_best` is the latter's perplexity less the system's own, `below_side` that of the better
of `rows/cloud` and `rows/device`, each with the standard error of pairs of windows.
The `slope` of `DRAGON`, nats a unit of cosine, was calibrated on as many other windows, at most
{LEAST_WINDOWS}, with two documents a side. `DRAGON/8` is with 8, `DRAGON/0` with all rows alike."""


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    options = parser().parse_args()
    title = f"perplexity-{Path(options.model).name}"
    rows = run(options)
    plot(rows, report.figure(title))
    report.section(
        "perplexity", rows, title=title, model=options.model, columns=COLUMNS, notes=NOTES
    )
    for row in rows:
        shown = {key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()}
        print("  ".join(f"{key} {value}" for key, value in shown.items()))
    gains = {str(row["documents"]): row["gain"] for row in rows if "gain" in row}
    print(json.dumps({"rows": rows, "gain": gains}))


if __name__ == "__main__":
    main()
