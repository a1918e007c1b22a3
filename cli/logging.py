"""The services' logs, on stderr: text for people or JSON for programs."""

from __future__ import annotations

import logging
from typing import Any, Literal

from pythonjsonlogger.json import JsonFormatter

_NAMES = {"asctime": "time", "levelname": "level", "name": "logger", "exc_info": "traceback"}


class _JsonLines(JsonFormatter):
    def __init__(self) -> None:
        super().__init__(
            ["asctime", "levelname", "name", "message"],
            "%Y-%m-%dT%H:%M:%S%z",
            rename_fields=_NAMES,
            json_ensure_ascii=False,
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return log_data | {"level": log_data["level"].lower()}


def log_to_stderr(style: Literal["text", "json"]) -> None:
    """Our own packages from INFO on, others from WARNING on."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
    handler.setFormatter(_JsonLines() if style == "json" else text)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in ("dragon", "app", "peer"):
        logging.getLogger(name).setLevel(logging.INFO)
