"""A watched folder's documents follow its files, by real events.

Covers `app.documents.folders.folders` and `app.documents.folders.keeping`.
"""

from __future__ import annotations

import errno
import mailbox
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.documents.folders.folders import FileState
from app.documents.folders.watcher import EMPTY, TOO_LARGE, FolderState
from app.documents.uploads import MAX_BYTES
from dragon.errors import InvalidRequestError, NotFoundError
from dragon.retrieval.embedder import Embedder
from harness.adding import add
from tests.app.documents.folders.watched import Watched, becomes, eventually, watching
from tests.app.stores import files, finished, opened, settled
from tests.documents import email

KEY = "The spare key hangs under the third flowerpot."
CODE = "The router's passcode is K7-QX41."
INDEXED, UNREAD, LEFT_OUT = FileState.INDEXED, FileState.UNREAD, FileState.LEFT_OUT


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    async with watching(tmp_path) as watched:
        yield watched


@pytest.fixture
def embeddings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is embedded for a document, as it happens."""
    done: list[str] = []
    embed = Embedder.embed

    def noted(self: Embedder, texts: list[str]) -> object:
        done.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(Embedder, "embed", noted)
    return done


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Paths that the system does not let the device open: tests may run as root."""
    paths: set[Path] = set()

    opens = os.open

    def guarded(path: Any, *rest: Any, **named: Any) -> int:
        if os.fspath(path) in {each.name for each in paths}:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opens(path, *rest, **named)

    monkeypatch.setattr(os, "open", guarded)
    return paths


async def left(*where: Any) -> list[str]:
    return files(*where)


async def test_what_is_there_and_what_comes_is_found(watched: Watched) -> None:
    (watched.root / "key.txt").write_text(KEY)
    (watched.root / "deep" / "er").mkdir(parents=True)
    (watched.root / "deep" / "er" / "code.md").write_text(CODE)
    await watched.settled(**{"key__txt": INDEXED, "deep/er/code__md": INDEXED})
    assert await watched.finds("Where is the spare key?") == [KEY, CODE]
    assert {each.collection for each in await watched.store.list()} == {"Notes"}
    folder = await watched.folder()
    assert (folder.state, folder.files[INDEXED]) == (FolderState.WATCHED, 2)


async def test_names_are_clean_in_every_directory(watched: Watched) -> None:
    """Of `\\\\there`, Windows would take the file for a share, which has no name."""
    (watched.root / "c:key.txt").write_text(KEY)
    for directory, text in (("deep", CODE), ("\\\\there", "Tea is served at four.")):
        (watched.root / directory).mkdir()
        (watched.root / directory / "c:note.txt").write_text(text)
    await becomes(["key.txt", "note.txt", "note.txt"], watched.names)


async def test_a_change_takes_the_place_of_what_was_there(watched: Watched) -> None:
    note = watched.root / "key.txt"
    before = await watched.only(note.name, KEY)
    note.write_text(KEY.replace("flowerpot", "doormat"))

    async def changed() -> bool:
        found = await watched.finds("Where is the spare key?")
        assert len(found) == 1  # the old or the new, never both or none
        return "doormat" in found[0]

    await eventually(changed)
    await watched.settled(key__txt=INDEXED)
    (after,) = await watched.store.list()
    assert after.id != before.id
    kept = f"files/{after.id}"
    assert files(watched.data, "files") == [kept, f"{kept}/original", f"{kept}/text"]


async def test_a_moved_file_keeps_its_vectors(watched: Watched, embeddings: list[str]) -> None:
    before = await watched.only("key.txt", KEY)
    done = len(embeddings)
    (watched.root / "home").mkdir()
    (watched.root / "key.txt").rename(watched.root / "home" / "spare.txt")
    await watched.settled(**{"home/spare__txt": INDEXED})
    (watched.root / "home").rename(watched.root / "house")
    await watched.settled(**{"house/spare__txt": INDEXED})
    (after,) = await watched.store.list()
    assert (after.id, after.filename) == (before.id, "spare.txt")
    assert len(embeddings) == done


