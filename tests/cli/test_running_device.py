"""Commands to the running device, where there is none.

With one they are in `tests.contract.test_command_line`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.main import main
from tests.cli.test_main import free_port


@pytest.mark.parametrize(
    "arguments",
    [("ask", "What is up?"), ("add", "notes.txt"), ("watch",), ("watch", "."), ("unwatch", ".")],
)
def test_without_a_device_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGON_PORT", str(port := free_port()))
    monkeypatch.setattr("sys.argv", ["dragon", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    expected = f"dragon: No device runs at 127.0.0.1:{port}: start it with `dragon up`."
    assert ended.value.code == expected
    assert not (tmp_path / "data").exists()
