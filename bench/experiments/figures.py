"""The paper's Figures 5 to 9 with a real language model: `python -m bench.figures [5 6 7 8 9]`

DRAGON, arXiv 2504.11197, section 7. Each figure is a section of RESULTS.md, one table and one plot,
with what the paper says in numbers beside it (`bench.lib.paper`):

    5  perplexity over documents a side
    6  milliseconds a token over the round trip, at T = 0 and 1, measured and on the event clock
    7  time to the first token over the round trip
    8  seconds for 100 tokens by who aggregates, over extra latency, on the event clock
    9  fifteen tokens at 500 ms extra latency, on the event clock

6 and 7 need a machine with nothing else to do. In all of them a side has two documents, but in 5.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from bench.experiments import latency, perplexity, scheduling, ttft
from bench.lib import paper, report, workload
from bench.lib.acceptances import Acceptances, record
from bench.simulation import simulation, timeline
from bench.simulation.simulation import World
from bench.simulation.timeline import Run, SpanKind
from dragon.inference.choice import ModelChoice
from dragon.protocol.aggregator_policy import Schedule
from dragon.sampling.role import Role

Row = dict[str, Any]

_MODES = "local,sequencewise,tokenwise,speculative:paper,coupled,oneway"
_RTTS_MS = "0,100,200,300"
_FLOORS_MS = "50/50"
_TEMPERATURES = (0.0, 1.0)
_TOKENS = 32
_ROUNDS = 2
_SNAPSHOT_TOKENS, _SNAPSHOT_MS = 15, 500.0


def figure_5(options: argparse.Namespace) -> None:
    """Perplexity of all systems over documents a side."""
    given = ["--wikitext", str(options.data / "wikitext-2"), "--model", options.model]
    given += ["--windows", str(options.windows)]
    rows = perplexity.run(perplexity.parser().parse_args(given))
    title = "figure-5-perplexity"
    perplexity.plot(rows, report.figure(title))
    gains = ", ".join(f"{gain:g} with {model}" for model, gain in paper.GAIN.items())
    notes = f"{perplexity.NOTES} The paper's gain: {gains}, 16 a side."
    _write(options, title, rows, notes, perplexity.COLUMNS)


def figure_6(options: argparse.Namespace) -> None:
    """A token's time in each mode over the round trip."""
    given = ["--modes", _MODES, "--rtt-ms", _RTTS_MS, "--floors-ms", _FLOORS_MS, "--eta", "0.5"]
    given += ["--temperature", ",".join(f"{one:g}" for one in _TEMPERATURES)]
    given += ["--tokens", str(_TOKENS), "--prompts", str(options.prompts), "--model", options.model]
    rows = latency.run(latency.parser().parse_args([*given, "--data", str(options.data)]))
    title = "figure-6-latency"
    draw_latency(rows, title)
    _write(options, title, latency_table(rows), latency_notes(rows))


def latency_table(rows: Sequence[Row]) -> list[Row]:
    """A line a mode and temperature: the measured time, that of the event clock in brackets."""
    lines: dict[tuple[float, str], Row] = {}
    for row in rows:
        key = row["temperature"], row["mode"]
        line = lines.setdefault(key, {"T": f"{key[0]:g}", "mode": key[1]})
        clock = "" if row["event_ms"] is None else f" ({row['event_ms']:.1f})"
        line[f"{row['rtt_ms']:g} ms"] = f"{row['ms_per_token']:.1f}{clock}"
    return [lines[key] for key in sorted(lines, key=lambda key: key[0])]


