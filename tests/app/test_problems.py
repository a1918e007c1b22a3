"""Errors as problems, and the policy on those that nobody expected."""

from __future__ import annotations

import logging

import pytest

from app.problems import INTERNAL, problem, reported
from dragon.errors import (
    ContextLengthError,
    DocumentTooLargeError,
    DragonError,
    LinkError,
    ModelServerError,
    NotFoundError,
)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (NotFoundError("gone"), 404, "invalid_request_error"),
        (ContextLengthError("long", param="messages"), 400, "invalid_request_error"),
        (DocumentTooLargeError("large"), 413, "invalid_request_error"),
        (LinkError("no peer"), 502, "server_error"),
        (ModelServerError("no model server"), 502, "server_error"),
    ],
)
def test_expected_errors_say_what_is_wrong(
    error: DragonError, status: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = reported(error, "an answer")
    assert (found.status, found.type, found.message) == (status, kind, error.message)
    assert found.code == error.code
    assert caplog.records == []


def test_of_an_unexpected_error_the_log_alone_has_the_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert reported(RuntimeError("a secret of the engine"), "an answer") is INTERNAL
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "an answer failed")
    assert "a secret of the engine" in caplog.text
    assert "secret" not in str(INTERNAL.body())


def test_half_a_surrogate_pair_can_be_sent() -> None:
    body = problem(NotFoundError("There is no '\ud800'.")).body()
    assert body["error"]["message"] == "There is no '?'."
