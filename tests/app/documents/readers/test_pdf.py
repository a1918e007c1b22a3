"""Tables of a page are read by rows, columns of prose one by one; running lines are left out."""

from __future__ import annotations

from collections.abc import Sequence

from app.documents.readers.pdf import Layout, Piece, without_running_lines

LEFT = ["The first column tells of the", "orchard. It has forty apple", "trees, planted by Otto."]
RIGHT = ["The second column tells of", "the pond. It is three metres", "deep and was dug by Paula."]


def page(
    *lines: Sequence[str], top: float = 700, at: Sequence[float] = (60, 240, 330)
) -> list[Piece]:
    """Lines of pieces, of letters five points wide."""
    return [
        Piece(at[n], top - 16 * row, at[n] + 5 * len(text), top - 16 * row + 10, text)
        for row, texts in enumerate(lines)
        for n, text in enumerate(texts)
        if text
    ]


def test_a_table_is_read_by_rows_and_goes_on_over_a_page() -> None:
    layout = Layout()
    rows = [("Part", "Number", "Price"), ("Wheel 1", "PN-1", "11.50"), ("Wheel 2", "PN-2", "12.50")]
    first = layout.read(page(("Parts list",), *rows)) or ""
    assert first.split("\n") == [
        *("Parts list", "", "Part: Wheel 1; Number: PN-1; Price: 11.50"),
        *("Part: Wheel 2; Number: PN-2; Price: 12.50", ""),
    ]
    second = layout.read(page(*((f"Wheel {n}", f"PN-{n}", f"{n}.50") for n in (3, 4, 5)))) or ""
    assert second.split("\n")[1] == "Part: Wheel 3; Number: PN-3; Price: 3.50"


def test_columns_of_prose_are_read_one_by_one() -> None:
    text = Layout().read(page(*zip(LEFT, RIGHT, strict=True), at=(60, 320))) or ""
    assert text.strip().split("\n\n") == [" ".join(LEFT), " ".join(RIGHT)]


def test_a_page_without_columns_is_left_as_it_is() -> None:
    assert Layout().read(page(("The key",), ("hangs left of the door.",))) is None


def test_running_lines_stand_once_and_a_sentence_is_whole() -> None:
    pages = [
        "He paid for the whole of the new\nParish letter 7",
        "Parish letter\nroof. Then he left.",
    ]
    assert without_running_lines(pages) == [
        "Parish letter 7\n\nHe paid for the whole of the new\nroof.",
        " Then he left.",
    ]
    apart = ["The key is blue.\n", "Recipes. Boil the eggs.\n"]
    assert without_running_lines(apart) == apart
