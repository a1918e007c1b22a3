"""What `dragon up` itself takes: the models' libraries are its children's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "torch", "transformers", "sentence_transformers", "faiss", "fastapi", "sqlalchemy",
    "numpy", "uvicorn",
)  # fmt: skip
MAX_RESIDENT_MB = 60
_LOOK = """
import json, sys
import cli.main
status = open("/proc/self/status").read()
kilobytes = int(status.split("VmRSS:")[1].split()[0])
print(json.dumps([kilobytes / 1024, [name for name in sys.argv[1:] if name in sys.modules]]))
"""


def test_up_loads_no_model_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, *HEAVY], cwd=ROOT, capture_output=True, text=True, check=True
    )
    resident, loaded = json.loads(done.stdout)
    assert loaded == []
    assert resident < MAX_RESIDENT_MB
