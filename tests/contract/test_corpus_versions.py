"""A peer whose corpus is switched while it serves: answers under way keep theirs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import httpx
import pytest

from harness import services
from harness.services import Floor, Service, Setup
from peer.corpus.builder import build
from peer.corpus.versions import Versions
from tests.contract.asking import Ask, dragon, eventually, in_the_middle, streamed
from tests.samples import embedder

pytestmark = pytest.mark.services
ASK = Ask("The capital of Kenya is", "oneway", seed=5, tokens=60, raw=True)
TEXTS = {
    "v1": "Nairobi is the capital of Kenya, and its largest city. Kenya lies on the equator.",
    "v2": "The capital of Kenya is Nairobi since 1905; before that it was Mombasa by the sea.",
}


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    data = tmp_path_factory.mktemp("versions")
    for name, text in TEXTS.items():
        (data / "source.tsv").write_text(f"{name}\tKenya\t{text}\n")
        build(data / "source.tsv", data / "corpus", embedder())
    return Versions(data / "corpus")


@pytest.fixture(scope="module")
def running(
    versions: Versions, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, Service]]:
    """A device and its peer."""
    floor = Floor(20)
    setup = Setup(tmp_path_factory.mktemp("running"), {"DRAGON_EXACT": "true"}, floor, floor)
    with (
        services.peer(setup, versions.root) as peer,
        services.device(setup, peer.port) as device,
    ):
        services.wait_joint(device)
        yield device, peer


def switch(versions: Versions, name: str) -> subprocess.CompletedProcess[str]:
    return dragon("corpus", "switch", name, str(versions.root))


def serves(peer: Service) -> str:
    return str(httpx.get(f"{peer.url}/ready", timeout=60, verify=False).json()["corpus"])


def wait_until(peer: Service, version: str) -> None:
    eventually(lambda: serves(peer) == version)


def test_an_answer_under_way_keeps_its_version(
    running: tuple[Service, Service], versions: Versions
) -> None:
    device, peer = running
    texts = {}
    for name in ("v1", "v2"):
        versions.serve(name)
        wait_until(peer, name)
        texts[name], told = streamed(device, ASK)
        assert {source["id"] for source in told["sources"]} == {name}

    def switched() -> None:
        versions.serve("v1")
        wait_until(peer, "v1")

    text, told = streamed(device, ASK, in_the_middle(switched))
    assert text == texts["v2"] != texts["v1"]
    assert {source["id"] for source in told["sources"]} == {"v2"}
    assert streamed(device, ASK)[0] == texts["v1"]


def test_a_damaged_version_is_refused_and_the_one_before_goes_on(
    running: tuple[Service, Service], versions: Versions
) -> None:
    device, peer = running
    versions.serve("v1")
    wait_until(peer, "v1")
    text, _ = streamed(device, ASK)
    vectors = versions.root / "v2" / "shard-0" / "vectors.f16"
    whole = vectors.read_bytes()
    vectors.write_bytes(whole[:-2])
    refused = switch(versions, "v2")
    assert refused.returncode == 1
    assert "vectors.f16 is not as it was built. Build it again" in refused.stderr
    assert "`dragon corpus switch v1`" in refused.stderr
    assert versions.current == "v1"
    versions.serve("v2")  # by somebody else
    eventually(lambda: "the corpus stays v1" in peer.log.read_text())
    assert serves(peer) == "v1"
    assert streamed(device, ASK)[0] == text
    vectors.write_bytes(whole)
    assert switch(versions, "v2").returncode == 0
    wait_until(peer, "v2")
