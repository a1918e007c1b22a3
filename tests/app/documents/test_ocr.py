"""Text recognition: a program in the cell, what it finds, and what is said without it.

Covers `app.documents.readers.ocr`.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from PIL import Image

from app.documents.cell import layers
from app.documents.ingestion import Phase, Progress
from app.documents.parsing import Batch, Looked
from app.documents.readers.sniff import FileKind
from app.storage.tables import Status
from dragon.errors import DocumentError
from harness.adding import add
from tests.app.peer_link.toy_peer import until
from tests.app.stores import opened
from tests.documents import email, one_parsing, parse
from tests.scans import fake_tesseract, half_scanned_pdf, picture, saved, scanned_pdf

LINES = "The key hangs left of the door.", "Anna Roth has the phone 0151 2207."
SCAN = saved(picture("."), "PNG")
real = pytest.mark.skipif(shutil.which("tesseract") is None, reason="Tesseract is not installed")


@pytest.fixture(autouse=True)
async def one_worker() -> AsyncIterator[None]:
    async with one_parsing():
        yield


async def parsed(
    directory: Path, content: bytes, name: str = "a"
) -> tuple[FileKind, str, str | None]:
    source, out = directory / "in", directory / "out"
    source.write_bytes(content)
    kind, note = await parse(source, name, out)
    return kind, out.read_text(), note


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


Fake = Callable[[str], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a program in Tesseract's place that does this."""
    return lambda does: monkeypatch.setenv("PATH", str(fake_tesseract(tmp_path, does)))


@pytest.mark.usefixtures("without")
async def test_without_tesseract_it_is_said_what_to_do(tmp_path: Path) -> None:
    for content in (SCAN, scanned_pdf(picture("."))):
        with pytest.raises(DocumentError) as refused:
            await parsed(tmp_path, content)
        assert refused.value.message == (
            "The file has no text in it but pictures, as when it was scanned. Reading that takes "
            "text recognition (OCR): install Tesseract on this machine (`apt install "
            "tesseract-ocr`, `brew install tesseract`), then retry."
        )
    kind, text, note = await parsed(tmp_path, half_scanned_pdf())
    assert (kind, text.split("\f")[0].strip()) == (FileKind.PDF, "One.")
    assert note is not None
    assert note.startswith("1 of 3 pages have no text, as when they were scanned. Reading that")


ATTEMPTS = """
for name, attempt in dict(
    document=lambda: open({secret!r}).read(),
    folder=lambda: os.listdir({folder!r}),
    write=lambda: open({folder!r} + "/planted", "w"),
    temporary=lambda: open("/tmp/planted", "w"),
    network=lambda: socket.create_connection(("127.0.0.1", 9)),
    shell=lambda: os.execv("/bin/sh", ["sh", "-c", "true"]),
    service=lambda: os.kill(os.getppid(), 9),
    code=lambda: open({code!r}, "a"),
).items():
    words.append(name + "=" + tried(attempt))
"""


@pytest.mark.skipif(layers() != ("files", "calls"), reason="this system has no cell")
async def test_the_program_is_in_the_cell_too(tmp_path: Path, fake: Fake) -> None:
    data, code = tmp_path / "data", Path(__file__).parents[3] / "app" / "main.py"
    data.mkdir()
    does = ATTEMPTS.format(secret=str(data / "in"), folder=str(data), code=str(code))
    fake(does)
    _, text, _ = await parsed(data, SCAN)
    tried = dict(word.split("=") for word in text.split())
    assert len(tried) == 8
    assert set(tried.values()) == {"PermissionError"}


async def test_pages_of_a_pdf_that_are_pictures_are_recognised(tmp_path: Path, fake: Fake) -> None:
    fake("words = sys.argv[1:5]; confidence = 61")
    kind, text, note = await parsed(tmp_path, half_scanned_pdf())
    assert kind is FileKind.PDF
    assert [page.strip() for page in text.split("\f")] == [
        "One.",
        "stdin stdout -l eng+deu+fra",
        "",
    ]
    assert note == "Text recognition (OCR) was uncertain: page 2 (61 %)"


async def test_each_sentence_has_the_confidence_of_its_page(tmp_path: Path, fake: Fake) -> None:
    fake("words = ['A', 'plan.']; confidence = 61")
    (tmp_path / "in").write_bytes(half_scanned_pdf())
    found = {}

    async def take(batch: Batch | Looked) -> None:
        if isinstance(batch, Batch):
            found.update({each.text: (each.page, each.confidence) for each in batch.sentences})

    await parse(tmp_path / "in", "a", tmp_path / "out", take)
    assert found == {"One.": (1, None), "A plan.": (2, 61)}


async def test_each_page_that_is_looked_at_is_told(tmp_path: Path, fake: Fake) -> None:
    fake("words = ['A', 'plan.']")
    told: list[tuple[int, int]] = []

    async def take(found: Batch | Looked) -> None:
        if isinstance(found, Looked):
            told.append((found.page, found.of))

    frames = saved(picture("."), "TIFF", save_all=True, append_images=[picture(".")])
    for content, pages in (
        (half_scanned_pdf(), [(2, 3)]),
        (scanned_pdf(picture("."), picture(".")), [(1, 2), (2, 2)]),
        (frames, [(1, 2), (2, 2)]),
        (SCAN, [(1, 1)]),
    ):
        told.clear()
        (tmp_path / "in").write_bytes(content)
        await parse(tmp_path / "in", "a", tmp_path / "out", take)
        assert told == pages


