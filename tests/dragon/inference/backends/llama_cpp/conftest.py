"""Small random models in `.gguf` files, and an adapter of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dragon.inference.backends.llama_cpp.model import LlamaCpp
from harness import gguf_file
from tests import tiny

Load = Callable[..., LlamaCpp]
# For what does not depend on it.
ONE_FORMAT = pytest.mark.parametrize("tiny_gguf", ["f16"], indirect=True)


@pytest.fixture(scope="session", params=["f16", "q8_0"])
def tiny_gguf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model, in half precision or quantised, with its directory beside it."""
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "tiny.gguf"
    gguf_file.write(tiny.save(folder / "tiny"), path, request.param)
    return path


@pytest.fixture
def load(tiny_gguf: Path) -> Iterator[Load]:
    """Loads it, with the options that `LlamaCpp` has."""
    with ExitStack() as stack:

        def loaded(**options: Any) -> LlamaCpp:
            model = LlamaCpp(tiny_gguf, tiny.VOCABULARY, **{"threads": 1, **options})
            stack.callback(model.close)
            return model

        yield loaded
