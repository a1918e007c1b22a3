"""The cost of ingesting a text: `bench.documents --prose FILE` runs it.

A device without a peer ingests the beginning of the file, then ten times as much and more in one
text, with a note uploaded beside it. Times count from before the upload. In turns with the device,
on the same core, sentence-transformers embeds the shorter text in pieces of 256 tokens.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from dragon.retrieval.embedder import packaged_directory
from harness import services
from harness.memory import resident
from harness.services import Service

_PAUSE_S = 0.05
_NEEDLES = ("Zorbal keeps the Quillon ledger.", "Vexima paints the Ottoril gate.")
_NOTE = "Ulmira feeds the Pendrak geese."


class Uploaded:
    """A text that a device ingests; each wait returns seconds since before the upload."""

    def __init__(self, client: httpx.Client, name: str, text: str) -> None:
        self._client = client
        self._began = time.perf_counter()
        body = {"file": (name, text.encode())}
        self.id = client.post("/v1/files", files=body).raise_for_status().json()["id"]

    def found(self, sentence: str, pause_s: float = _PAUSE_S) -> float:
        """Wait until a search finds a sentence by its words."""
        while not self._finds(sentence):
            time.sleep(pause_s)
        return self._elapsed()

    def _finds(self, sentence: str) -> bool:
        body = {"query": sentence, "top_k": 1}
        hits = self._client.post("/v1/search", json=body).raise_for_status().json()["data"]
        return any(sentence in str(hit) for hit in hits)

    def processed(self) -> float:
        """Wait until all of it is embedded."""
        while (status := self._file()["status"]) != "processed":
            if status == "error":
                raise RuntimeError(f"the text was not taken in: {self._file()}")
            time.sleep(_PAUSE_S)
        return self._elapsed()

    def _file(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(f"/v1/files/{self.id}").json()
        return found

    def _elapsed(self) -> float:
        return round(time.perf_counter() - self._began, 2)


def size_of(directory: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def processor_s(service: Service) -> float:
    """Seconds of processor that a service has taken, without the parsers it started."""
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def sentence_transformers_s(text: str) -> float:
    """Seconds of processor that sentence-transformers takes for a text in pieces of 256 tokens."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(packaged_directory()), device="cpu", local_files_only=True)
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces = [model.tokenizer.decode(ids[at : at + 254]) for at in range(0, len(ids), 254)]
    began = time.process_time()
    model.encode(pieces, show_progress_bar=False)
    return time.process_time() - began


def taking_in(prose: Path, length: int, large: int) -> Iterator[dict[str, Any]]:
    """Rows: a text of `length` characters, and one of `large` with a note beside it."""
    whole = prose.read_text("utf-8")
    text = f"{whole[:length]}\n\n{_NEEDLES[0]}\n"
    reference = sentence_transformers_s(text)
    with tempfile.TemporaryDirectory() as directory:
        setup = services.Setup(Path(directory), env={"DRAGON_CLOUD": "never"})
        with (
            services.device(setup, services.free_port()) as device,
            device.client(120) as client,
        ):
            data = setup.data / "device"
            before, took = size_of(data), processor_s(device)
            uploaded = Uploaded(client, "prose.txt", text)
            words = uploaded.found(_NEEDLES[0])
            wholly = uploaded.processed()
            took = processor_s(device) - took
            yield {
                "text_kb": len(text.encode()) // 1000,
                "words_s": words,
                "wholly_s": wholly,
                "processor_s": round(took, 1),
                "of_sentence_transformers": round(took / reference, 2),
                "disk_times_text": round((size_of(data) - before) / len(text.encode()), 1),
            }
            client.delete(f"/v1/files/{uploaded.id}").raise_for_status()
            long = (whole * (1 + large // len(whole)))[:large]
            held = resident(device.process.pid)
            long = f"{_NEEDLES[0]}\n\n{long}\n\n{_NEEDLES[1]}\n"
            uploaded = Uploaded(client, "long.txt", long)
            first = uploaded.found(_NEEDLES[0])
            note = Uploaded(client, "note.txt", _NOTE).found(_NOTE)
            words = uploaded.found(_NEEDLES[1], pause_s=1)
            yield {
                "text_kb": len(long.encode()) // 1000,
                "first_words_s": first,
                "note_s": note,
                "words_s": words,
                "mb_per_s": round(len(long.encode()) / 1e6 / words, 2),
                "grew_mb": round(resident(device.process.pid, peak=True) - held),
            }
