"""The page's words: one file a language, all with the same keys, and none anywhere else."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from app.paths import packaged
from app.peer_link.status import Refusal
from dragon.localizable import localizable
from harness.services import KEY, Service
from tests.browser.conftest import Opened, Scripted, signed_in
from tests.browser.page import ChatPage

STATIC = packaged("static")
FILES = sorted((STATIC / "text").glob("*.json"))
ENGLISH = json.loads((STATIC / "text/en.json").read_text())
_BLANK = re.compile(r"\{\w+\}")

# Text that is not in a mark, as seen or as read out; what a person or a model has written may be.
_UNMARKED = """(own) => {
  const found = [];
  const unmarked = (text) => {
    for (let before = ""; before !== text; ) {  // one may stand in another
      before = text;
      text = text.replace(/⟦[^⟦⟧]*⟧/g, "");
    }
    return /\\p{L}{2}/u.test(text.replace(/\\d (ms|kB|MB|GB)/g, ""));
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.closest(own) && unmarked(node.data)) found.push(node.data);
  }
  for (const name of ["aria-label", "title", "placeholder", "alt", "aria-valuetext"]) {
    for (const element of document.querySelectorAll(`[${name}]`)) {
      const text = element.getAttribute(name);
      if (!element.closest(own) && unmarked(text)) found.push(`${name}: ${text}`);
    }
  }
  return found;
}"""
_OWN = ", ".join(
    (
        ".brand, noscript, script, style, kbd, code, input, time, option[value='']",
        ".bubble, .text, .source-title, .source-start, .passage, .document-name, .title",
        ".sources-titles, .project, [data-testid=weight]",
        ".conversation, [data-testid=preview-text], #preview-title, #scope-menu .is-document",
        "[data-testid=filter-type] option",
        "[data-testid=start-question] strong, [data-testid=only-this], .model-name, .receipt",
        ".said strong, #confirm-title, .frames th",
        "dd, .weight, .figures, .card, .summary, .number, svg.drawn text",
    )
)


def forms(words: str | dict[str, str]) -> list[str]:
    return [words] if isinstance(words, str) else list(words.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_language_says_all_that_english_says(path: Path) -> None:
    words = json.loads(path.read_text())
    assert words.keys() == ENGLISH.keys()
    for key, said in words.items():
        assert all(form.strip() for form in forms(said)), key
        if isinstance(ENGLISH[key], dict):
            assert said.keys() == {"one", "other"}, key
        blanks = [sorted(_BLANK.findall(form)) for form in forms(said)]
        expected = sorted(_BLANK.findall(forms(ENGLISH[key])[-1]))
        assert blanks[-1] == expected, key


def test_every_text_is_used_and_every_used_one_exists() -> None:
    sources = [*STATIC.rglob("*.js"), *STATIC.glob("*.html"), *_pages()]
    code = "\n".join(path.read_text() for path in sources)
    used = set(re.findall(r"""["{'`]([a-z_0-9]+(?:\.[a-z_0-9]+)*)["}'`]""", code))
    made = {match.rstrip(".") for match in re.findall(r"`([a-z_.]+\.)\$\{", code)}
    unused = {
        key for key in ENGLISH if key not in used and not any(key.startswith(each) for each in made)
    }
    assert not unused
    asked = set(re.findall(r"""\bt\(["']([a-z_0-9.]+)["']""", code))
    asked |= set(re.findall(r'data-text(?:-[a-z-]+)?="([^"]+)"', code))
    assert asked <= ENGLISH.keys()


def test_every_sentence_of_the_device_can_be_said() -> None:
    """Each by its code, with no other blanks than the values it comes with."""
    made = {code for path in _python() for code in _codes(path.read_text())}
    assert made == {key.removeprefix("message.") for key in ENGLISH if key.startswith("message.")}


