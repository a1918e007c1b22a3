from __future__ import annotations

from pathlib import Path

from bench.experiments.document_scale import SENTENCES, blocks, changed, scale


def test_what_changed_in_files(tmp_path: Path) -> None:
    grown, same, gone = (tmp_path / name for name in ("grown", "same", "gone"))
    for path in (grown, same, gone):
        path.write_bytes(bytes(10_000))
    before = blocks(tmp_path)
    grown.write_bytes(b"x" + bytes(12_999))  # its first block, and one behind
    gone.unlink()
    (tmp_path / "new").write_bytes(b"y")
    # The third block of 10,000 bytes was shorter, so it changed too.
    assert changed(before, blocks(tmp_path)) == (2 * 4096, 2 * 4096)


async def test_a_row_of_the_scale(tmp_path: Path) -> None:
    row = await scale(4 * SENTENCES, 3, 2, tmp_path)
    assert row["chunks"] == 200
    assert row["search_ms"] > 0
    assert min(row["new_kb"], row["written_kb"]) * 1000 > SENTENCES * 384 * 2
    assert 0 < row["rewritten_share"] <= row["rewritten_max"] < 1
