"""What is no code: found in a checkout, and put into the wheel file by file."""

from __future__ import annotations

import tomllib

import pytest

from bench.services import ROOT
from dragon.resources import resource


@pytest.mark.parametrize("name", ["static", "alembic", "models"])
def test_every_file_goes_into_the_wheel(name: str) -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    data = configuration["tool"]["setuptools"]["data-files"]
    packed = {
        f"{target}/{path.name}": path
        for target, patterns in data.items()
        for pattern in patterns
        for path in ROOT.glob(pattern)
    }
    found = {
        f"share/dragon/{path.relative_to(ROOT)}": path
        for path in resource(name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert found
    assert found.items() <= packed.items()
