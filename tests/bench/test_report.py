"""The written results: a section replaces its own kind only, a plot is the same bytes again."""

from __future__ import annotations

from pathlib import Path

from bench.lib import report


def test_a_section_replaces_its_own_and_no_other(tmp_path: Path) -> None:
    results = tmp_path / "RESULTS.md"
    report.section("one", [{"a": 1, "b": 0.123456}, {"a": 2, "b": None}], results=results)
    report.section("two", [{"a": 3}], notes="Two is well.", results=results)
    first = results.read_text()
    assert "| a | b |\n| --- | --- |\n| 1 | 0.1235 |\n| 2 |  |" in first
    report.section("two", [{"a": 4}], results=results)
    report.section("one", [{"a": 1, "b": 0.123456}, {"a": 2, "b": None}], results=results)
    again = results.read_text()
    assert again.partition("## two")[0] == first.partition("## two")[0]
    assert "| 4 |" in again
    assert "| 3 |" not in again
    assert "Two is well." not in again
    assert again.startswith("# Results\n")


def test_only_the_columns_asked_for(tmp_path: Path) -> None:
    results = tmp_path / "RESULTS.md"
    report.section("one", [{"a": 1, "answers": [2]}], columns=["a"], results=results)
    assert "answers" not in results.read_text()


def test_a_plot_is_linked_and_the_same_again(tmp_path: Path) -> None:
    results = tmp_path / "RESULTS.md"
    path = tmp_path / "figures" / "one.svg"

    def draw() -> bytes:
        with report.plot("one", 2, x="rtt, ms", y="ms", results=results) as (left, _):
            left.plot([0, 1], [2, 3], label="coupled")
        return path.read_bytes()

    assert draw() == draw()
    report.section("one", [{"a": 1}], results=results)
    assert "![one](figures/one.svg)" in results.read_text()
