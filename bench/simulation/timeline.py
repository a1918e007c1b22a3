"""What happened when in a simulated answer, and its picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from dragon.sampling.role import Role


class SpanKind(StrEnum):
    """What a span of time was spent on."""

    DECODE = "decode"
    WASTED = "wasted"
    DRAFT = "draft"
    TARGET = "target"


class Span(NamedTuple):
    """`side` decoded for, or sent something about, `position`."""

    kind: SpanKind
    side: Role
    position: int
    start: float
    end: float


class Aggregation(NamedTuple):
    """A token aggregated by `side`."""

    side: Role
    position: int
    time: float
    accepted: tuple[bool, bool]


@dataclass
class Run:
    """A simulated answer: when the device had all of it, and what happened."""

    seconds: float = 0.0
    spans: list[Span] = field(default_factory=list)
    aggregations: list[Aggregation] = field(default_factory=list)


_COLOURS = {
    SpanKind.DECODE: "tab:blue",
    SpanKind.WASTED: "lightgrey",
    SpanKind.DRAFT: "tab:orange",
    SpanKind.TARGET: "tab:green",
}


def draw(run: Run, path: Path) -> None:
    """Both sides' decoding, drafts and targets on their way, commits and rejections, as SVG."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(12, 4), layout="constrained")
    axes = figure.subplots()
    lanes = [
        (role, kinds)
        for role in (Role.CLOUD, Role.DEVICE)
        for kinds in ((SpanKind.DECODE, SpanKind.WASTED), (SpanKind.DRAFT,), (SpanKind.TARGET,))
    ]
    for lane, (role, kinds) in enumerate(lanes):
        for span in run.spans:
            if span.side is role and span.kind in kinds and span.start < run.seconds:
                width, colour = span.end - span.start, _COLOURS[span.kind]
                axes.barh(lane, width, left=span.start, height=0.7, color=colour, edgecolor="white")
                if span.kind is SpanKind.DECODE and width > run.seconds / 80:
                    middle = span.start + width / 2
                    axes.text(middle, lane, str(span.position), ha="center", va="center", size=6)
    for one in run.aggregations:
        axes.axvline(one.time, color="black", linewidth=0.6, linestyle=":")
        for role, accepted in zip((Role.DEVICE, Role.CLOUD), one.accepted, strict=True):
            mark = "o" if accepted else "x"
            lane = lanes.index((role, (SpanKind.DECODE, SpanKind.WASTED)))
            colour = "tab:green" if accepted else "tab:red"
            axes.plot(one.time, lane - 0.45, mark, color=colour, markersize=4)
        where = -1.0 if one.side is Role.CLOUD else len(lanes) - 0.0
        axes.plot(one.time, where, "v" if where > 0 else "^", color="black", markersize=4)
    names = [f"{role} {'decodes' if len(kinds) > 1 else kinds[0] + 's'}" for role, kinds in lanes]
    axes.set_yticks(range(len(lanes)), names)
    axes.set_xlim(0, run.seconds)
    axes.invert_yaxis()
    axes.set_xlabel("seconds; dotted: aggregations, at the edge of the side that made them")
    axes.legend(
        handles=[Patch(color=colour, label=str(kind)) for kind, colour in _COLOURS.items()],
        ncols=len(_COLOURS),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
    figure.savefig(path, metadata={"Date": None})
