"""Which hosts only this machine reaches: beyond them a service needs a key (`dragon.keys`)."""

from __future__ import annotations

import pytest

from dragon.keys import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_alone(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "dragon.example", ""])
def test_others_may_reach_it(host: str) -> None:
    assert not is_loopback(host)
