"""Charts of Office files: the numbers that they show, as the table they were made from."""

from __future__ import annotations

from typing import Any

from app.documents.readers.common import one_line
from app.documents.readers.grid import table_lines

_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
CHART = f"{_C}chart"
"""The element that stands where a chart does."""


def chart_lines(root: Any) -> list[str]:
    """A line a category, with the value of each series."""
    names, table = [""], dict[str, list[str]]()
    for series in root.iter(f"{_C}ser"):
        title = " ".join(v.text or "" for v in series.iterfind(f"{_C}tx//{_C}v"))
        labels, values = (_points(series, kind) for kind in (("cat", "xVal"), ("val", "yVal")))
        for n, value in values.items():
            row = table.setdefault(labels.get(n, str(int(n) + 1)), [])
            row += [""] * (len(names) - 1 - len(row)) + [value]
        names.append(one_line(title) or f"series {len(names)}")
    return table_lines([["Category", *names[1:]], *([label, *row] for label, row in table.items())])


def _points(series: Any, kinds: tuple[str, ...]) -> dict[str, str]:
    points = (p for kind in kinds for p in series.iterfind(f"{_C}{kind}//{_C}pt"))
    return {p.get("idx", "0"): one_line(p.findtext(f"{_C}v") or "") for p in points}
