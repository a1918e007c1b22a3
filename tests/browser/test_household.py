"""Two people of a household at one browser, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, Response, expect

from app.api_keys import Documents, May, api_keys
from harness.services import Service
from tests.browser.page import ChatPage

WORD = "QUOKKA"


@pytest.fixture
def keys(device: Service) -> Iterator[dict[str, str]]:
    named = api_keys(device.data)
    people = ("anna", "ben")
    made = {name: named.add(name, may=May.ALL, documents=Documents.OWN) for name in people}
    yield made
    for name, key in made.items():
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=device.url, headers=headers, timeout=60) as client:
            for file in client.get("/v1/files").json()["data"]:
                client.delete(f"/v1/files/{file['id']}")
        named.revoke(name)


def test_the_page_shows_one_nothing_of_the_other(
    page: Page, device: Service, keys: dict[str, str]
) -> None:
    chat = ChatPage(page)
    chat.sign_in(f"{device.url}/sign-in?key={keys['anna']}")
    chat.open_panel("documents")
    chat.add(f"{WORD}.txt", f"The code of the safe is {WORD}-4471.\n")
    answer = chat.answered("What is the code of the safe?", private=True)
    expect(answer).to_contain_text(WORD)
    chat.open_panel("documents")
    chat.add("common.txt", "The bins go out on Thursdays.\n")
    page.get_by_role("button", name="Share common.txt").click()
    expect(chat.document("common.txt")).to_contain_text("shared with the other keys")
    page.get_by_test_id("open-settings").click()
    page.get_by_test_id("sign-out").click()
    expect(page.get_by_label("API key")).to_be_visible()

    received: list[Response] = []
    page.on("response", lambda reply: received.append(reply))
    chat.sign_in(f"{device.url}/sign-in?key={keys['ben']}")
    chat.open_panel("documents")
    expect(chat.documents).to_have_count(1)
    expect(chat.document("common.txt")).to_contain_text("shared by anna")
    expect(page.get_by_test_id("delete-document")).to_have_count(0)
    expect(chat.conversations).to_have_count(0)
    answer = chat.answered("What is the code of the safe?", private=True)
    chat.open_panel("ledger")
    bodies = [reply.text() for reply in received if "/api/" in reply.url or "/v1/" in reply.url]
    assert len(bodies) > 5
    assert not any(WORD in body for body in bodies)
    page.reload()
    expect(chat.conversations).to_have_count(1)
    assert WORD not in page.content()
