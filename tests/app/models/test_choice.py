"""Choosing a model: where it is kept, what stays, and where it would be in vain."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from app.models.choice import choose, following, kept, prepare, take_back
from app.models.model import Model, ModelKind
from app.settings import Settings
from dragon.errors import InvalidRequestError, StorageError
from dragon.inference.choice import CHOSEN
from dragon.models import EMBEDDED_WRITER
from peer.settings import PeerSettings

URL = "http://127.0.0.1:8080"
DEMO = Model(EMBEDDED_WRITER.stem, ModelKind.DEMO, "built in", str(EMBEDDED_WRITER))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGON_MODEL", raising=False)


def model(path: str) -> Model:
    return Model("a model", ModelKind.FILE, "here", path)


def server(**given: str | SecretStr) -> Model:
    return Model("s", ModelKind.SERVER, "", URL, **given)


def settings(**given: str) -> Settings:
    return Settings(_env_file=None, **given)


@pytest.mark.parametrize("path", ["/models/a.gguf", "/my models/it's #1 \\ $HOME.gguf"])
def test_the_next_start_takes_it(path: str) -> None:
    choose(model(path), settings())
    assert Settings.read().model == path


def test_it_goes_with_the_data_whatever_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGON_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DRAGON_PEER_CORPUS", "corpus")
    choose(model("/a.gguf"), Settings.read())
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert Settings.read().model == PeerSettings.read().model == "/a.gguf"
    assert following(tmp_path / "data") == "/a.gguf"
    # What is written by hand counts more, and is what a later choice changes.
    Path(".env").write_text("DRAGON_MODEL=/by-hand.gguf\n")
    assert Settings.read().model == following(tmp_path / "data") == "/by-hand.gguf"
    choose(model("/b.gguf"), Settings.read())
    assert Path(".env").read_text() == "DRAGON_MODEL='/b.gguf'\n"
    choose(DEMO, Settings.read())
    assert Settings.read().model == str(EMBEDDED_WRITER)


@pytest.mark.parametrize("by_hand", ["", "OTHER=1\n", "DRAGON_MODEL=/first.gguf\nOTHER=1\n"])
def test_a_choice_is_taken_back(by_hand: str) -> None:
    folder = settings().data_dir
    if by_hand:
        Path(".env").write_text(by_hand)
    else:
        choose(model("/first.gguf"), settings())
    first, before = following(folder), kept(folder)
    choose(server(served="b", key=SecretStr("sesame")), settings())
    assert following(folder) != first
    take_back(before)
    assert (following(folder), kept(folder)) == (first, before)
    if by_hand:
        assert Path(".env").read_text().replace("'", "") == by_hand
    assert "sesame" not in (folder / CHOSEN).read_text()


def test_a_choice_that_cannot_be_taken_back_says_why(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="could not be written"):
        take_back(kept(tmp_path / "gone"))


def test_all_else_in_the_file_stays(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text("# mine\nDRAGON_PORT=9000\nDRAGON_MODEL=old\nexport OTHER='x y' # why\n")
    env.chmod(0o640)
    choose(model("/new.gguf"), settings())
    assert env.read_text() == (
        "# mine\nDRAGON_PORT=9000\nDRAGON_MODEL='/new.gguf'\nexport OTHER='x y' # why\n"
    )
    assert env.stat().st_mode & 0o777 == 0o640
    choose(DEMO, settings())
    assert env.read_text() == "# mine\nDRAGON_PORT=9000\nexport OTHER='x y' # why\n"
    assert {path.name for path in tmp_path.iterdir()} == {".env", "data"}, "no half-written file"


def test_what_is_left_to_do_depends_on_where_the_peer_is() -> None:
    here = choose(model("/a.gguf"), settings())
    assert "Restart" in here
    assert "starts the device and its peer with the same model" in here
    there = choose(model("/a.gguf"), settings(peer_url="wss://peer.example/v1/link"))
    assert "wss://peer.example/v1/link needs a model with the same vocabulary" in there


def test_a_choice_without_effect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGON_MODEL", "/other.gguf")
    with pytest.raises(InvalidRequestError, match="environment, which counts more"):
        choose(model("/a.gguf"), settings())
    assert not Path("data").exists()


def test_what_does_not_serve_is_not_chosen() -> None:
    broken = Model("broken", ModelKind.FILE, "here", "/b.gguf", refusal="It is damaged.")
    with pytest.raises(InvalidRequestError, match=r"broken does not serve\. It is damaged\."):
        choose(broken, settings())


def test_a_file_without_a_name_is_run_through_a_link(tmp_path: Path) -> None:
    blob = tmp_path / "sha256-feed"
    blob.write_bytes(b"weights")
    link = tmp_path / "data/models/qwen2.5-0.5b.gguf"
    named = Model("qwen2.5:0.5b", ModelKind.FILE, "Ollama", str(link), file=blob)
    prepare(named)
    prepare(named)
    assert link.read_bytes() == b"weights"
    assert named.is_set_by(str(link))
    assert named.is_set_by(str(blob))


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    named = Model("a", ModelKind.FILE, "", str(tmp_path / "data/models/a.gguf"), file=tmp_path)
    with pytest.raises(StorageError, match=r"a\.gguf could not be made"):
        prepare(named)


def test_a_server_needs_a_tokenizer_that_a_file_must_not_keep(tmp_path: Path) -> None:
    choose(server(served="qwen", tokenizer="Qwen/Qwen2.5-7B"), settings())
    written = (tmp_path / "data/model.env").read_text()
    assert written == (
        f"DRAGON_MODEL='{URL}'\nDRAGON_MODEL_NAME='qwen'\nDRAGON_TOKENIZER='Qwen/Qwen2.5-7B'\n"
    )
    choose(model("/a.gguf"), settings())
    assert (tmp_path / "data/model.env").read_text() == "DRAGON_MODEL='/a.gguf'\n"


def test_a_key_is_kept_where_nobody_else_reads_it(tmp_path: Path) -> None:
    kept, by_hand = tmp_path / "data/model.env", tmp_path / ".env"
    closed = server(tokenizer="a/b", key=SecretStr("sesame"))
    choose(closed, settings())
    assert kept.stat().st_mode & 0o777 == 0o600
    read = Settings.read()
    assert (read.model, read.model_key) == (URL, SecretStr("sesame"))
    # A file that is written by hand may be anybody's to read: what else it says stays there.
    by_hand.write_text(f"DRAGON_MODEL={URL}\nDRAGON_MODEL_KEY=old\nDRAGON_PORT=9000\n")
    by_hand.chmod(0o644)
    choose(closed, settings())
    assert "KEY" not in by_hand.read_text()
    assert kept.read_text() == "DRAGON_MODEL_KEY='sesame'\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    read = Settings.read()
    assert (read.port, read.model_key) == (9000, SecretStr("sesame"))
    # It goes with the server that it is of.
    choose(DEMO, settings())
    assert Settings.read().model_key is None
    assert "sesame" not in repr(closed)


def test_a_key_that_the_environment_overrides_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGON_MODEL_KEY", "other-key")
    with pytest.raises(InvalidRequestError, match="DRAGON_MODEL_KEY is set") as refused:
        choose(server(key=SecretStr("sesame")), settings())
    assert "other-key" not in str(refused.value)


def test_a_link_to_a_file_elsewhere_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/env").write_text("DRAGON_PORT=9000\nDRAGON_MODEL=old\n")
    (tmp_path / ".env").symlink_to(tmp_path / "shared/env")
    choose(model("/a.gguf"), settings())
    assert (tmp_path / ".env").is_symlink()
    assert "DRAGON_MODEL='/a.gguf'" in (tmp_path / "shared/env").read_text()
