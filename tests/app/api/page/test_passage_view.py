"""Markdown of a document with a passage marked."""

from __future__ import annotations

import pytest

from app.api.page.passage_view import BEGIN, END, blocks_around, rendered

NOTE = (
    "# The boat\n\nIt is *old*. It is kept in the shed.\n\n- oars\n- a rope\n\n"
    "| what | where |\n|---|---|\n| anchor | bow |\n"
)


@pytest.mark.parametrize(
    ("passage", "html"),
    [
        ("# The boat", f"<h1>{BEGIN}The boat{END}</h1>"),
        ("It is kept in the shed.", f"</em>. {BEGIN}It is kept in the shed.{END}</p>"),
        ("- a rope\n", f"<li>{BEGIN}a rope{END}</li>"),
        ("| anchor | bow |\n", f"<td>{BEGIN}anchor</td>\n<td>bow{END}</td>"),
    ],
)
def test_a_passage_is_marked_within_its_block(passage: str, html: str) -> None:
    start = NOTE.index(passage)
    whole = rendered(NOTE, start, start + len(passage))
    assert html in whole
    assert whole.replace(BEGIN, "").replace(END, "") == rendered(NOTE)


def test_a_text_brings_no_marks_and_no_html() -> None:
    assert (
        rendered(f"{BEGIN}<script>x</script>{END}") == "<p>�&lt;script&gt;x&lt;/script&gt;�</p>\n"
    )


def test_whole_blocks_are_shown_where_they_are_near() -> None:
    start = NOTE.index("kept")
    first, last = blocks_around(NOTE, start, start + 4)
    assert NOTE[first:last] == "It is *old*. It is kept in the shed."
    assert blocks_around(NOTE, 0, len(NOTE)) == (0, len(NOTE))
    long = "word " * 4000
    assert blocks_around(long, 10_000, 10_010) == (10_000, 10_010)
