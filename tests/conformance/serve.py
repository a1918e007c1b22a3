"""Runs commands beside a device and its peer, and beside a device alone in `local` mode.

    python -m tests.conformance.serve 'pytest ...' 'other/python -m pytest ...'

They find the services by `DRAGON_URL`, `DRAGON_LOCAL_URL` and `DRAGON_KEY`. All commands are run;
the exit status is that of the first that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness import services
from harness.services import KEY, Setup


def main(commands: Sequence[str]) -> int:
    """Start the services, run the commands, end the services."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        both = Setup(data / "both")
        alone = Setup(data / "alone", {"DRAGON_AGGREGATION": "local"})
        corpus = services.demo_corpus(data)
        with (
            services.peer(both, corpus) as peer,
            services.device(both, peer.port) as device,
            services.device(alone, services.free_port()) as local,
        ):
            services.wait_joint(device)
            found = {"DRAGON_URL": device.url, "DRAGON_LOCAL_URL": local.url, "DRAGON_KEY": KEY}
            environment = {**os.environ, **found}
            statuses = [
                subprocess.run(command, shell=True, check=False, env=environment).returncode
                for command in commands
            ]
    return next(filter(None, statuses), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