async def test_copies_share_a_document_until_the_last_is_gone(watched: Watched) -> None:
    for name in ("a.txt", "b.txt", "c.csv"):
        (watched.root / name).write_text(KEY)
    await watched.settled(a__txt=INDEXED, b__txt=INDEXED, c__csv=INDEXED)
    assert len(await watched.store.list()) == 2  # a .csv is read otherwise
    kept = (await watched.files())["a.txt"].document
    (watched.root / "a.txt").unlink()
    (watched.root / "c.csv").unlink()
    await watched.settled(b__txt=INDEXED)
    (document,) = await watched.store.list()
    assert (document.id, document.filename) == (kept, "b.txt")
    (watched.root / "b.txt").unlink()
    await watched.settled()
    assert await watched.store.list() == []
    await becomes([], left, watched.data, "files", "index")


async def test_an_old_text_that_comes_back_is_one_document(watched: Watched) -> None:
    note = watched.root / "key.txt"
    await watched.only(note.name, KEY)
    for text in (CODE, KEY):
        note.write_text(text)
        await becomes([text], watched.finds, "key or passcode")
    assert await watched.names() == ["key.txt"]


async def test_what_cannot_be_read_says_why_and_is_no_document(watched: Watched) -> None:
    (watched.root / "empty.txt").touch()
    (watched.root / "photo.heic").write_bytes(bytes(100))
    with (watched.root / "film.txt").open("wb") as film:
        film.truncate(MAX_BYTES + 1)
    await watched.settled(empty__txt=UNREAD, photo__heic=UNREAD, film__txt=UNREAD)
    found = await watched.files()
    assert found["empty.txt"].problem == EMPTY
    assert found["film.txt"].problem == TOO_LARGE
    assert "binary" in (found["photo.heic"].problem or "")
    assert await watched.store.list() == []
    await becomes([], left, watched.data, "files", "incoming")
    (watched.root / "empty.txt").write_text(KEY)
    (watched.root / "film.txt").unlink()
    await watched.settled(empty__txt=INDEXED, photo__heic=UNREAD)


async def test_a_file_is_read_once_that_is_permitted(watched: Watched, refused: set[Path]) -> None:
    note = watched.root / "key.txt"
    refused.add(note)
    note.write_text(KEY)
    await watched.settled(key__txt=UNREAD)
    problem = (await watched.files())["key.txt"].problem
    assert problem == "The file cannot be opened: Permission denied."
    refused.clear()
    note.chmod(0o600)
    await watched.settled(key__txt=INDEXED)


async def test_what_is_in_a_closed_directory_stays(watched: Watched, refused: set[Path]) -> None:
    inner = watched.root / "inner"
    inner.mkdir()
    (inner / "key.txt").write_text(KEY)
    await watched.settled(**{"inner/key__txt": INDEXED})
    refused.add(inner)
    (watched.root / "code.txt").write_text(CODE)
    await watched.settled(**{"inner/key__txt": INDEXED, "code__txt": INDEXED})
    (watched.root / "code.txt").unlink()  # what is given up takes longer than a closed one would
    await watched.settled(**{"inner/key__txt": INDEXED})
    assert await watched.names() == ["key.txt"]


async def test_delivered_mail_is_named_by_subject(watched: Watched, embeddings: list[str]) -> None:
    box = mailbox.Maildir(watched.root / "Mail")
    message = mailbox.MaildirMessage(email(CODE, {}))
    key = box.add(message)

    await becomes(["The keys of the hut"], watched.names)
    (before,) = await watched.files()
    await watched.settled(**{before: INDEXED})
    assert CODE in await watched.finds("What is the passcode?")
    done = len(embeddings)
    message.set_subdir("cur")
    message.add_flag("S")  # it was read: a file of another name
    box[key] = message

    async def moved() -> bool:
        files = await watched.files()
        return before not in files and len(files) == 1

    await eventually(moved)
    assert await watched.names() == ["The keys of the hut"]
    assert len(embeddings) == done