def draw_latency(rows: Sequence[Row], title: str, results: Path = report.RESULTS) -> None:
    """A panel a temperature; the event clock dashed, the paper's cut of `tokenwise` as crosses."""
    temperatures = sorted({row["temperature"] for row in rows})
    with report.plot(
        title, len(temperatures), x="round trip, ms", y="ms a token", results=results
    ) as axes:
        for one, temperature in zip(axes, temperatures, strict=True):
            one.set_title(f"T = {temperature:g}, {_FLOORS_MS} ms a step, device/cloud")
            here = [row for row in rows if row["temperature"] == temperature]
            for mode in dict.fromkeys(row["mode"] for row in here):
                line = [row for row in here if row["mode"] == mode]
                x = [row["rtt_ms"] for row in line]
                (drawn,) = one.plot(x, [r["ms_per_token"] for r in line], marker="o", label=mode)
                if None not in (clock := [row["event_ms"] for row in line]):
                    one.plot(x, clock, linestyle="--", color=drawn.get_color())
            for row in here:
                if (row["mode"], row["rtt_ms"]) == ("tokenwise", 300.0):
                    for model, cut in paper.CUT_300_MS["tokenwise"].items():
                        label = f"the paper's cut of tokenwise, {model}"
                        one.plot(300.0, (1 - cut) * row["ms_per_token"], "x", label=label)


def latency_notes(rows: Sequence[Row]) -> str:
    """What is compared with the paper, and the bounds of the event clock."""
    found = {(r["temperature"], r["mode"], r["rtt_ms"]): r["ms_per_token"] for r in rows}
    farthest = max(row["rtt_ms"] for row in rows)
    rtts = sorted({row["rtt_ms"] for row in rows})
    lines = [
        "Milliseconds a token, in brackets on the event clock with the answers' own verdicts, "
        "aggregators, delays and round trips. The clock starts when both sides can begin, so it "
        "leaves out the wait for the cloud's retrieval.",
        "",
    ]
    for temperature in sorted({row["temperature"] for row in rows}):
        for mode in ("oneway", "coupled", "speculative:paper"):
            ours = found[temperature, mode, farthest]
            cuts = {
                slow: 1 - ours / found[temperature, slow, farthest] for slow in paper.CUT_300_MS
            }
            over = mean(
                found[temperature, mode, r] / found[temperature, "local", r] - 1 for r in rtts
            )
            lines.append(
                f"- T = {temperature:g}, `{mode}`: "
                + ", ".join(
                    f"{abs(cut):.0%} {'below' if cut >= 0 else 'above'} `{slow}`"
                    for slow, cut in cuts.items()
                )
                + f" at {farthest:g} ms, "
                + f"{ours / found[temperature, 'speculative:paper', farthest]:.2f} of the paper's "
                + f"scheduler; {over:.0%} over the device alone in the mean"
            )
    said = [
        f"{cut:.1%} below `{slow}` ({model})"
        for slow, cuts in paper.CUT_300_MS.items()
        for model, cut in cuts.items()
    ]
    over_device = " and ".join(f"{o:.1%} ({model})" for model, o in paper.OVER_DEVICE.items())
    lines.append(f"- the paper at 300 ms: {', '.join(said)}; {over_device} over the device alone")
    ratios = [row["of_simulation"] for row in rows if row["of_simulation"] is not None]
    if ratios:
        least, most = min(ratios), max(ratios)
        lines.append(f"- measured from there to event clock: {least:.2f} to {most:.2f}")
    return "\n".join(lines)


def figure_7(options: argparse.Namespace) -> None:
    """Time to the first token of each system over the round trip."""
    given = ["--rtt-ms", _RTTS_MS, "--rounds", str(_ROUNDS), "--prompts", str(options.prompts)]
    given += ["--model", options.model, "--data", str(options.data)]
    rows = ttft.run(ttft.parser().parse_args(given))
    title = "figure-7-ttft"
    draw_ttft(rows, title)
    _write(options, title, ttft_table(rows), ttft_notes(rows))


def ttft_table(rows: Sequence[Row]) -> list[Row]:
    """A line a system, its milliseconds by round trip."""
    lines: dict[str, Row] = {}
    for row in rows:
        line = lines.setdefault(row["system"], {"system": row["system"]})
        line[f"{row['rtt_ms']:g} ms"] = f"{row['ttft_ms']:.0f}"
    return list(lines.values())


