"""Text of any encoding is read, and a guess is told; other data is not taken for text."""

from __future__ import annotations

import pytest

from app.documents.readers.common import decoded

GERMAN = "Der Schlüssel für die Hütte hängt am Haken über der Tür – 40 €."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"),
        ("El niño comió piñas en España.", "cp1252"),
        ("Žluťoučký kůň úpěl ďábelské ódy.", "cp1250"),
        ("Привет, как дела сегодня вечером?", "cp1251"),
        ("鍵は青い箱の中にあります。会議は金曜日です。", "cp932"),
        ("中文文本测试编码是否正确识别", "gb18030"),
    ],
)
def test_the_likeliest_encoding_is_taken_and_told(text: str, encoding: str) -> None:
    found = decoded(text.encode(encoding))
    assert found is not None
    assert (found.text, found.guessed) == (text, encoding)
    assert encoding in str(found.note)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_what_is_certain_is_not_told(encoding: str) -> None:
    text = "The boat key is kept in locker 17.\nThe engine was serviced in May."
    found = decoded(text.encode(encoding))
    assert found is not None
    assert (found.text, found.note) == (text, None)


def test_what_is_declared_is_believed_where_it_can_be() -> None:
    for declared in ("iso-8859-1", "us-ascii", "windows-1252"):
        found = decoded(GERMAN.encode("cp1252"), declared)
        assert found is not None
        assert (found.text, found.guessed) == (GERMAN, "")
    found = decoded(GERMAN.encode(), "iso-8859-1")
    assert found is not None
    assert found.text == GERMAN


def test_stray_control_characters_are_left_out_and_binary_data_is_refused() -> None:
    found = decoded(b"The key is in locker 17.\x1a")
    assert found is not None
    assert found.text == "The key is in locker 17."
    assert decoded(bytes(range(256)) * 8) is None
