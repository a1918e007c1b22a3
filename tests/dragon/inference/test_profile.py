"""The profile's file: what is read back, and what is not used. And what is decoded for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragon.inference.backends.torch.model import LanguageModel
from dragon.inference.profile import (
    CHUNK_TOKENS,
    FILE,
    Calibration,
    DecodeFit,
    Gain,
    Profile,
    decode_delays,
)

PROFILE = Profile(model="m", rows=2, decode=DecodeFit.of([10, 20], [0.1, 0.2]), rtt_s=0.1)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    gain = Gain(nats=0.01, stderr=0.002)
    made = Calibration(
        slope=6.5, embedder="e", windows=8, tokens=900, over_uniform=gain, over_default=gain
    )
    calibrated = PROFILE.model_copy(update={"calibration": made})
    for profile in (PROFILE, calibrated):
        profile.write(tmp_path)
        assert Profile.read(tmp_path, "m") == profile
    assert "6.5 nats" in calibrated.table(20)["a unit of cosine"]


def test_no_profile_and_another_models_are_not_used(tmp_path: Path) -> None:
    assert Profile.read(tmp_path, "m") is None
    PROFILE.write(tmp_path)
    assert Profile.read(tmp_path, "other") is None


@pytest.mark.parametrize("text", ["", "{}", '{"model": "m", "rows": 0}'])
def test_a_broken_profile_is_said_and_not_used(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text(text)
    assert Profile.read(tmp_path, "m") is None
    assert FILE in caplog.text


def test_contexts_grow_by_one_and_slots_are_given_back(model: LanguageModel) -> None:
    free = model.cache.free
    contexts, seconds = decode_delays(model, 2, steps=8)
    assert len(contexts) == len(seconds) == 8 - 3
    assert contexts == list(range(contexts[0], contexts[0] + 5))
    assert contexts[-1] == CHUNK_TOKENS + 1 + 8
    assert min(seconds) > 0
    assert model.cache.free == free
