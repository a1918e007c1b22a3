"""What only this page shows: whose words they are, how they were written, and what left."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from harness.models import SMALL_MODEL
from harness.services import Service
from tests.browser.page import SHADED, ChatPage
from tests.contract.asking import upload


@pytest.fixture(scope="module")
def noted(device: Service) -> Iterator[None]:
    """A note on the device."""
    note = upload(device, "boat.txt", "The code of the boat house is 8823-LM.")
    yield
    httpx.delete(f"{device.url}/v1/files/{note}", headers=device.headers, timeout=60)


@pytest.mark.usefixtures("noted")
def test_words_are_shaded_by_where_they_came_from(chat: ChatPage) -> None:
    page = chat.page
    answer = chat.ask("What is the code of the boat house?")
    assert chat.wait_answer(answer) == "done"
    assert "8823-LM" in chat.text(answer)
    panel = chat.about("who", answer)
    expect(panel.get_by_test_id("who-text")).to_contain_text("8823-LM")
    shaded = page.evaluate(SHADED)
    words = [word for level in range(5) for word in shaded[f"cloud-{level}"]]
    assert sorted(words) == sorted(chat.text(answer).split())
    assert any("8823" in word for level in (0, 1) for word in shaded[f"cloud-{level}"])
    # Only the device knows the code, so the sides were far apart there.
    assert any("8823" in word for word in shaded["disputed"])
    legend = f"came from one side only ({len(shaded['disputed'])} word"
    expect(panel.get_by_test_id("legend")).to_contain_text(legend)
    expect(panel.get_by_test_id("answer-model")).to_have_text(f"Model: {SMALL_MODEL.name}")

    text = panel.get_by_test_id("who-text")
    box = text.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 8, box["y"] + 10)
    card = page.get_by_role("tooltip", include_hidden=True)
    expect(card).to_be_visible()
    expect(card).to_contain_text("boat.txt")
    page.mouse.move(2, 2)
    expect(card).to_be_hidden()
    text.focus()
    page.keyboard.press("ArrowRight")
    expect(card).to_be_visible()

    # It is left with its panel, and never a colour in the chat.
    page.locator("#inspector-close").click()
    assert not any(page.evaluate(SHADED).values())


def test_a_refusal_has_no_colour(chat: ChatPage) -> None:
    answer = chat.answered("What is the wingspan of the gull Emma?", private=True)
    panel = chat.about("who", answer)
    expect(panel.get_by_test_id("legend")).to_contain_text("DRAGON’s own words")
    assert not any(chat.page.evaluate(SHADED).values())


@pytest.mark.usefixtures("noted")
def test_the_live_panel_and_the_pipeline(chat: ChatPage) -> None:
    chat.wait_peer("connected")
    answer = chat.answered("What is the capital of Kenya?")
    # Who wrote an answer is asked for what the cloud was sent.
    answer.get_by_test_id("summary").click()
    expect(chat.page.get_by_test_id("ledger")).to_contain_text("the cloud was sent")
    panel = chat.how_written(answer)
    for words in ("Round trip", "First token", "Per token", "With a round trip per token"):
        expect(panel).to_contain_text(words)
    expect(panel.get_by_test_id("tokenwise")).to_contain_text("ms")
    expect(panel.get_by_test_id("accept-device")).to_contain_text("%")
    expect(panel.get_by_test_id("accept-cloud")).to_contain_text("%")
    picture = panel.get_by_test_id("pipeline").get_by_role("img")
    assert picture.locator(".draft.is-d").count() > 0
    assert picture.locator(".draft.is-c").count() > 0
    tokens = int(panel.locator("dt", has_text="Tokens").locator("+ dd").inner_text())
    assert picture.locator(".commit").count() == tokens


@pytest.mark.usefixtures("noted")
def test_what_left_the_device(chat: ChatPage) -> None:
    chat.wait_peer("connected")
    answer = chat.answered("What is the code of the boat house?")
    answer.get_by_test_id("summary").click()
    panel = chat.page.get_by_test_id("ledger")
    sent = panel.get_by_test_id("sent").get_by_role("listitem")
    expect(sent).to_contain_text(["your question", "these words of", "settings such as"])
    expect(panel.get_by_role("row", name="correction")).to_be_hidden()
    panel.get_by_test_id("ledger-details").locator("summary").click()
    expect(panel.get_by_role("row", name="correction")).to_be_visible()
    expect(panel.get_by_test_id("fivegrams")).to_contain_text("of these, in the part of the answer")
    expect(panel.get_by_role("link", name="Export the record of everything sent")).to_be_visible()
