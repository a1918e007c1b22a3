"""Everything that is found on a machine, as one list.

Covers `app.models.model`.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.models.found import look, model_named
from app.models.model import Model, ModelKind
from app.settings import Settings
from dragon.errors import NotFoundError
from dragon.models import EMBEDDED_WRITER


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.delenv("DRAGON_MODEL", raising=False)
    monkeypatch.setattr("app.models.found.PORTS", {9: "nothing"})
    return tmp_path


def test_without_any_other_the_demo_model_is_there(home: Path) -> None:
    listing = look(Settings(_env_file=None))
    assert [model.kind for model in listing.models] == [ModelKind.DEMO]
    assert listing.current == listing.next == EMBEDDED_WRITER.stem


def test_a_file_counts_once_and_names_are_distinct(home: Path, embedded_gguf: Path) -> None:
    for folder in ("Downloads", "models", ".lmstudio/models"):
        (home / folder).mkdir(parents=True)
    shutil.copy(embedded_gguf, home / "models/a.gguf")
    (home / "Downloads/b.gguf").symlink_to(home / "models/a.gguf")
    shutil.copy(embedded_gguf, home / ".lmstudio/models/a.gguf")
    names = [model.name for model in look(Settings(_env_file=None)).models]
    assert names == [EMBEDDED_WRITER.stem, "a", str(home / "models/a.gguf")]


def test_a_short_name_is_lm_studios_file_before_the_hubs(home: Path, embedded_gguf: Path) -> None:
    theirs = home / ".lmstudio/models/a.gguf"
    hub = home / "hub/models--someone--a"
    commit = "0" * 40
    cached = hub / "snapshots" / commit / "a.gguf"
    for path in (theirs, cached):
        path.parent.mkdir(parents=True)
        shutil.copy(embedded_gguf, path)
    (hub / "refs").mkdir()
    (hub / "refs/main").write_text(commit)
    listing = look(Settings(_env_file=None))
    assert listing.named("a").setting == str(theirs)
    assert listing.named(str(cached)).where == "Hugging Face cache"


def test_it_tells_the_model_in_use_from_that_of_the_next_start(
    home: Path, embedded_gguf: Path
) -> None:
    (home / ".env").write_text(f"DRAGON_MODEL={embedded_gguf}\n")
    listing = look(Settings(_env_file=None))
    assert (listing.current, listing.next) == (EMBEDDED_WRITER.stem, embedded_gguf.stem)


def test_what_is_set_by_hand_is_listed_even_where_nothing_is_found(home: Path) -> None:
    running = Settings(_env_file=None, model="someone/not-here")
    listing = look(running)
    assert listing.current == "someone/not-here"
    assert "not downloaded" in listing.named("someone/not-here").where


def test_a_name_is_one_of_the_list_or_what_the_setting_takes(
    home: Path, embedded_gguf: Path
) -> None:
    settings = Settings(_env_file=None)
    assert model_named(EMBEDDED_WRITER.stem, settings).kind is ModelKind.DEMO
    assert model_named(str(embedded_gguf), settings).kind is ModelKind.FILE
    assert model_named("http://10.0.0.1:8080", settings).kind is ModelKind.SERVER
    assert model_named("someone/model", settings).kind is ModelKind.DIRECTORY
    with pytest.raises(NotFoundError, match=r"No model is called 'nothing'"):
        model_named("nothing", settings)


def test_a_key_that_is_set_is_for_the_server_that_is_set(home: Path) -> None:
    """Without one, for any that asks."""
    key, url = SecretStr("sesame"), "http://10.0.0.1:8080"
    for setting, sent in ((url, key), ("http://10.0.0.2:8080", None), ("a/b", key)):
        running = Settings(_env_file=None, model=setting, model_key=key, tokenizer="a/b")
        assert model_named(url, running).key == sent


def test_what_does_not_fit_into_memory_does_not_serve() -> None:
    model = Model("a", ModelKind.FILE, "", "/a.gguf", memory=40_000_000_000)
    assert "needs about 40.0 GB of memory; this machine has 16.0 GB" in (
        model.within(16_000_000_000).refusal
    )
    assert not model.within(64_000_000_000).refusal
    assert replace(model, refusal="It is damaged.").within(1).refusal == "It is damaged."
