"""Reports of experiments: sections of RESULTS.md, and plots beside it.

An experiment run again replaces its own section and nothing else.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.services import ROOT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULTS = ROOT / "bench" / "RESULTS.md"
FIGURES = "figures"
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "dragon",
    "svg.fonttype": "none",  # text as text: smaller, and readable in a diff
    "axes.grid": True,
    "grid.alpha": 0.3,
}
_HEAD = """# Results

What the experiments of this folder gave when they were last run. Each section is rewritten by its
own command, and names the model it depends on. `make figures` writes the paper's Figures 5 to 9,
`make bench` quick versions of most experiments. LOG.md keeps what is worth keeping.
"""
Row = Mapping[str, Any]


def section(
    name: str,
    rows: Sequence[Row],
    *,
    title: str = "",
    model: str | Path = "",
    columns: Sequence[str] = (),
    notes: str = "",
    results: Path = RESULTS,
) -> None:
    """Replace the section of experiment `name` by the command being run, a table and notes.

    `model` is what was measured: a directory, a hub name or a file, if it depends on one.

    `title` distinguishes the sections of one experiment. `columns` names those to show, by
    default all. A plot of the section's title, made before with `plot`, is shown too.
    """
    title = title or name
    shown = list(columns or rows[0])
    run = [f"`{_command(name)}`", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}", machine()]
    if model:
        run.insert(1, Path(model).name.removesuffix(".gguf"))
    lines = [
        f"## {title}",
        ", ".join(run),
        _table(shown, rows),
    ]
    if notes:
        lines.append(notes)
    if (results.parent / FIGURES / f"{title}.svg").exists():
        lines.append(f"![{title}]({FIGURES}/{title}.svg)")
    _replace(results, title, "\n\n".join(lines) + "\n")


def figure(name: str) -> Path:
    """Where a section's plot is saved."""
    path = RESULTS.parent / FIGURES / f"{name}.svg"
    path.parent.mkdir(exist_ok=True)
    return path


@contextmanager
def plot(
    name: str, panels: int = 1, *, x: str, y: str, results: Path = RESULTS
) -> Iterator[list[Axes]]:
    """Axes side by side, with labels, saved as an SVG when left: the same bytes for the same data.

    Labelled lines get a legend.
    """
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    with mpl.rc_context(_STYLE):
        figure, grid = plt.subplots(
            1, panels, figsize=(1 + 4.5 * panels, 3.6), squeeze=False, layout="constrained"
        )
        axes = list(grid[0])
        yield axes
        axes[0].set_ylabel(y)
        for one in axes:
            one.set_xlabel(x)
            if one.get_legend_handles_labels()[0]:
                one.legend(fontsize="small")
        path = results.parent / FIGURES / f"{name}.svg"
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def machine() -> str:
    """What figures depend on: processor and versions."""
    import torch

    return (
        f"{os.cpu_count()} x {_processor()}, "
        f"{'a GPU' if torch.cuda.is_available() else 'no GPU'}, "
        f"Python {platform.python_version()}, torch {torch.__version__.split('+')[0]}"
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def _command(name: str) -> str:
    """The command as someone else would type it: paths of this machine stay out."""
    given = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    return shlex.join(["python", "-m", f"bench.{name}", *given])


def _table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    lines = [columns, ["---"] * len(columns)]
    lines += [[_cell(row.get(column)) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _replace(path: Path, name: str, text: str) -> None:
    """Put a section where the one of its name was, else at the end."""
    whole = path.read_text(encoding="utf-8") if path.exists() else _HEAD
    head, *sections = re.split(r"^(?=## )", whole, flags=re.MULTILINE)
    names = [one.partition("\n")[0].removeprefix("## ") for one in sections]
    if name in names:
        sections[names.index(name)] = text
    else:
        sections.append(text)
    path.write_text("\n".join(part.rstrip() + "\n" for part in [head, *sections]), encoding="utf-8")
