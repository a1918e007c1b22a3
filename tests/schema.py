"""Requests made up from `/openapi.json` by schemathesis, and what holds of every answer."""

from __future__ import annotations

from typing import Any

import schemathesis
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import (
    CoveragePhaseConfig,
    GenerationConfig,
    PhasesConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
    negative_data_rejection,
]
_TOKENS = 3
_MODELS = {"embeddings": "all-MiniLM-L6-v2", "embed": "all-MiniLM-L6-v2", "rerank": "reranker"}


def described(
    description: dict[str, Any], examples: int, *, coverage: bool
) -> schemathesis.BaseSchema:
    """The API of a description, for at most so many random requests an operation.

    `coverage` adds those that try every bound of every field. They are the same in each run.
    """
    project = ProjectConfig(
        generation=GenerationConfig(
            max_examples=examples, deterministic=True, allow_extra_parameters=False
        ),
        phases=PhasesConfig(coverage=CoveragePhaseConfig(enabled=coverage)),
    )
    config = SchemathesisConfig(projects=ProjectsConfig(default=project), seed=1)
    return schemathesis.openapi.from_dict(description, config=config)


def fit(case: Case, file: str) -> None:
    """Let more of the requests through to what they ask for, and keep their answers short.

    What a description cannot say is put right: the names of the models, the id of a file that is
    there, a question in a chat. What was made wrong on purpose stays wrong.
    """
    if "file_id" in case.path_parameters and case.method != "DELETE":
        case.path_parameters["file_id"] = file
    body = case.body
    if not isinstance(body, dict):
        return
    if isinstance(body.get("model"), str) and body["model"]:
        body["model"] = _MODELS.get(case.path.rpartition("/")[2], "dragon-7m")
    for limit in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        if type(body.get(limit)) is int:
            body[limit] = min(_TOKENS, body[limit])
    if case.path.endswith(("completions", "/messages")) and body.get("max_tokens", None) is None:
        body["max_tokens"] = _TOKENS
    if case.path == "/v1/responses" and body.get("max_output_tokens") is None:
        body["max_output_tokens"] = _TOKENS
    if case.path in ("/api/chat", "/api/generate") and body.get("options") is None:
        body["options"] = {"num_predict": _TOKENS}
    if case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        if body.get("stream_options") is not None:
            body["stream"] = True
        if isinstance(body.get("messages"), list):
            body["messages"].append({"role": "user", "content": "Where is the key?"})
        if "file" in body:
            body["file"] = "The key is under the mat."
