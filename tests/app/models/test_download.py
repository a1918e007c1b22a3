"""Models from a hub: whole and checked, or continued where an attempt ended.

Covers `app.models.download` and `app.models.catalogue`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.models.catalogue import OFFERS, offer_named
from app.models.download import DownloadError, Downloads, DownloadState, Standing, fetch
from app.models.model import in_usual_folders
from harness.faults.hub import Hub, serving
from tests.app.conftest import wait_until

OFFER = offer_named("smollm3-3b")


@pytest.fixture
def hub(embedded_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(Hub(embedded_gguf.read_bytes())) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def silent(there: int, size: int) -> None:
    """Nobody wants to know how far it is."""


def standing(downloads: Downloads, folder: Path) -> Standing:
    """Of the offer."""
    return next(each for each in downloads.standings(folder) if each.offer is OFFER)


def test_it_comes_whole_and_is_found_under_its_name(hub: Hub, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = fetch(OFFER, tmp_path / "models", lambda *how_far: told.append(how_far))
    assert path.read_bytes() == hub.content
    assert told[0] == (0, len(hub.content))
    assert told[-1] == (len(hub.content), len(hub.content))
    assert [file.name for file in path.parent.iterdir()] == ["SmolLM3-3B.gguf"]
    (model,) = in_usual_folders(tmp_path / "home", tmp_path)
    assert (model.name, model.setting, model.refusal) == ("SmolLM3-3B", str(path), "")


def test_a_connection_that_breaks_is_gone_on_from(hub: Hub, tmp_path: Path) -> None:
    hub.breaks = [300_000, 500_000]
    assert fetch(OFFER, tmp_path, silent).read_bytes() == hub.content
    starts = [int(str(each).removeprefix("bytes=").rstrip("-")) for each in hub.ranges]
    assert starts[0] == 0
    assert 0 < starts[1] <= 300_000
    assert starts[1] < starts[2] <= 800_000


def test_a_later_attempt_goes_on_where_the_first_one_ended(hub: Hub, tmp_path: Path) -> None:
    hub.breaks = [300_000, 0]
    with pytest.raises(DownloadError, match="Check the connection"):
        fetch(OFFER, tmp_path, silent)
    there = OFFER.part(tmp_path).stat().st_size
    assert there > 0
    hub.ranges.clear()
    assert fetch(OFFER, tmp_path, silent).read_bytes() == hub.content
    assert hub.ranges == [f"bytes={there}-"]


def test_what_comes_damaged_is_deleted(hub: Hub, tmp_path: Path) -> None:
    hub.damages = True
    with pytest.raises(DownloadError, match="came damaged"):
        fetch(OFFER, tmp_path, silent)
    assert list(tmp_path.iterdir()) == []


def test_a_hub_that_refuses_or_is_away_is_told_in_a_sentence(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.status = 403
    with pytest.raises(DownloadError, match=r"does not give SmolLM3-3B now \(status 403\)"):
        fetch(OFFER, tmp_path, silent)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match="cannot be reached"):
        fetch(OFFER, tmp_path, silent)


def test_one_that_is_cancelled_leaves_nothing_and_may_be_fetched_again(
    hub: Hub, tmp_path: Path
) -> None:
    downloads = Downloads()
    assert standing(downloads, tmp_path).stage is DownloadState.NONE
    hub.flows.clear()
    downloads.start(OFFER, tmp_path)
    wait_until(lambda: standing(downloads, tmp_path).there > 0)
    coming = standing(downloads, tmp_path)
    assert (coming.stage, coming.size) == (DownloadState.COMING, len(hub.content))
    with pytest.raises(DownloadError, match="being downloaded already"):
        fetch(OFFER, tmp_path, silent)
    downloads.cancel(OFFER, tmp_path)
    hub.flows.set()
    wait_until(lambda: standing(downloads, tmp_path).stage is not DownloadState.PART)
    assert standing(downloads, tmp_path).stage is DownloadState.NONE
    downloads.start(OFFER, tmp_path)
    wait_until(lambda: standing(downloads, tmp_path).stage is not DownloadState.COMING)
    assert standing(downloads, tmp_path).stage is DownloadState.HERE


def test_a_failed_attempt_says_why(hub: Hub, tmp_path: Path) -> None:
    hub.status = 404
    downloads = Downloads()
    downloads.start(OFFER, tmp_path)
    wait_until(lambda: standing(downloads, tmp_path).stage is not DownloadState.COMING)
    found = standing(downloads, tmp_path)
    assert found.stage is DownloadState.NONE
    assert "status 404" in found.problem


def test_offers_have_names_of_their_own_and_grow() -> None:
    assert len({offer.name.lower() for offer in OFFERS}) == len(OFFERS)
    assert [offer.size for offer in OFFERS] == sorted(offer.size for offer in OFFERS)
    assert all(offer.size < offer.memory for offer in OFFERS)
