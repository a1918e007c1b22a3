"""What `dragon up` itself takes: the models' libraries are its children's. And how both log."""

from __future__ import annotations

import json
import subprocess
import sys

from harness.services import ROOT

HEAVY = (
    "torch", "transformers", "sentence_transformers", "faiss", "fastapi", "sqlalchemy",
    "numpy", "uvicorn",
)  # fmt: skip
MAX_RESIDENT_MB = 60
_LOOK = """
import json, sys
import cli.__main__
status = open("/proc/self/status").read()
kilobytes = int(status.split("VmRSS:")[1].split()[0])
print(json.dumps([kilobytes / 1024, [name for name in sys.argv[1:] if name in sys.modules]]))
"""
_LOG = """
import logging, cli.services
cli.services.log_to_stderr('json')
try:
    raise ValueError('broken')
except ValueError:
    logging.getLogger('app.x').exception('two\\nlines %s', 'ä')
logging.getLogger('app.x').info('told')
logging.getLogger('other').info('not told')
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)


def test_up_loads_no_model_library() -> None:
    resident, loaded = json.loads(run(_LOOK, *HEAVY).stdout)
    assert loaded == []
    assert resident < MAX_RESIDENT_MB


def test_logs_as_json_lines() -> None:
    first, second = map(json.loads, run(_LOG).stderr.splitlines())
    assert (first["level"], first["message"]) == ("error", "two\nlines ä")
    assert "ValueError: broken" in first["traceback"]
    assert (second["logger"], second["message"]) == ("app.x", "told")
