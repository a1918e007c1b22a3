"""What is installed is complete: the wheel's files, and what the image is built from.

Covers `app.paths`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Collection
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.services import ROOT

PACKAGES = ("dragon", "app", "peer", "cli")
# Where a wheel has what stands at the top level of a checkout.
MOVED = {"static": "app/static", "alembic": "app/alembic"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all files in the wheel."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(out), "."]
    subprocess.run(command, cwd=ROOT, check=True)
    with zipfile.ZipFile(next(out.glob("*.whl"))) as archive:
        return set(archive.namelist())


def tracked(*folders: str) -> list[Path]:
    found = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [Path(line) for line in found.stdout.splitlines()]


def test_every_file_goes_into_the_wheel(wheel: set[str]) -> None:
    files = tracked(*PACKAGES, *MOVED)
    assert files
    for file in files:
        top = file.parts[0]
        assert str(Path(MOVED.get(top, top)).joinpath(*file.parts[1:])) in wheel


def test_the_image_has_all_that_is_installed() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    allowed = (ROOT / ".dockerignore").read_text().split()
    assert all(f"!{name}" in allowed for name in copied)
    assert {*PACKAGES, *MOVED} <= copied


def pinned(file: str) -> dict[str, str]:
    """The versions in a file of requirements, by normalised name."""
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / file).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def needed(name: str, extras: Collection[str], known: set[str]) -> None:
    """Add what an installed distribution needs, directly or not."""
    for requirement in map(Requirement, requires(name) or ()):
        marker, each = requirement.marker, canonicalize_name(requirement.name)
        wanted = marker is None or any(marker.evaluate({"extra": e}) for e in ("", *extras))
        if wanted and each not in known:
            known.add(each)
            needed(each, requirement.extras, known)


def test_the_lock_of_the_image_is_that_of_the_project() -> None:
    """`make lock` writes it: the versions that everything else has, each file by its hash."""
    locked, constraints = pinned("requirements.lock"), pinned("constraints.txt")
    assert "torch" not in locked
    locked |= pinned("torch.lock")
    assert [n for n, version in locked.items() if constraints.get(n, version) != version] == []
    known = set[str]()
    needed("dragon-rag", (), known)
    assert known <= locked.keys()
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    # PyPI's torch brings gigabytes of these.
    assert not re.search(r"^(nvidia|cuda|triton)", "\n".join(lines), re.MULTILINE)
    assert all("==" in line or line.startswith("    --hash=sha256:") for line in lines)


def test_the_program_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"dragon": "cli.__main__:main"}
