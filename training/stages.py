"""What each stage of training sees, and until which step: `stages.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.data.examples import KINDS

STAGES = Path(__file__).parent / "stages.toml"


@dataclass(frozen=True)
class Stage:
    """Up to step `until`, examples of each kind are drawn with these weights."""

    name: str
    until: int
    mixture: Mapping[str, float]


def read_stages(path: Path = STAGES) -> list[Stage]:
    """The stages in order. Raises ValueError for an unknown kind or steps that do not rise."""
    stages = [Stage(**entry) for entry in tomllib.loads(path.read_text("utf-8"))["stage"]]
    for stage in stages:
        if unknown := stage.mixture.keys() - KINDS:
            raise ValueError(f"{path.name}: stage {stage.name!r} has unknown kinds: {unknown}")
    ends = [stage.until for stage in stages]
    if ends != sorted(set(ends)):
        raise ValueError(f"{path.name}: each stage must end after the one before")
    return stages


def stage_at(stages: Sequence[Stage], step: int) -> Stage:
    """The stage that a step belongs to; the last one goes on for ever."""
    return next((stage for stage in stages if step < stage.until), stages[-1])
