"""What a scan of a folder sees, and a file's content when others write to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.documents.folders.scan import Mark, content_of, scan


def seen(root: Path) -> list[str]:
    return sorted(scan(root, root / "data").files)


def test_files_of_all_directories_but_no_links_pipes_or_data(tmp_path: Path) -> None:
    for name in ("a.txt", "deep/er/b.txt", "data/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    (tmp_path / "round").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert seen(tmp_path) == ["a.txt", "deep/er/b.txt"]
    path, mark = scan(tmp_path, tmp_path / "data").files["deep/er/b.txt"]
    assert (path, mark.size) == ("deep/er/b.txt", 13)


def test_a_name_that_is_no_text_is_shown_and_can_be_opened(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("Latin")
    ((shown, (path, _)),) = scan(tmp_path, tmp_path / "data").files.items()
    assert shown == "caf\\xe9.txt"
    content = content_of(tmp_path, tmp_path / "data", path)
    assert content is not None
    assert content[0] == b"Latin"


def test_a_deep_tree_is_seen_to_its_end(tmp_path: Path) -> None:
    deepest = tmp_path.joinpath(*["d"] * 300)
    deepest.mkdir(parents=True)
    (deepest / "a.txt").touch()
    assert len(seen(tmp_path)) == 1


def test_mail_is_seen_where_it_is_delivered(tmp_path: Path) -> None:
    mail = tmp_path / "Mail"
    for box in (mail, mail / ".Sent"):
        for name in ("cur", "new", "tmp"):
            (box / name).mkdir(parents=True)
            (box / name / f"{name}.1:2,S").write_text("From: a\n")
        (box / "dovecot-uidlist").touch()
    (mail / ".hidden").mkdir()
    (mail / ".hidden" / "a.txt").touch()
    assert seen(tmp_path) == [
        "Mail/.Sent/cur/cur.1:2,S",
        "Mail/.Sent/new/new.1:2,S",
        "Mail/cur/cur.1:2,S",
        "Mail/new/new.1:2,S",
    ]


def test_a_bare_folder_is_told_from_one_that_holds_nothing_to_read(tmp_path: Path) -> None:
    assert scan(tmp_path, tmp_path / "data").bare
    (tmp_path / ".hidden").touch()
    assert not scan(tmp_path, tmp_path / "data").bare
    with pytest.raises(FileNotFoundError):
        scan(tmp_path / "nowhere", tmp_path / "data")


def test_any_change_of_a_file_gives_it_another_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    before = Mark.of(path.stat())
    # Another file of the same size and modification time takes its place.
    other = tmp_path / "b.txt"
    other.write_text("two")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)
    assert path.stat().st_mtime_ns <= before.changed_ns
    assert Mark.of(path.stat()) != before


def test_a_file_that_changes_while_it_is_read_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    fstat = os.fstat

    def written_to_behind_it(descriptor: int) -> os.stat_result:
        status = fstat(descriptor)
        with path.open("a") as file:
            file.write(", and after")
        return status

    monkeypatch.setattr(os, "fstat", written_to_behind_it)
    assert content_of(tmp_path, tmp_path / "data", path.name) is None
    monkeypatch.undo()
    content = content_of(tmp_path, tmp_path / "data", path.name)
    assert content is not None
    assert content[0].startswith(b"before, and after")
    assert content[1] == Mark.of(path.stat())


def test_a_link_put_in_a_files_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic"):
        content_of(tmp_path, tmp_path / "data", "a.txt")
    os.mkfifo(tmp_path / "pipe")
    assert content_of(tmp_path, tmp_path / "data", "pipe") is None
