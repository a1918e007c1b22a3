"""Memory of slots: what is used takes pages or blocks, and they go back."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from dragon.inference.backends.slots import BLOCK
from dragon.inference.backends.torch import cache
from dragon.inference.backends.torch.cache import Pool, Reserved

CPU = torch.device("cpu")


def resident(tensor: torch.Tensor) -> int:
    """KiB of memory that a tensor's own pages take."""
    page = mmap.PAGESIZE
    first, last = tensor.data_ptr() // page, (tensor.data_ptr() + tensor.nbytes - 1) // page
    with Path("/proc/self/pagemap").open("rb") as pages:
        pages.seek(8 * first)
        entries = np.frombuffer(pages.read(8 * (last - first + 1)), np.uint64)
    return int((entries >> np.uint64(63)).sum()) * page // 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_answer_takes_what_it_uses_and_gives_it_back() -> None:
    layout = Reserved(slots=100, context=32_768)
    stored = layout.zeros(torch.empty(1, 4, 1, 32))
    assert stored.shape == (100, 32_768, 4, 32)  # 1.6 GB
    assert resident(stored) == 0
    stored[3, : 4 * BLOCK] = 1.0
    stored[4, :BLOCK] = 2.0
    before = resident(stored)
    layout.give_back(3, 4)
    assert before - resident(stored) == 4 * BLOCK * 4 * 32 * 4 // 1024
    assert not stored[3].any()
    assert bool((stored[4, :BLOCK] == 2.0).all())


def test_pages_that_a_slot_shares_with_the_next_one_stay() -> None:
    layout = Reserved(slots=3, context=BLOCK)
    stored = layout.zeros(torch.empty(1, 1, 1, 1))  # a slot is a quarter of a page
    stored[:] = 1.0
    layout.give_back(1, 1)
    assert bool((stored[0] == 1.0).all())
    assert bool((stored[2] == 1.0).all())


def test_blocks_of_a_pool_belong_to_one_slot_at_a_time() -> None:
    pool = Pool(5)
    pool.take(7, 2)
    pool.take(2, 3)
    places = pool.places([7, 2], torch.arange(2 * BLOCK).expand(2, -1))
    assert len(places.unique()) == 4 * BLOCK
    pool.give_back(7, 2)
    pool.take(1, 2)
    where = pool.where([1, 2], 3 * BLOCK)
    assert where.shape == (2, 3)
    assert not set(where[0].tolist()) & set(where[1].tolist())


def test_where_addresses_cannot_be_had_there_is_a_pool() -> None:
    assert isinstance(cache.slot_memory(4, 512, 8, 64, CPU), Reserved)
    assert isinstance(cache.slot_memory(4, 512, 8, 64, torch.device("meta")), Pool)
    with patch("mmap.mmap", side_effect=OSError("Cannot allocate memory")):
        assert isinstance(cache.slot_memory(4, 512, 8, 64, CPU), Pool)