async def test_front_matter_is_kept_beside_the_text(watched: Watched) -> None:
    document = await watched.only("a.md", f"---\ntags: [hut]\ntitle: Keys\n---\n{KEY}\n")
    assert document.properties == {"title": "Keys", "tags": ["hut"]}
    assert await watched.finds("Where is the spare key?") == [KEY]


async def test_what_is_left_out_is_no_document(watched: Watched) -> None:
    (watched.root / ".dragonignore").write_text("/drafts/\n*.log\n!keep.log\n")
    for name in ("drafts", "node_modules", ".obsidian"):
        (watched.root / name).mkdir()
        (watched.root / name / "key.txt").write_text(KEY)
    for name in ("a.log", "keep.log", "~$key.docx", "b.txt~"):
        (watched.root / name).write_text(f"{name} {KEY}")
    (watched.root / "c.txt").write_text(CODE)
    await watched.settled(keep__log=INDEXED, c__txt=INDEXED)
    (watched.root / ".dragonignore").write_text("*.log\n")
    await watched.settled(**{"c__txt": INDEXED, "drafts/key__txt": INDEXED})


async def test_a_file_is_read_once_it_is_written(watched: Watched) -> None:
    (watched.root / "other.txt").write_text(CODE)
    with (watched.root / "key.txt").open("w") as note:
        note.write("The first half. ")
        note.flush()

        async def noticed() -> bool:
            note.write("More. ")
            note.flush()
            return (await watched.states()).get("other.txt") == INDEXED

        await eventually(noticed)
        assert (await watched.states()).get("key.txt", FileState.WAITING) == FileState.WAITING
        note.write(KEY)
    await watched.settled(key__txt=INDEXED, other__txt=INDEXED)
    assert KEY in await watched.finds("Where is the spare key?")


async def test_a_deletion_is_remembered_and_touches_no_file(watched: Watched) -> None:
    note = watched.root / "diary.txt"
    document = await watched.only(note.name, KEY)
    await watched.store.delete(document.id)
    await watched.settled(diary__txt=LEFT_OUT)
    assert note.read_text() == KEY
    note.rename(watched.root / "private.txt")
    await watched.settled(private__txt=LEFT_OUT)
    (watched.root / "private.txt").write_text(CODE)
    (watched.root / "new.txt").write_text("The kettle is blue.")
    await watched.settled(private__txt=LEFT_OUT, new__txt=INDEXED)
    assert await watched.names() == ["new.txt"]


async def test_cancelling_a_document_leaves_its_file_out(watched: Watched) -> None:
    note = watched.root / "key.txt"
    document = await watched.only(note.name, KEY)
    async with watched.store._sessions.begin() as session:  # as if it were still being read
        (await session.get_one(type(document), document.id)).status = "uploaded"
    await watched.store.cancel(document.id)
    watched.store.folders._watchers[watched.id].look_again()
    await watched.settled(key__txt=LEFT_OUT)
    assert await watched.store.list() == []


async def test_an_upload_of_a_watched_file_outlives_it(watched: Watched) -> None:
    note = watched.root / "key.txt"
    document = await watched.only(note.name, KEY)
    uploaded = await add(watched.store, "key.txt", KEY.encode(), collection="Notes")
    assert uploaded.id == document.id
    note.unlink()
    await watched.settled()
    assert await watched.names() == ["key.txt"]


async def test_a_file_that_was_uploaded_before_is_that_document(watched: Watched) -> None:
    uploaded = await add(watched.store, "key.txt", KEY.encode(), collection="Notes")
    await finished(watched.store, uploaded)
    note = watched.root / "key.txt"
    await watched.only(note.name, KEY)
    assert [each.id for each in await watched.store.list()] == [uploaded.id]
    note.write_text(CODE)
    await becomes(["key.txt", "key.txt"], watched.names)  # what somebody uploaded stays


async def test_an_upload_that_replaces_leaves_the_folders_documents(watched: Watched) -> None:
    await watched.only("key.txt", KEY)
    await add(watched.store, "key.txt", CODE.encode(), collection="Notes", replace=True)
    await settled(watched.store)
    assert await watched.names() == ["key.txt", "key.txt"]