def _codes(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name("localizable" | "unreadable" | "_refused"),
                args=[ast.Constant(str(code)), *_],
            ):
                blanks = {f"{{{keyword.arg}}}" for keyword in node.keywords}
                for path in FILES:
                    for said in forms(json.loads(path.read_text()).get(f"message.{code}", "")):
                        assert set(_BLANK.findall(said)) <= blanks, (path.stem, code)
                yield code
            case ast.Call(func=ast.Name("Localizable"), args=[_, ast.Constant(str(code)), *_]):
                yield code
            case ast.Constant(str(code)) if code.startswith("link.") and "/" not in code:
                yield code  # chosen by the status of a refusal


def _python() -> list[Path]:
    root = Path(__file__).parents[2]
    return [
        path for package in ("app", "dragon", "peer") for path in (root / package).rglob("*.py")
    ]


def _pages() -> list[Path]:
    root = Path(__file__).parents[2]
    return [root / name for name in ("app/api/page/pages.py", "app/models/trial.py")]


def test_the_page_has_no_words_of_its_own(page: Page, device: Service, emptied: None) -> None:
    """With every text in a mark, whatever is unmarked stands in the HTML or in a script."""

    def marked(route: Route) -> None:
        def mark(said: Any) -> Any:
            return (
                {form: mark(text) for form, text in said.items()}
                if isinstance(said, dict)
                else f"⟦{said}⟧"
            )

        route.fulfill(json={key: mark(said) for key, said in ENGLISH.items()})

    page.route("**/static/text/en.json", marked)
    chat = signed_in(page, device.url)
    seen = [page.evaluate(_UNMARKED, _OWN)]
    chat.open_panel("documents")
    chat.add("a note.txt", "The heron sleeps in the boathouse.\n")
    chat.add("broken.docx", b"PK\x03\x04" + bytes(100))
    chat.answered("Where does the heron sleep?")
    for panel in ("documents", "who", "live", "ledger"):
        chat.open_panel(panel)
        page.wait_for_timeout(200)
        seen.append(page.evaluate(_UNMARKED, _OWN))
    page.get_by_test_id("scope").click()
    seen.append(page.evaluate(_UNMARKED, _OWN))
    page.keyboard.press("Escape")
    page.get_by_test_id("open-settings").click()
    expect(page.get_by_test_id("model").first).to_be_visible()
    seen.append(page.evaluate(_UNMARKED, _OWN))
    page.keyboard.press("Escape")
    page.locator("#open-help").click()
    seen.append(page.evaluate(_UNMARKED, _OWN))
    page.keyboard.press("Escape")
    assert {text for texts in seen for text in texts} == set()


@pytest.mark.parametrize(
    ("locale", "send", "sign_in"),
    [
        ("de-AT", "Senden", "Bei DRAGON anmelden"),
        ("es-MX", "Enviar", "Iniciar sesión en DRAGON"),
        ("fr-FR", "Send", "Sign in to DRAGON"),
    ],
)
def test_the_browser_chooses_the_language(
    browser: Browser, device: Service, locale: str, send: str, sign_in: str
) -> None:
    context = browser.new_context(locale=locale)
    page = context.new_page()
    page.goto(f"{device.url}/")
    expect(page.get_by_role("heading", level=1)).to_have_text(sign_in)
    page.goto(f"{device.url}/sign-in?key={KEY}")
    expect(page.get_by_test_id("send")).to_have_attribute("aria-label", send)
    assert page.locator("html").get_attribute("lang") == (locale[:2] if send != "Send" else "en")
    context.close()


