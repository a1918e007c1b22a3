"""A build of a corpus that is ended by a signal before a call; run as a process.

python -m tests.peer.corpus.killed SOURCE OUT CALL SIGNAL CALLS-BEFORE build|append
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from peer.corpus import builder, shard
from tests.peer.corpus.sources import StandIn

CALLS: dict[str, tuple[Any, str]] = {
    "add": (shard.ShardWriter, "add"),
    "state": (builder, "write_whole"),
    "index": (shard, "build_index"),
    "publish": (builder.Versions, "publish"),
}


def cut(call: str, blow: signal.Signals, left: int) -> None:
    """Have the signal sent to this process before the call that comes after `left` others."""
    owner, name = CALLS[call]
    whole = getattr(owner, name)

    def cutting(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), blow)
        return whole(*arguments)

    setattr(owner, name, cutting)


def main() -> None:
    # A background job of a shell without job control inherits that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    source, out, call, blow, left, how = sys.argv[1:]
    cut(call, signal.Signals[blow], int(left))
    builder.PART = 100
    sharding = None if how == "append" else builder.Sharding(2, 300)
    try:
        builder.build(Path(source), Path(out), StandIn(), sharding)
    except KeyboardInterrupt:  # ends it as it does a program that was not forked
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
