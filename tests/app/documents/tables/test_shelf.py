"""Tables are read from a document's text once, and go with it."""

from __future__ import annotations

from pathlib import Path

from app.documents.readers.sniff import FileKind
from app.documents.tables.records import Shelf

LINES = "name: Ann; hours: 40\nname: Ben; hours: 12\n"


def test_a_table_is_read_once_and_forgotten_with_its_document(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "text").write_text(LINES, "utf-8")
    (table,) = shelf.of("one", FileKind.CSV)
    assert table.rows == (("Ann", "40"), ("Ben", "12"))
    (tmp_path / "one" / "text").unlink()
    assert shelf.of("one", FileKind.CSV) == [table]
    shelf.forget()
    assert not shelf.of("one", FileKind.CSV)


def test_only_kinds_with_tables_are_read(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "text").write_text(LINES, "utf-8")
    assert not Shelf(tmp_path).of("one", FileKind.PNG)


def test_few_documents_are_kept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for number in range(40):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "text").write_text(LINES, "utf-8")
        shelf.of(str(number), FileKind.CSV)
        (tmp_path / str(number) / "text").unlink()
    assert shelf.of("39", FileKind.CSV)
    assert not shelf.of("0", FileKind.CSV)