def test_what_the_device_says_is_said_in_the_language_of_the_browser(
    german: ChatPage, device: Service, tmp_path: Path
) -> None:
    """Of a file refused, of one that cannot be read, of a folder, and of an answer that failed."""
    chat = german
    chat.open_panel("documents")
    empty, program = tmp_path / "leer.txt", tmp_path / "ein Programm"
    empty.touch()
    program.write_bytes(b"\x7fELF" + bytes(100))
    chat.upload(empty, program)
    detail = chat.document(empty.name).locator(".document-detail")
    expect(detail).to_have_text("Die Datei ist leer.")
    chat.page.reload()
    chat.open_panel("documents")
    detail = chat.document(program.name).locator(".document-detail")
    expect(detail).to_contain_text("Die Datei ist ein Programm. Gelesen werden Texte und Dateien")
    chat.page.get_by_test_id("folders").locator("> summary").click()
    chat.page.get_by_test_id("folder-path").fill(f"{tmp_path}/nirgends")
    chat.page.get_by_test_id("folder-path").press("Enter")
    expect(chat.page.locator("#folder-error")).to_contain_text("es gibt ihn nicht.")
    chat.page.goto(f"{device.url}/#conversation-unknown")
    expect(chat.page.get_by_text("Diesen Chat gibt es nicht mehr.")).to_be_visible()
    answer = chat.ask("wort " * 9000)
    expect(answer.locator(".problem")).to_contain_text("Die Frage ist zu lang.")
    chat.page.reload()
    expect(chat.answers.last.locator(".problem")).to_contain_text("Die Frage ist zu lang.")


def test_why_the_cloud_is_away_is_said_in_the_language_of_the_browser(
    opened: Opened, scripted: Scripted
) -> None:
    """A peer of a later release may have reasons that this page has no words for."""
    chat = opened(scripted.url, locale="de-DE")
    full = "Die Cloud konnte nicht helfen: sie schrieb schon so viele Antworten, wie sie kann; "
    for reason, said in (
        (localizable("peer.full", "the cloud peer is full"), full),
        (
            localizable("peer.moon", "the moon is full"),
            "Die Cloud konnte nicht helfen: the moon is full",
        ),
    ):
        scripted.generation.no_room = Refusal.now(reason, 30).message
        answer = chat.answered("Where is the key?")
        expect(answer.locator(".note")).to_contain_text(said)
        chat.page.reload()
        expect(chat.last_answer.locator(".note")).to_contain_text(said)
        expect(chat.last_answer.locator(".note")).to_contain_text("nach 30 s noch einmal.")


def test_who_asks_english_documents_in_german_is_told_to_try_english(german: ChatPage) -> None:
    german.add("lease.txt", "The deposit of the flat is two months' rent.\n")
    for question, told in ("Wie hoch ist die Kaution?", True), ("What is the gull called?", False):
        answer = german.answered(question, private=True)
        expect(answer.get_by_test_id("answer-text")).to_contain_text("nicht gefunden")
        english = answer.locator(".note").get_by_text("Frage auf Englisch")
        expect(english).to_have_count(int(told))


def test_phrases_of_the_device_are_said_in_the_language_of_who_reads_them(
    opened: Opened, device: Service, emptied: None
) -> None:
    """The stored text is English, and so is what the API says."""
    may = ["clipboard-read", "clipboard-write"]
    chat = opened(device.url, locale="de-DE", permissions=may)
    page = chat.page
    none = "Das habe ich in Ihren Dokumenten nicht gefunden."
    chat.answered("What is the wingspan of the gull Emma?", private=True)
    expect(chat.last_answer.get_by_test_id("answer-text")).to_have_text(none)
    chat.last_answer.get_by_test_id("copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == none
    chat.add("gong.txt", "The brass gong stands beside the linden.\n")
    chat.answered("So the brass gong stands beside the linden, or where?", private=True)
    chat.open_panel("documents")
    chat.document("gong.txt").get_by_test_id("delete-document").click()
    page.get_by_test_id("confirm-delete").click()
    expect(chat.last_answer.get_by_test_id("answer-text")).to_have_text(
        "[Wörter eines gelöschten Dokuments]"
    )
    other = opened(device.url, locale="es-MX")
    other.page.goto(page.url)
    texts = other.page.get_by_test_id("answer-text")
    expect(texts.first).to_have_text("No he encontrado esto en sus documentos.")
    expect(texts.last).to_have_text("[palabras de un documento eliminado]")
    question = other.page.get_by_test_id("question").last
    expect(question).to_contain_text("[palabras de un documento eliminado]")
    question.get_by_test_id("edit").click()
    expect(other.page.get_by_test_id("edit-text")).to_have_value(
        re.compile(r"\[palabras de un documento eliminado\]")
    )
