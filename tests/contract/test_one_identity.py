"""Two devices with one key, or with one data directory copied: neither has a part in the other."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from dragon.link import control, registry
from dragon.protocol.messages import Candidate, Correction, Draft, Join, Target
from dragon.sampling.mixture import Side
from dragon.sampling.quantized import SCALE, WireDistribution
from dragon.sampling.role import Role
from harness import services
from harness.light_device import LightAnswer, light_device
from harness.raw_link import greeted, next_control, opening
from harness.services import Service, Setup
from tests.app.peer_link.toy_peer import until
from tests.contract.asking import Ask, ask_all, dragon, upload
from tests.contract.conftest import Pair

pytestmark = pytest.mark.services

TOKENS = 60
STREAM = 1  # the first of every device
NOTE = "The gate code of the cabin is heron-42-lantern."


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    return Setup(tmp_path_factory.mktemp("identity"), {"DRAGON_EXACT": "true"})


@pytest.fixture
def peer(exact_services: Pair) -> Service:
    return exact_services.peer


STEERING = (
    Correction(0, 3, 0, 0, (5, 6, 7)),
    Target(0, 3, 5, True, True, Role.DEVICE),
    Join(0, 0, (5, 6, 7)),
    Candidate(0, (5, 6, 7), -1.0, 0),
    Draft(0, 0, 3, 3, 0, 5, 1000, Side(WireDistribution.of([5], [SCALE]), 0)),
    control.ScoreTaken(),
    control.Close(reason="not yours"),
)


async def test_of_one_key_no_link_has_a_part_in_the_answers_of_another(peer: Service) -> None:
    async with light_device(peer.port) as one:
        alone = (await one.written(TOKENS)).text
    async with light_device(peer.port) as one, light_device(peer.port) as other:
        first, second = await one.ask(TOKENS), await other.ask(TOKENS)
        with greeted(peer.port) as third:
            while len(first.text) < 5 or len(second.text) < 5:
                await asyncio.sleep(0.005)
                assert not first.over.is_set()
            for message in STEERING:
                third.send(registry.encode(message, STREAM))
            third.send(registry.encode(control.Draining()))
            third.send(registry.encode(control.Ping(number=7)))
            # Nothing that came before the pong was of an answer.
            assert (await asyncio.to_thread(next_control, third))["kind"] == "pong"
            third.send(opening(STREAM))
            refused = await asyncio.to_thread(next_control, third)
            assert (refused["code"], refused["stream_id"]) == ("link.ending", STREAM)
            third.send(b"\xff" * 50)
            assert (await asyncio.to_thread(next_control, third))["kind"] == "error"
            with pytest.raises(ConnectionClosed):
                await asyncio.to_thread(next_control, third)
        await asyncio.gather(first.over.wait(), second.over.wait())
        assert first.text == second.text == alone


async def test_one_that_ends_takes_no_other_with_it(peer: Service) -> None:
    async with light_device(peer.port) as one:
        alone = (await one.written(TOKENS)).text
    answers: list[LightAnswer] = []
    async with light_device(peer.port) as one:
        async with light_device(peer.port) as other:
            answers += [await one.ask(TOKENS), await other.ask(TOKENS)]
            await until(lambda: all(answer.text for answer in answers))
        await answers[0].over.wait()
    assert answers[0].text == alone
    assert len(answers[1].text) < TOKENS


def test_devices_with_one_data_directory_copied_answer_as_each_would_alone(
    peer: Service, setup: Setup
) -> None:
    asks = [Ask("What is the gate code of the cabin?", "oneway", temperature=0.0)]
    asks += [Ask(f"What is the capital of {land}?", "oneway") for land in ("Kenya", "France")]
    copied = replace(setup, data=setup.data / "copied")
    with services.device(setup, peer.port) as one:
        upload(one, "cabin.txt", NOTE)
        alone = [replace(each, stats={}) for each in ask_all(one, asks)]
        assert all(each.participation for each in alone)
    shutil.copytree(setup.data / "device", copied.data / "device")
    with services.device(setup, peer.port) as one, services.device(copied, peer.port) as other:
        for each in (one, other):
            services.wait_joint(each)
        with ThreadPoolExecutor(2) as pool:
            both = list(pool.map(ask_all, (one, other), (asks, asks)))
        assert [[replace(each, stats={}) for each in replies] for replies in both] == [alone] * 2
        other.kill()
        assert [replace(each, stats={}) for each in ask_all(one, asks)] == alone
        for each in (one, other):
            verified = dragon("ledger", "verify", DRAGON_DATA_DIR=str(each.data))
            assert "the chain holds" in verified.stdout, verified.stderr
        assert httpx.get(f"{peer.url}/ready", timeout=60).status_code == 200
