"""The peer on Ray Serve, for experiments and tests: its replicas end and are replaced."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ApplicationStatus, ServeDeploySchema

from harness.services import KEY, free_port
from peer import on_ray
from peer.settings import PeerSettings

_WAIT_S = 180.0
_LOOK_S = 0.2


@dataclass(frozen=True)
class RayPeers:
    """Replicas of `Link`, reached at one port."""

    port: int
    count: int

    def running(self, deployment: str = "Link") -> dict[str, int]:
        """The process ids of the running replicas, by the replicas' ids."""
        found = on_ray.replicas(deployment)
        return {each["replica_id"]: each["pid"] for each in found if each["state"] == "RUNNING"}

    def end(self, turn: int, *, drain: bool) -> None:
        """Kill a replica by turn, or have Ray replace all; return once as many run again."""
        before = self.running()
        if drain:
            # Scaling down by one, Ray would stop the newest, which no device is connected to.
            self.scale(self.count, version=turn + 1)
        else:
            ended = sorted(before)[turn % len(before)]
            os.kill(before[ended], signal.SIGKILL)
            wait(lambda: ended not in self.running())
        wait(lambda: len(self.running()) == self.count)

    def scale(self, links: int, version: int = 0) -> None:
        """Deploy `links` replicas, as `serve deploy` does; return once they run.

        Ray stops surplus replicas, and all of another version.
        """
        bounds = {"min_replicas": links, "max_replicas": links, "policy": on_ray.POLICY}
        application = {
            "name": on_ray.NAME,
            "import_path": f"{on_ray.__name__}:{on_ray.application.__name__}",
            "args": {"version": str(version)},
            "deployments": [{"name": "Link", "autoscaling_config": bounds}],
        }
        config = {"proxy_location": "HeadOnly", "applications": [application]}
        _get_global_client().deploy_apps(ServeDeploySchema.model_validate(config))
        wait(lambda: serve.status().applications[on_ray.NAME].status == ApplicationStatus.RUNNING)


def wait(until: Callable[[], bool]) -> None:
    """Wait until a condition holds. Raises `RuntimeError`."""
    deadline = time.monotonic() + _WAIT_S
    while not until():
        if time.monotonic() > deadline:
            raise RuntimeError("the replicas do not change")
        time.sleep(_LOOK_S)


@contextmanager
def peers(data: Path, corpus: Path, links: int, env: Mapping[str, str]) -> Iterator[RayPeers]:
    """The running application with `links` replicas; `env` adds settings."""
    port = free_port()
    before = dict(os.environ)
    os.environ.update(
        {
            "DRAGON_THREADS": "1",
            "DRAGON_PEER_PORT": str(port),
            "DRAGON_PEER_KEYS": KEY,
            "DRAGON_PEER_CORPUS": str(corpus),
            "DRAGON_DATA_DIR": str(data),
            **env,
        }
    )
    try:
        # More CPUs than the machine has: replicas share them, as other processes do.
        on_ray.start(num_cpus=2 * links, log_to_driver=False)
        on_ray.listen(PeerSettings.read())
        peers = RayPeers(port, links)
        peers.scale(links)
        yield peers
    finally:
        on_ray.stop()
        os.environ.clear()
        os.environ.update(before)
