"""Runs commands beside a device and its peer, and beside three devices alone.

One of these is in `local` mode, one has a model that calls functions, one the built-in model that
writes, a `.gguf` file.

    python -m tests.conformance.serve 'pytest ...' 'other/python -m pytest ...'

They find the services by `DRAGON_URL`, `DRAGON_LOCAL_URL`, `DRAGON_TOOLS_URL`,
`DRAGON_WRITER_URL` and `DRAGON_KEY`, and the last one's model by `DRAGON_WRITER_FILE`. All commands
are run; the exit status is that of the first that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dragon.models import EMBEDDED_WRITER
from harness import services
from harness.services import KEY, Setup
from tests import memorised

# What the suites ask for, each of something else: LangChain's looks for the three of them.
ARGUMENTS = '{"location": "\u4f60 \u3053", "input": 3}'
CALL = f'<tool_call>\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>'


def main(commands: Sequence[str]) -> int:
    """Start the services, run the commands, end the services."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        # The peer is in every answer from its beginning, also on a machine that is busy.
        both = Setup(data / "both", {"DRAGON_FIRST_TOKEN_DEADLINE": "60"})
        alone = Setup(data / "alone", {"DRAGON_AGGREGATION": "local"})
        model = str(memorised.save_calling(data / "model", CALL))
        calling = Setup(data / "tools", {"DRAGON_MODEL": model, "DRAGON_CLOUD": "never"})
        writing = Setup(
            data / "writer", {"DRAGON_MODEL": str(EMBEDDED_WRITER), "DRAGON_CLOUD": "never"}
        )
        corpus = services.demo_corpus(data)
        with (
            services.peer(both, corpus) as peer,
            services.device(both, peer.port) as device,
            services.device(alone, services.free_port()) as local,
            services.device(calling, services.free_port()) as tools,
            services.device(writing, services.free_port()) as writer,
        ):
            services.wait_joint(device)
            found = {
                "DRAGON_URL": device.url,
                "DRAGON_LOCAL_URL": local.url,
                "DRAGON_TOOLS_URL": tools.url,
                "DRAGON_WRITER_URL": writer.url,
                "DRAGON_WRITER_FILE": str(EMBEDDED_WRITER),
                "DRAGON_KEY": KEY,
            }
            environment = {**os.environ, **found}
            statuses = [
                subprocess.run(command, shell=True, check=False, env=environment).returncode
                for command in commands
            ]
    return next(filter(None, statuses), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
