"""Which language the sign-in page is in; the texts themselves are tested with the page."""

from __future__ import annotations

import httpx
import pytest

from app.api.page.languages import texts


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-CH,de;q=0.9,en;q=0.8", "de"),
        ("fr-FR, es;q=0.7", "es"),
        ("EN", "en"),
        ("fr", "en"),
        ("", "en"),
        (";q=x,,*", "en"),
    ],
)
def test_the_first_language_that_there_is(accepted: str, language: str) -> None:
    assert texts(accepted)["language"] == language


async def test_the_sign_in_page_has_no_blank_left(client: httpx.AsyncClient) -> None:
    del client.headers["authorization"]
    page = await client.get("/", headers={"Accept-Language": "de"})
    assert "Dieser Browser ist nicht angemeldet." in page.text
    assert 'lang="de"' in page.text
    assert "{" not in page.text
