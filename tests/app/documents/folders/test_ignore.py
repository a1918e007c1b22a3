"""Rules of what is left out of a watched folder, as git reads them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from app.documents.folders.scan import USUAL, scan

FILES = (
    "a.md", "a.log", "build/x.md", "build/keep/y.md", "src/build/z.md", "src/a.log", "src/b.tmpl",
    "src/keep.log", "docs/a.md", "docs/deep/b.md", "foo bar.md", "trailing .md", "#hash.md",
    "!no.md",
)  # fmt: skip
RULES = {
    ".gitignore": ["*.log", "/build/", "docs/**/b.md", "", "# a comment", "\\#hash.md", "\\!no.md"],
    "src/.gitignore": ["!keep.log", "!", "*.tmpl"],
}


def write(root: Path) -> None:
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    for name, lines in RULES.items():
        (root / name).write_text("\n".join(lines))


def test_the_rules_are_those_of_git(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    write(root)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=root, env=env, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=root, env=env, check=True, capture_output=True,
    ).stdout.decode().split("\0")  # fmt: skip
    git = {name for name in listed if name and not name.endswith(".gitignore")}
    assert set(scan(root, tmp_path / "data").files) == git
    assert {"a.log", "build/x.md", "src/b.tmpl", "#hash.md"}.isdisjoint(git)
    assert {"src/keep.log", "src/build/z.md", "docs/a.md"} <= git


def test_the_nearest_rule_decides_and_ours_go_before_gits(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / ".dragonignore").write_text("!kept.txt\n!.obsidian/\n")
    (tmp_path / ".obsidian").mkdir()
    for name in ("kept.txt", "other.txt", ".obsidian/plan.md", ".hidden.md"):
        (tmp_path / name).write_text(name)
    assert set(scan(tmp_path, tmp_path / "data").files) == {"kept.txt", ".obsidian/plan.md"}


@pytest.mark.parametrize(
    ("path", "out"),
    [
        (".git/", True),
        ("node_modules/", True),
        ("node_modules", False),
        (".notes.md", True),
        ("a~", True),
        ("~$minutes.docx", True),
        ("film.mp4.part", True),
        ("notes.md", False),
        ("a/b.c/notes.md", False),
    ],
)
def test_what_is_usually_left_out(path: str, out: bool) -> None:
    assert USUAL(path) == out


def test_what_editors_leave_is_left_out(tmp_path: Path) -> None:
    for name in ("#note#", "a.md.swp", "a.swo", "note.md", "#1 plan.md", "swap.md"):
        (tmp_path / name).write_text(name)
    left_out = {name for name in os.listdir(tmp_path) if USUAL(name)}
    assert left_out == {"#note#", "a.md.swp", "a.swo"}