def draw_ttft(rows: Sequence[Row], title: str, results: Path = report.RESULTS) -> None:
    """A line a system; dashed what the paper's factors would make of ours."""
    with report.plot(title, x="round trip, ms", y="ms to the first token", results=results) as (
        axes,
    ):
        for system in dict.fromkeys(row["system"] for row in rows):
            line = [row for row in rows if row["system"] == system]
            x, y = [row["rtt_ms"] for row in line], [row["ttft_ms"] for row in line]
            axes.plot(x, y, marker="o", label=system)
            if system == "dragon":
                text = [paper.TTFT_TEXT * one for one in y]
                axes.plot(x, text, "k--", label=f"dragon x {paper.TTFT_TEXT:g}, as text")
                kv = f"dragon x {paper.TTFT_KV_300_MS:g}, as KV"
                axes.plot(x[-1], paper.TTFT_KV_300_MS * y[-1], "kx", label=kv)
        axes.set_yscale("log")


def ttft_notes(rows: Sequence[Row]) -> str:
    """Ratios to ours, and the paper's."""
    times = {(row["system"], row["rtt_ms"]): row["ttft_ms"] for row in rows}
    rtts = sorted({row["rtt_ms"] for row in rows})
    text = mean(times["drcg/text", rtt] / times["dragon", rtt] for rtt in rtts)
    kv = times["drcg/kv", rtts[-1]] / times["dragon", rtts[-1]]
    return (
        f"Milliseconds to the first token. To `dragon`, the cloud's documents fetched as text take "
        f"{text:.2f} times as long in the mean (the paper {paper.TTFT_TEXT:g}), as KV {kv:.2f} "
        f"times at {rtts[-1]:g} ms (the paper {paper.TTFT_KV_300_MS:g}, OPT-1.3B, whose KV takes "
        "114 MB). In the plot the paper's factors are applied to ours."
    )


def figure_8(options: argparse.Namespace) -> None:
    """Seconds for 100 tokens by who aggregates, over extra latency."""
    delays = scheduling.DEVICE_S, scheduling.CLOUD_S
    rows = [
        row | {"temperature": temperature}
        for temperature in _TEMPERATURES
        for row in scheduling.replay(
            _acceptances(options.model, temperature), scheduling.EXTRA_MS, delays
        )
    ]
    title = "figure-8-scheduling"
    draw_scheduling(rows, title)
    _write(options, title, scheduling_table(rows), _NOTES_8)


def scheduling_table(rows: Sequence[Row]) -> list[Row]:
    """A line a schedule and temperature, then the paper's own figures."""
    lines = [
        {"T": f"{temperature:g}"} | line
        for temperature in sorted({row["temperature"] for row in rows})
        for line in scheduling.table([r for r in rows if r["temperature"] == temperature])
    ]
    said = [
        {"T": "", "schedule": f"{name}, in the paper"}
        | {f"{extra} ms": f"{value:.2f}" for extra, value in seconds.items()}
        for name, seconds in paper.SECONDS_PER_100_TOKENS.items()
    ]
    return [*lines, *said]


def draw_scheduling(rows: Sequence[Row], title: str, results: Path = report.RESULTS) -> None:
    """A panel a temperature; the paper's figures as crosses of the same colour."""
    temperatures = sorted({row["temperature"] for row in rows})
    with report.plot(
        title, len(temperatures), x="extra latency, ms", y="s for 100 tokens", results=results
    ) as axes:
        for one, temperature in zip(axes, temperatures, strict=True):
            one.set_title(f"T = {temperature:g}; crosses: the paper's")
            here = [row for row in rows if row["temperature"] == temperature]
            for name in dict.fromkeys(row["schedule"] for row in here):
                line = [row for row in here if row["schedule"] == name]
                x = [row["extra_ms"] for row in line]
                y = [row["seconds_per_100_tokens"] for row in line]
                (drawn,) = one.plot(x, y, marker=".", label=name)
                if said := paper.SECONDS_PER_100_TOKENS.get(name):
                    one.plot(list(said), list(said.values()), "x", color=drawn.get_color())


