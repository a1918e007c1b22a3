"""A library is used only if all of its structures are as they are declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dragon.errors import ConfigurationError
from dragon.inference.backends.llama_cpp import api


class Altered:
    """The library, but for one field of the defaults of a context."""

    def __init__(self, field: str, value: Any) -> None:
        self._field = field
        self._value = value

    def __getattr__(self, name: str) -> Any:
        return getattr(api.library(), name)

    def llama_context_default_params(self) -> Any:
        params = api.library().llama_context_default_params()
        setattr(params, self._field, self._value)
        return params


@pytest.fixture
def unloaded() -> Iterator[None]:
    api.library.cache_clear()
    yield
    api.library.cache_clear()


def test_the_one_that_is_pinned_fits() -> None:
    assert api.misfit(api.library()) == ""


@pytest.mark.parametrize(
    ("field", "value"), [("n_seq_max", 4), ("type_k", 8), ("swa_full", False), ("n_samplers", 1)]
)
def test_a_default_elsewhere_is_named(field: str, value: Any) -> None:
    assert api.misfit(Altered(field, value)).startswith(f"{field} is ")


@pytest.mark.usefixtures("unloaded")
def test_another_version_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(api.VERSIONS, "llama_version", "9.9")
    with pytest.raises(ConfigurationError, match=r"another llama\.cpp .* not 9\.9\): pip install"):
        api.library()


@pytest.mark.usefixtures("unloaded")
def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"need llama\.cpp: pip install"):
        api.library()


def test_the_flag_that_ends_a_batch_is_read_without_python() -> None:
    flag = api.FFI.new("char[2]")
    stop = api.strlen()
    assert not stop(flag)
    flag[0] = b"x"
    assert stop(flag)