async def test_a_folder_that_disappears_keeps_documents(watched: Watched, tmp_path: Path) -> None:
    await watched.only("key.txt", KEY)
    watched.root.rename(tmp_path / "elsewhere")
    await becomes(FolderState.MISSING, watched.state)
    watched.root.mkdir()  # as where a drive is mounted
    await becomes(FolderState.MISSING, watched.state)
    assert await watched.finds("Where is the spare key?") == [KEY]
    watched.root.rmdir()
    (tmp_path / "elsewhere").rename(watched.root)
    await becomes(FolderState.WATCHED, watched.state)
    (watched.root / "code.txt").write_text(CODE)  # it is listened to again
    await watched.settled(key__txt=INDEXED, code__txt=INDEXED)


async def test_changes_while_it_was_off_are_followed(tmp_path: Path, embeddings: list[str]) -> None:
    async with watching(tmp_path) as watched:
        for name in ("same", "changed", "moved", "deleted"):
            (watched.root / f"{name}.txt").write_text(f"The {name} one is here.")
        await watched.settled(
            same__txt=INDEXED, changed__txt=INDEXED, moved__txt=INDEXED, deleted__txt=INDEXED
        )
    (watched.root / "moved.txt").rename(watched.root / "there.txt")
    (watched.root / "changed.txt").write_text("The changed one is another.")
    (watched.root / "deleted.txt").unlink()
    os.utime(watched.root / "same.txt")
    embeddings.clear()
    async with watching(tmp_path) as watched:
        await watched.settled(same__txt=INDEXED, changed__txt=INDEXED, there__txt=INDEXED)
        assert await watched.names() == ["changed.txt", "same.txt", "there.txt"]
    assert embeddings == ["The changed one is another."]


async def test_a_removed_folder_takes_its_documents_and_leaves_its_files(watched: Watched) -> None:
    for name, text in (("key.txt", KEY), ("code.txt", CODE)):
        (watched.root / name).write_text(text)
    await watched.settled(key__txt=INDEXED, code__txt=INDEXED)
    await add(watched.store, "code.txt", CODE.encode(), collection="Notes")
    await watched.store.folders.remove(watched.id)
    assert await watched.names() == ["code.txt"]  # somebody uploaded it
    assert sorted(path.name for path in watched.root.iterdir()) == ["code.txt", "key.txt"]
    with pytest.raises(NotFoundError):
        await watched.store.folders.get(watched.id)


async def test_a_folder_is_watched_once(watched: Watched, tmp_path: Path) -> None:
    folders = watched.store.folders
    (tmp_path / "link").symlink_to(watched.root)
    assert await folders.add(tmp_path / "link") == watched.id
    (watched.root / "inner").mkdir()
    for path, why in (
        (watched.root / "inner", "which is watched already"),
        (tmp_path, "remove that one first"),
        (watched.data / "files", "data directory"),
        (tmp_path / "nowhere", "No such file"),
        (Path("Notes"), "the whole path"),
    ):
        with pytest.raises(InvalidRequestError, match=why):
            await folders.add(path)
    with pytest.raises(InvalidRequestError, match="collection 'Notes'"):
        await folders.add(watched.root, "other")


async def test_adding_a_folder_again_tries_what_could_not_be_read(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.documents.folders.watcher.MAX_BYTES", 10)
    (watched.root / "key.txt").write_text(KEY)
    await watched.settled(key__txt=UNREAD)
    monkeypatch.undo()
    await watched.store.folders.add(watched.root)
    await watched.settled(key__txt=INDEXED)


async def test_the_device_does_not_read_its_own_data(tmp_path: Path) -> None:
    (tmp_path / "key.txt").write_text(KEY)
    async with opened(tmp_path / "data") as store:
        identity = await store.folders.add(tmp_path, "all")
        watched = Watched(store, tmp_path / "data", tmp_path, identity)
        await watched.settled(key__txt=INDEXED)


async def test_a_folder_of_the_settings_is_watched(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", watch=[tmp_path / "Notes", tmp_path]) as store:
        assert [each.path for each in await store.folders.list()] == [str(tmp_path)]
