"""Says plainly when the browser tests did not run, and fails where they are required."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


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
            "Install Chromium (Debian: apt-get install chromium) and run again."
        )
