"""What is installed is complete: the wheel's files, and what the image is built from."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from dragon.resources import resource
from harness.services import ROOT


@pytest.fixture(scope="module")
def setuptools() -> dict[str, Any]:
    tools: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    found: dict[str, Any] = tools["setuptools"]
    return found


@pytest.mark.parametrize("name", ["static", "alembic", "models"])
def test_every_file_goes_into_the_wheel(setuptools: dict[str, Any], name: str) -> None:
    packed = {
        f"{target}/{path.name}": path
        for target, patterns in setuptools["data-files"].items()
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


def test_every_package_goes_into_the_wheel(setuptools: dict[str, Any]) -> None:
    tops = {package.partition(".")[0] for package in setuptools["packages"]}
    inits = [path for top in tops for path in (ROOT / top).rglob("__init__.py")]
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in inits}
    assert set(setuptools["packages"]) == found


def test_the_image_has_all_that_is_installed(setuptools: dict[str, Any]) -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    allowed = (ROOT / ".dockerignore").read_text().split()
    assert all(f"!{name}" in allowed for name in copied)
    modules = {f"{module}.py" for module in setuptools["py-modules"]}
    packages = {package for package in setuptools["packages"] if "." not in package}
    assert modules | packages | {"static", "alembic", "models"} <= copied
