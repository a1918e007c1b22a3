"""The services' logs, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys

from harness.services import ROOT


def test_logs_as_json_lines() -> None:
    code = (
        "import logging, cli.services\n"
        "cli.services.log_to_stderr('json')\n"
        "try:\n"
        "    raise ValueError('broken')\n"
        "except ValueError:\n"
        "    logging.getLogger('app.x').exception('two\\nlines %s', 'ä')\n"
        "logging.getLogger('app.x').info('told')\n"
        "logging.getLogger('other').info('not told')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    first, second = map(json.loads, done.stderr.splitlines())
    assert (first["level"], first["message"]) == ("error", "two\nlines ä")
    assert "ValueError: broken" in first["traceback"]
    assert (second["logger"], second["message"]) == ("app.x", "told")
