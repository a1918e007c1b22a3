"""What a model server leaves of a distribution, and what a correction costs there:
`python -m bench.likeliest [options]`

Distributions of the embedded model, both sides, at temperature 1, as in `bench.wire`, cut to the
likeliest k tokens before they are cut for the wire. Then corrections at llama.cpp's server over
loopback: a row's text is continued with a token that the server did not draw.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.experiments.wire import questions
from bench.lib import distributions, report, workload
from bench.lib.distributions import Pair
from dragon.inference.backends.model_server.model import ModelServer
from dragon.inference.tokenizer import Tokenizer
from dragon.sampling import mixture
from dragon.sampling.mixture import Side
from dragon.sampling.params import Sampling
from dragon.sampling.quantized import cut
from harness import gguf_file
from harness.llama_server import serving
from harness.models import SMALL_MODEL

LIKELIEST = (5, 20, 100, 256)
_SEEDS = 20
_NOTES = """`mass` is what the likeliest k tokens hold, in the mean and at the worst twentieth of
the positions; `wire_mass` what the cut for the wire keeps of all tokens. The others are the shares
of positions at which another token is drawn, on the same noise, where k tokens are named of the
cloud's distribution and all of the device's, or k of both. The positions follow the text that is
drawn of all tokens."""
_CORRECTIONS = """Milliseconds of a step that corrects the server's text, over loopback, the token
itself in it; `token_ms` is what a token takes that the stream brings. The server has ended its
stream by then (`idle`), or still writes ahead."""

Row = dict[str, Any]


def named(full: torch.Tensor, k: int, log_h: int) -> Side:
    """The side of a distribution float32 [V] of which k tokens are named."""
    values, tokens = full.topk(k)
    kept = torch.zeros_like(full)
    kept[tokens] = values / values.sum()
    return Side(cut(kept.numpy()).wire, log_h)


def changed(pairs: Sequence[Pair], k: int, temperature: float, *, both: bool) -> float:
    """The share of positions whose target is another where k tokens are named."""
    count = 0
    seeds = range(_SEEDS if temperature else 1)
    for position, pair in enumerate(pairs):
        own = named(pair.full_device, k, pair.device.log_h) if both else pair.device
        remote = named(pair.full_cloud, k, pair.cloud.log_h)
        for seed in seeds:
            sampling = Sampling(temperature, seed=seed)
            whole = mixture.target(pair.device, pair.cloud, sampling, position)
            count += mixture.target(own, remote, sampling, position) != whole
    return round(count / (len(pairs) * len(seeds)), 4)


def kept(name: str, pairs: Sequence[Pair]) -> list[Row]:
    """A row for every k."""
    full = [one for pair in pairs for one in (pair.full_device, pair.full_cloud)]
    wire = float(np.mean([cut(one.numpy()).mass for one in full]))
    rows = []
    for k in LIKELIEST:
        masses = np.array([float(one.topk(k).values.sum()) for one in full])
        rows.append(
            {
                "distributions": name,
                "positions": len(pairs),
                "k": k,
                "mass": round(float(masses.mean()), 4),
                "mass_p5": round(float(np.percentile(masses, 5)), 4),
                "wire_mass": round(wire, 4),
                **{
                    f"{'both' if both else 'cloud'}_T{temperature:g}": changed(
                        pairs, k, temperature, both=both
                    )
                    for both in (False, True)
                    for temperature in (0.0, 1.0)
                },
            }
        )
    return rows


def corrections(count: int) -> list[Row]:
    """Rows for a server that has ended its stream when it is corrected, and one that writes."""
    tokenizer = Tokenizer.load(SMALL_MODEL)
    text = tokenizer.encode(
        "The lighthouse of Askham was built in 1848 by a company of Leith. " * 20
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        gguf_file.write(SMALL_MODEL, path)
        with serving(path, Path(folder) / "log") as server:
            model = ModelServer(server.url, tokenizer)
            token = token_ms(model, text)
            rows = [
                {"server": name, "token_ms": round(token, 2)} | _correct(model, text, count, pause)
                for name, pause in (("idle", 0.5), ("writing", 0.005))
            ]
            model.close()
    return rows


def token_ms(model: ModelServer, text: Sequence[int]) -> float:
    """Milliseconds from one token of a stream to the next."""
    forward(model, 0, text)
    begun = time.perf_counter()
    stream = model._rows[0].stream
    assert stream is not None
    while not stream.ended:
        time.sleep(0.001)
    return 1000 * (time.perf_counter() - begun) / max(1, len(stream.positions) - 1)


def _correct(model: ModelServer, text: Sequence[int], count: int, pause: float) -> Row:
    chance = random.Random(3)
    taken = []
    forward(model, 0, text)
    for number in range(count):
        time.sleep(pause)
        began = time.perf_counter()
        forward(model, len(text) + number, [chance.randrange(300, 8000)])
        taken.append(1000 * (time.perf_counter() - began))
    low, middle, high = np.percentile(taken, (10, 50, 90))
    return {
        name: round(float(value), 2)
        for name, value in (("p10_ms", low), ("p50_ms", middle), ("p90_ms", high))
    }


def forward(model: ModelServer, start: int, tokens: Sequence[int]) -> None:
    """One step of the first row."""
    model.forward([0], [start], torch.tensor([list(tokens)]), 1)


def run(options: argparse.Namespace) -> list[Row]:
    """Rows of both kinds of distributions."""
    torch.set_num_threads(1)
    kinds = {
        "questions": questions(options.prompts),
        "prompts": workload.build(options, SMALL_MODEL),
    }
    return [
        row
        for name, queries in kinds.items()
        for row in kept(name, distributions.collect(queries, SMALL_MODEL, options.tokens))
    ]


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=48, help="of an answer, at most")
    parser.add_argument("--corrections", type=int, default=200)
    workload.add_options(parser, prompts=8)
    options = parser.parse_args()
    slow = corrections(options.corrections)
    rows = run(options)
    report.section("likeliest", rows, notes=_NOTES)
    report.section("likeliest", slow, title="likeliest-corrections", notes=_CORRECTIONS)
    print(json.dumps({"rows": rows, "corrections": slow}))


if __name__ == "__main__":
    main()
