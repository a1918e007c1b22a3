"""Bytes a draft, and what the cut costs: `python -m bench.wire [options]`

Distributions of the model, both sides, at temperature 1: while it answers questions about its
documents (harness/two_sided.jsonl), and while it writes on prompts at large, where a small model is
unsure. They are cut at several masses and caps and encoded as the link does. A larger vocabulary is
the model's own, v tokens, stretched by a power, i -> i^(log V / log v): ids keep their order and
stay dense where tokens are frequent, the weights are the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from bench.lib import distributions, report, workload
from dragon.link import bodies, registry
from dragon.protocol.messages import Draft
from dragon.retrieval.chunking import sentences
from dragon.retrieval.embedder import Embedder
from dragon.sampling.mixture import Side
from dragon.sampling.noise import Ids
from dragon.sampling.quantized import NUCLEUS_CAP, NUCLEUS_MASS, NucleusCut, WireDistribution, cut
from harness.fixed_documents import Query
from harness.two_sided import QUESTIONS, notes_of, read

LARGER = (50_272, 151_936)  # of OPT and Qwen2.5
# The first mass is that of DRAGON, arXiv 2504.11197.
CUTS = [(0.8, NUCLEUS_CAP), *((NUCLEUS_MASS, cap) for cap in (60, 128, 512, 2048, NUCLEUS_CAP))]
_SMALL = 60
_NOTES = f"""`bytes` are those of a whole frame, {bodies.DRAFT_HEAD_BYTES} bytes of head included;
`bytes_60` is the largest frame of those whose nucleus holds at most 60 tokens. None such can take
more than 290 at a vocabulary of 151,936: a step or a weight of three bytes is over 2^14, so there
are at most 9 and 4 of them. `json` and `float16` are the bytes of the whole vector. `tv` is the
total variation between the model's distribution and what is sent."""

Row = dict[str, Any]


def questions(count: int) -> list[Query]:
    """Questions about notes, with the nearest sentences of all notes in turn on both sides."""
    asked = [question for question in read(QUESTIONS) if question.side == "private"][:count]
    held = [piece.text for note in notes_of(asked) for piece in sentences([note])]
    return workload.match([question.text for question in asked], held, Embedder.load())


def stretched(ids: Ids, own: int, vocabulary: int) -> Ids:
    """Ids of the model's `own` vocabulary in a larger one, int64 [n], still rising."""
    power = np.log(vocabulary) / np.log(own)
    far: Ids = np.minimum(np.rint((ids + 1.0) ** power) - 1, vocabulary - 1).astype(np.int64)
    return far


def frame_bytes(one: NucleusCut, own: int, vocabulary: int) -> int:
    """The size of a draft's frame."""
    wire = WireDistribution.of(stretched(one.wire.ids, own, vocabulary), one.wire.weights)
    draft = Draft(0, 0, 100, 99, 1 << 31, int(wire.ids[0]), 30_000, Side(wire, 1000))
    return len(registry.encode(draft, 1))


def measure(name: str, full: Sequence[torch.Tensor]) -> list[Row]:
    """A row for every cut and vocabulary."""
    number_bytes = np.mean([len(json.dumps(one.tolist())) / one.numel() for one in full[::8]])
    own = full[0].numel()
    rows = []
    for mass, cap in CUTS:
        cuts = [cut(one.numpy(), mass=mass, cap=cap) for one in full]
        tokens = np.array([len(one.wire.ids) for one in cuts])
        for vocabulary in (own, *LARGER):
            sizes = np.array([frame_bytes(one, own, vocabulary) for one in cuts])
            rows.append(
                {
                    "distributions": name,
                    "vocabulary": vocabulary,
                    "mass": mass,
                    "cap": cap,
                    "tokens": round(float(tokens.mean()), 1),
                    "bytes": round(float(sizes.mean()), 1),
                    "bytes_p95": int(np.percentile(sizes, 95)),
                    "bytes_60": int(sizes[tokens <= _SMALL].max(initial=0)),
                    "json": round(number_bytes * vocabulary),
                    "float16": 2 * vocabulary,
                    "json/bytes": round(number_bytes * vocabulary / float(sizes.mean())),
                    "tv": round(float(np.mean([one.tv for one in cuts])), 4),
                }
            )
    return rows


def run(options: argparse.Namespace) -> list[Row]:
    """Rows of both kinds of distributions."""
    torch.set_num_threads(1)
    kinds = {
        "questions": questions(options.prompts),
        "prompts": workload.build(options, options.model),
    }
    rows: list[Row] = []
    for name, queries in kinds.items():
        pairs = distributions.collect(queries, options.model, options.tokens)
        rows += measure(name, [p for pair in pairs for p in (pair.full_device, pair.full_cloud)])
    return rows


def draw(rows: Sequence[Row]) -> None:
    """Bytes a draft over the vocabulary, at the usual cut and as whole vectors."""
    with report.plot("wire", x="vocabulary", y="bytes a draft") as (one,):
        one.set_yscale("log")
        vocabularies = sorted({row["vocabulary"] for row in rows})
        for name in dict.fromkeys(row["distributions"] for row in rows):
            usual = [
                row
                for row in rows
                if (row["distributions"], row["mass"], row["cap"])
                == (name, NUCLEUS_MASS, NUCLEUS_CAP)
            ]
            one.plot(vocabularies, [row["bytes"] for row in usual], marker="o", label=name)
        for kind in ("float16", "json"):
            one.plot(vocabularies, [row[kind] for row in usual], marker="x", label=kind)


def main() -> None:
    """Measure, write the results, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=64, help="of an answer, at most")
    workload.add_model(parser)
    workload.add_options(parser, prompts=12)
    options = parser.parse_args()
    rows = run(options)
    draw(rows)
    report.section("wire", rows, model=options.model, notes=_NOTES)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
