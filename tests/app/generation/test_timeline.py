"""When drafts were made and tokens became text.

Covers `app.generation.stats`.
"""

from __future__ import annotations

from app.generation import timeline
from app.generation.timeline import Trace
from dragon.sampling.role import Role


def test_when_drafts_were_made_and_tokens_became_text() -> None:
    noted = Trace()
    noted.draft(Role.DEVICE, 0, 5000)
    noted.draft(Role.CLOUD, 0, 5000, underway=0.1)
    noted.text(0, 2)
    (_, _, begun, sent), (_, _, cloud_begun, cloud_done), *text = noted.entries
    assert [entry[0] for entry in noted.entries] == ["d", "c", "t", "t"]
    assert [entry[1] for entry in text] == [0, 1]
    assert sent - begun == 5.0
    assert cloud_done - cloud_begun == 5.0
    assert cloud_done <= sent - 90


def test_it_is_bounded() -> None:
    noted = Trace()
    noted.text(0, 10 * timeline._MOST)
    assert len(noted.entries) == timeline._MOST
