"""A small random model, for tests that leave it as it is."""

from __future__ import annotations

import pytest

from dragon.inference.backends.torch.model import LanguageModel
from tests import tiny


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return LanguageModel.load(tiny.save(tmp_path_factory.mktemp("model")), tiny.VOCABULARY)
