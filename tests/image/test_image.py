"""The image alone: `dragon up` as its user, with a volume for its data."""

from __future__ import annotations

import time
from pathlib import Path

from tests.image.buildah import DRAGON
from tests.image.conftest import hold
from tests.image.containers import config_of, container, volume

_GRACE_S = 10  # then an engine kills what it was to stop


def test_what_it_says_of_itself() -> None:
    config = config_of(DRAGON)
    assert config["User"] == "dragon"
    assert config["Cmd"] == ["dragon", "up"]
    assert list(config["Volumes"]) == ["/data"]
    assert list(config["ExposedPorts"]) == ["8000/tcp"]
    assert config["Healthcheck"]["Test"][0] == "CMD"


def test_it_has_nothing_of_cuda(tmp_path: Path) -> None:
    with container(DRAGON, tmp_path) as made:
        listed = made.call("pip", "list", "--format", "freeze").stdout.lower()
        assert "\ntorch==2.13.0+cpu\n" in listed
        assert not [n for n in ("nvidia", "cuda", "triton") if n in listed]
        assert made.call("id", "-un").stdout == "dragon\n"


def test_a_first_session_and_a_second_start(tmp_path: Path, session: list[tuple[str, str]]) -> None:
    config, data = config_of(DRAGON), volume(tmp_path / "data", "/data")
    health = config["Healthcheck"]["Test"][1:]
    for start in ("first", "second"):
        place = tmp_path / start
        with container(DRAGON, place, volumes=[data], health=health) as made:
            made.start()
            took = made.wait_healthy()
            hold(made, session if start == "first" else session[2:])
            began = time.monotonic()
            assert made.end(_GRACE_S) == 0
            print(f"\n{start} start: {took:.1f} s, end: {time.monotonic() - began:.1f} s")
            log = made.log.read_text()
            assert log.endswith("\nEnded.\n")
            assert ("Building the demo corpus" in log) == (start == "first")
            assert made.written() == []
    with container(DRAGON, tmp_path / "doctor", volumes=[data]) as made:
        checked = made.call("dragon", "doctor")
        assert checked.returncode == 0, checked.stdout
        assert "parsers     see no files and no network\n" in checked.stdout
        assert "scans       are read by /usr/bin/tesseract: eng" in checked.stdout
