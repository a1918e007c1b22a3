"""The paper's figures: tables with the paper's numbers beside ours, and that they draw."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from bench.experiments import figures, scheduling
from bench.lib import paper
from bench.lib.acceptances import Acceptance, Acceptances
from bench.simulation import simulation
from bench.simulation.simulation import World
from dragon.protocol.aggregator_policy import Schedule

Row = dict[str, Any]


def drawn(device: float, cloud: float) -> list[Acceptance]:
    chance = random.Random(3)
    return [[(chance.random() < device, chance.random() < cloud) for _ in range(40)]] * 2


def token_times() -> list[Row]:
    """A token's times by mode, of which the event clock knows all but two."""
    times = {"local": 50, "sequencewise": 60, "tokenwise": 350, "speculative:paper": 150}
    times |= {"coupled": 75, "oneway": 90}
    return [
        {
            "mode": mode,
            "temperature": 1.0,
            "rtt_ms": rtt_ms,
            "ms_per_token": float(ms if rtt_ms else 50),
            "event_ms": None if mode in ("local", "sequencewise") else 1.0,
            "of_simulation": None if mode in ("local", "sequencewise") else 1.1,
        }
        for rtt_ms in (0.0, 300.0)
        for mode, ms in times.items()
    ]


def test_a_token_s_time_stands_beside_the_event_clock_s() -> None:
    by_mode = {line["mode"]: line for line in figures.latency_table(token_times())}
    assert by_mode["oneway"] == {"T": "1", "mode": "oneway", "0 ms": "50.0 (1.0)",
                                 "300 ms": "90.0 (1.0)"}  # fmt: skip
    assert by_mode["local"]["300 ms"] == "50.0"


def test_modes_are_compared_as_the_paper_compares() -> None:
    notes = figures.latency_notes(token_times())
    assert "`oneway`: 50% above `sequencewise`, 74% below `tokenwise` at 300 ms, 0.60 of" in notes
    assert "`coupled`: 25% above `sequencewise`, 79% below `tokenwise` at 300 ms, 0.50 of" in notes
    assert "42.4% below `tokenwise` (OPT-1.3B)" in notes
    assert "measured from there to event clock: 1.10 to 1.10" in notes


def test_first_tokens_are_compared_as_the_paper_compares() -> None:
    systems = {"dragon": (100.0, 400.0), "drcg/text": (200.0, 400.0), "drcg/kv": (300.0, 1000.0)}
    rows = [
        {"system": system, "rtt_ms": rtt_ms, "ttft_ms": ms}
        for system, times in systems.items()
        for rtt_ms, ms in zip((0.0, 300.0), times, strict=True)
    ]
    assert figures.ttft_table(rows)[0] == {"system": "dragon", "0 ms": "100", "300 ms": "400"}
    notes = figures.ttft_notes(rows)
    assert "1.50 times as long in the mean (the paper 8.6), as KV 2.50 times at 300 ms" in notes


def test_the_paper_s_seconds_stand_below_ours() -> None:
    found = Acceptances(drawn(0.6, 0.5), drawn(0.8, 0.8))
    rows = [row | {"temperature": 1.0} for row in scheduling.replay(found, [0, 400], (0.25, 0.025))]
    lines = figures.scheduling_table(rows)
    assert len(lines) == len(rows) / 2 + len(paper.SECONDS_PER_100_TOKENS)
    said = next(line for line in lines if line["schedule"] == "paper, in the paper")
    assert said["400 ms"] == "36.07"


def test_a_pipeline_says_who_aggregated() -> None:
    (sequence, _) = drawn(0.6, 0.5)
    run = simulation.speculative(World(0.25, 0.025, 0.5), sequence, Schedule.DEVICE)
    (line,) = figures.pipeline_table({"device": run})
    assert (line["aggregated on the device"], line["in the cloud"]) == (len(sequence), 0)
    assert line["cloud, wasted s"] > 0


def test_every_figure_draws(tmp_path: Path) -> None:
    results = tmp_path / "RESULTS.md"
    figures.draw_latency(token_times(), "latency", results)
    systems = ("dragon", "drcg/text")
    figures.draw_ttft(
        [{"system": s, "rtt_ms": 0.0, "ttft_ms": 9.0} for s in systems], "ttft", results
    )
    found = Acceptances(drawn(0.6, 0.5), drawn(0.8, 0.8))
    rows = scheduling.replay(found, [0.0, 400.0], (0.25, 0.025))
    figures.draw_scheduling([row | {"temperature": 1.0} for row in rows], "scheduling", results)
    for name in ("latency", "ttft", "scheduling"):
        assert "<svg" in (tmp_path / "figures" / f"{name}.svg").read_text()


def test_all_figures_are_made_unless_some_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    parsed = figures.parser().parse_args
    assert parsed([]).figures == []
    assert parsed(["8", "9"]).figures == [figures.figure_8, figures.figure_9]
    with pytest.raises(SystemExit):
        parsed(["4"])
    assert "not one of 5 to 9: 4" in capsys.readouterr().err
