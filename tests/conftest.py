"""The demo corpus, once for all that start services; and what is said of browser tests not run.

It is said plainly that they did not run, and where they are required the run fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import owners
from harness import gguf_file, services
from harness.models import SMALL_MODEL

# Parts of the device that are tested by themselves act for its own key, as requests with it do.
owners.act_as(owners.DEVICE)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return services.demo_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def embedded_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model as a `.gguf` file."""
    path = tmp_path_factory.mktemp("gguf") / f"{SMALL_MODEL.name}.gguf"
    gguf_file.write(SMALL_MODEL, path)
    return path


def _skipped(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    return [r for r in reporter.stats.get("skipped", []) if "browser" in r.keywords]


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    required = os.environ.get("DRAGON_TEST_BROWSER") == "required"
    if required and reporter is not None and _skipped(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if skipped := _skipped(terminalreporter):
        reason = skipped[0].longrepr
        terminalreporter.section("the browser tests were skipped", red=True)
        terminalreporter.line(
            f"{len(skipped)} tests of the page did not run: "
            f"{reason[2] if isinstance(reason, tuple) else reason}\n"
            "Install what is missing (Debian: apt-get install chromium firefox-esr) and run again."
        )