def figure_9(options: argparse.Namespace) -> None:
    """The pipeline of some tokens, with the paper's scheduler drawn."""
    found = _acceptances(options.model, 1.0)
    world = World(
        scheduling.DEVICE_S,
        scheduling.CLOUD_S,
        scheduling.BASE_RTT_S + _SNAPSHOT_MS / 1000,
        jitter=scheduling.JITTER,
    )
    judged = found.speculative[0][:_SNAPSHOT_TOKENS]
    shared = found.coupled[0][:_SNAPSHOT_TOKENS]
    paper_run = simulation.speculative(world, judged, Schedule.PAPER)
    runs = {
        "paper": paper_run,
        "greedy": simulation.speculative(world, judged, Schedule.GREEDY),
    } | {name: play(world, shared) for name, play in scheduling.SHARED_NOISE.items()}
    title = "figure-9-pipeline"
    timeline.draw(paper_run, report.figure(title))
    _write(options, title, list(pipeline_table(runs)), _NOTES_9)


def pipeline_table(runs: dict[str, Run]) -> Iterator[Row]:
    """A line a run: its time, who aggregated, and how long each side decoded in vain."""
    for name, run in runs.items():
        sides = [one.side for one in run.aggregations]
        wasted = {
            role: sum(
                span.end - span.start
                for span in run.spans
                if span.kind is SpanKind.WASTED and span.side is role
            )
            for role in Role
        }
        yield {
            "schedule": name,
            "seconds": round(run.seconds, 3),
            "aggregated on the device": sides.count(Role.DEVICE) if sides else None,
            "in the cloud": sides.count(Role.CLOUD) if sides else None,
            "device, wasted s": round(wasted[Role.DEVICE], 3),
            "cloud, wasted s": round(wasted[Role.CLOUD], 3),
        }


@cache
def _acceptances(model: str, temperature: float) -> Acceptances:
    """Those of the defaults of `bench.scheduling`."""
    defaults = scheduling.parser().parse_args([])
    return record(
        defaults.answers,
        defaults.tokens,
        defaults.sequences,
        temperature,
        ModelChoice(model=model, threads=1),
    )


def _write(
    options: argparse.Namespace,
    title: str,
    rows: Sequence[Row],
    notes: str,
    columns: Sequence[str] = (),
) -> None:
    report.section("figures", rows, title=title, model=options.model, columns=columns, notes=notes)
    print(title, *rows, sep="\n", flush=True)


_NOTES_8 = """Seconds for 100 tokens by extra latency, and their ratio to those of the better static
side, with 250 ms a step on the device and 25 in the cloud; `paper` is the published scheduler,
`greedy` ours. `coupled` and `oneway` run several tokens in a step for the price of one, as a GPU
does, and this CPU does not. The paper's own figures are of OPT-1.3B and its acceptances."""
_NOTES_9 = """Fifteen tokens at 500 ms extra latency and T = 1, 250 ms a step on the device and 25
in the cloud; drawn is the published scheduler."""

FIGURES: dict[int, Callable[[argparse.Namespace], None]] = {
    5: figure_5,
    6: figure_6,
    7: figure_7,
    8: figure_8,
    9: figure_9,
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("figures", type=_figure, nargs="*", help="5 to 9, by default all")
    made.add_argument("--windows", type=int, default=6, help="of WikiText-2, in Figure 5")
    made.add_argument("--prompts", type=int, default=4, help="of Figures 6 and 7")
    made.add_argument("--data", type=Path, default=workload.DATA)
    workload.add_model(made)
    return made


def _figure(text: str) -> Callable[[argparse.Namespace], None]:
    # `choices` would refuse an empty list before Python 3.12.
    try:
        return FIGURES[int(text)]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"not one of 5 to 9: {text}") from None


def main() -> None:
    """Make the figures that are named, by default all."""
    options = parser().parse_args()
    for figure in options.figures or FIGURES.values():
        figure(options)


if __name__ == "__main__":
    main()