async def test_ingestion_tells_of_uncertain_pages(tmp_path: Path, fake: Fake) -> None:
    go = tmp_path / "programs" / "lib" / "go"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    fake(f"{wait}\nwords = ['A', 'plan.']; confidence = 61")
    go.parent.mkdir()
    async with opened(tmp_path / "data") as store:
        document = await add(store, "plan.pdf", scanned_pdf(picture("."), picture(".")))
        seen = []
        async for each in await store.watch(document.id):
            seen.append(each)
            if (each.stage, each.done, each.total) == (Phase.PARSED, 0, 2):
                go.touch()
    assert Progress(Phase.PARSED, done=0, total=2, percent=0) in seen
    assert seen[-1].status == Status.PROCESSED
    assert seen[-1].message == (
        "Text recognition (OCR) was uncertain: page 1 (61 %), page 2 (61 %)"
    )


async def test_what_looks_like_a_picture_is_left_out(tmp_path: Path, fake: Fake) -> None:
    fake("words = ['|', '~']; confidence = 20")
    with pytest.raises(DocumentError, match=r"^The file has no text in it\.$"):
        await parsed(tmp_path, SCAN)


@pytest.mark.parametrize("does", ["sys.exit(1)", "os.abort()"])
async def test_a_program_that_fails_leaves_a_page_out(
    tmp_path: Path, fake: Fake, does: str
) -> None:
    fake(does)
    with pytest.raises(DocumentError, match="failed on the file"):
        await parsed(tmp_path, SCAN)
    _, _, note = await parsed(tmp_path, half_scanned_pdf())
    assert note is not None
    assert note.startswith("1 of 3 pages were not read: text recognition (OCR) failed on them")


def running(command: Path) -> list[str]:
    """Processes with this in their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(command).encode() in line:
            found.append(process.name)
    return found


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="it looks for the program in /proc")
async def test_a_program_that_hangs_ends_with_its_parser(tmp_path: Path, fake: Fake) -> None:
    fake("time.sleep(1000)")
    (tmp_path / "in").write_bytes(SCAN)
    program = tmp_path / "programs"
    task = asyncio.create_task(parse(tmp_path / "in", "a", tmp_path / "out"))
    await until(lambda: running(program))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not running(program))
    assert not (tmp_path / "out").exists()


async def test_a_scan_in_an_e_mail_is_recognised(tmp_path: Path, fake: Fake) -> None:
    fake("words = ['a', 'plan']; confidence = 70")
    _, text, _ = await parsed(tmp_path, email("See below.", {"plan.png": SCAN}))
    assert "Attachment: plan.png" in text
    assert "uncertain: page 1 (70 %)" in text
    assert text.endswith("a plan")


def declared_png(width: int, height: int) -> bytes:
    """A PNG that says how large it is, and has nothing in it."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = (b"IHDR", head), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")
    packed = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


async def test_images_that_are_damaged_or_mean_harm(tmp_path: Path, fake: Fake) -> None:
    fake("words = ['text']")
    for content, message in (
        (declared_png(100_000, 100_000), "The image has more than 100 megapixels."),
        (declared_png(11_000, 10_000), "The image has more than 100 megapixels."),
        (declared_png(100, 100), "This .png file is damaged."),
        (SCAN[: len(SCAN) // 2], "This .png file is damaged."),
        (saved(picture("."), "JPEG")[:2000], "This .jpeg file is damaged."),
        (saved(picture("."), "TIFF")[:2000], "This .tiff file is damaged."),
        (saved(picture("."), "WEBP")[:60], "This .webp file is damaged."),
        (b"II*\0" + bytes(100), "This .tiff file is damaged."),
    ):
        with pytest.raises(DocumentError, match=message):
            await parsed(tmp_path, content)
        assert not (tmp_path / "out").exists()


def turned() -> bytes:
    """A photo as phones take it: on its side, and saying so."""
    image = picture(*LINES).rotate(90, expand=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(image, "JPEG", exif=exif)


def on_nothing() -> bytes:
    """Black letters on a transparent ground, which is black underneath."""
    letters = picture(*LINES).point(lambda value: 255 - value)
    image = Image.new("RGBA", letters.size, (0, 0, 0, 0))
    image.putalpha(letters)
    return saved(image, "PNG")


@real
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        pytest.param(lambda: saved(picture(*LINES, mode="RGB"), "PNG"), FileKind.PNG, id="PNG"),
        pytest.param(lambda: saved(picture(*LINES, size=14), "PNG"), FileKind.PNG, id="screenshot"),
        pytest.param(on_nothing, FileKind.PNG, id="transparent"),
        pytest.param(turned, FileKind.JPEG, id="turned"),
        pytest.param(lambda: saved(picture(*LINES), "WEBP"), FileKind.WEBP, id="WebP"),
        pytest.param(lambda: saved(picture(*LINES, mode="1"), "TIFF"), FileKind.TIFF, id="fax"),
        pytest.param(
            lambda: saved(picture(*LINES).convert("I;16").point(lambda v: v * 256), "TIFF"),
            FileKind.TIFF,
            id="16 bits",
        ),
        pytest.param(lambda: scanned_pdf(picture(*LINES)), FileKind.PDF, id="PDF"),
    ],
)
async def test_text_in_pictures_is_read(tmp_path: Path, content, kind: FileKind) -> None:
    assert await parsed(tmp_path, content()) == (kind, "\n".join(LINES), None)


@real
async def test_each_page_of_a_tiff_is_one(tmp_path: Path) -> None:
    pages = [picture(line) for line in LINES]
    content = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert await parsed(tmp_path, content) == (FileKind.TIFF, "\f".join(LINES), None)


@real
async def test_what_is_hard_to_read_is_called_uncertain(tmp_path: Path) -> None:
    _, _, note = await parsed(tmp_path, scanned_pdf(picture(*LINES, blur=4)))
    assert note is not None
    assert note.startswith("Text recognition (OCR) was uncertain: page 1 (")
