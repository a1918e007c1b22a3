"""Tests mirror sources: every module has a test file, or is named by the one that covers it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("dragon", "app", "peer", "cli")


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def has_code(path: Path) -> bool:
    """Whether anything in it can be tested: a function or a class."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(isinstance(node, kinds) for node in tree(path).body)


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


SOURCES = [
    path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if has_code(path)
]
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
NAMED = {
    name
    for path in TESTS
    for name in re.findall(r"`([a-z_]+(?:\.[a-z0-9_]+)+)`", ast.get_docstring(tree(path)) or "")
}


@pytest.mark.parametrize("source", SOURCES, ids=dotted)
def test_a_module_has_a_test_file_or_is_named_in_one(source: Path) -> None:
    mirrored = ROOT / "tests" / source.relative_to(ROOT).with_name(f"test_{source.name}")
    assert mirrored.is_file() or dotted(source) in NAMED


def test_a_test_file_names_only_modules_that_there_are() -> None:
    ours = {name for name in NAMED if name.split(".")[0] in PACKAGES}
    assert ours <= {dotted(source) for source in SOURCES}
