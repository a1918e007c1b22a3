"""The peer on Ray Serve: `Link`, to which devices connect, and one `Shard` per corpus shard.

`serve deploy` builds `application` (`peer/serve.yaml`), and `dragon peer --ray` runs it. The
service is that of `dragon peer`; each replica reads the same settings from its environment.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import ray
from fastapi import FastAPI
from ray import serve
from ray.exceptions import RayError
from ray.serve import metrics
from ray.serve.context import _get_global_client
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from dragon.retrieval.embedder import TextEmbedder
from peer.context import Shared
from peer.corpus import shard
from peer.corpus.store import Ask, FarCorpus, ShardError, shard_name
from peer.corpus.versions import Versions
from peer.main import create_app, drain
from peer.settings import PeerSettings

log = logging.getLogger(__name__)

NAME = "dragon"  # the application's name
ANSWERS = 16  # concurrent answers per replica of `Link`: with more, another one is started

POLICY = {"policy_function": f"{__name__}:by_answers"}
"""The autoscaling policy of `Link`, in the form that Ray requires."""

_LATE_S = 2.0  # a shard that has not answered by then is excluded
_LOOK_S = 0.5
_CHECK_S = 1.0  # how soon a dead replica is replaced
_MOST_LINKS = 10_000  # a link is a single request to Ray for as long as it lasts
_ENDING_S = 10.0  # beyond the drain deadline


def application(_arguments: Mapping[str, str]) -> serve.Application:
    """The application, for the current corpus. Raises `ConfigurationError`.

    Ray requires a parameter for arguments; there are none.
    """
    settings = PeerSettings.read()
    versions = Versions(settings.peer_corpus)
    parts = versions.manifest(versions.current).shards
    scaled = {"min_replicas": 1, "max_replicas": os.cpu_count() or 1, "policy": POLICY}
    link = serve.deployment(
        name="Link",
        num_replicas="auto",
        autoscaling_config=scaled,
        max_ongoing_requests=_MOST_LINKS,
        health_check_period_s=_CHECK_S,
        graceful_shutdown_timeout_s=settings.peer_drain_deadline + _ENDING_S,
    )(serve.ingress(_service)(LinkReplica))
    return link.bind(*map(_part, range(parts)))


def _part(number: int) -> serve.Application:
    return serve.deployment(
        name=f"Shard-{number}",
        ray_actor_options={"num_cpus": 0},
        max_surge_percent=100,  # a shard's only replica is replaced once another is up
        health_check_period_s=_CHECK_S,
        logging_config={"enable_access_log": False},
    )(ShardReplica).bind(number)


def start(**ray_options: Any) -> None:
    """Start Ray on this machine. After this SIGTERM aborts, unless a handler is installed again."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", include_dashboard=False, **ray_options)


def listen(settings: PeerSettings) -> None:
    serve.start(
        proxy_location="HeadOnly",
        http_options={
            "host": settings.peer_host,
            "port": settings.peer_port,
            "ssl_certfile": settings.peer_tls_cert and str(settings.peer_tls_cert),
            "ssl_keyfile": settings.peer_tls_key and str(settings.peer_tls_key),
        },
    )


def deploy() -> None:
    """Start the application; return once it is ready."""
    serve.run(application({}), name=NAME)


def stop() -> None:
    """Have all replicas drain, and stop Ray."""
    # The application first: `serve.shutdown` ends the proxies at once, and every link with them.
    serve.delete(NAME, _blocking=False)
    while NAME in serve.status().applications:
        time.sleep(_LOOK_S)
    serve.shutdown()
    ray.shutdown()


def by_answers(context: Any) -> tuple[int, dict[str, Any]]:
    """The wanted number of replicas of `Link`: to Ray a socket is but one request."""
    told: Mapping[Any, float] = (context.aggregated_metrics or {}).get("answers", {})
    wanted = math.ceil(sum(told.values()) / ANSWERS)
    least, most = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
    return max(least, min(most, wanted)), {}


class ShardReplica:
    """One shard, in every version that is asked for; the last two versions stay open."""

    def __init__(self, number: int) -> None:
        _log_as_ray()
        self._number = number
        self._versions = Versions(PeerSettings.read().peer_corpus)
        self._open: dict[str, shard.Shard] = {}
        self._opening = threading.Lock()
        self._of(self._versions.current)

    async def ask(self, version: str, method: str, values: Sequence[Any]) -> Any:
        """The result of a method of `peer.corpus.shard.Shard`, in this version."""
        return await asyncio.to_thread(lambda: getattr(self._of(version), method)(*values))

    def _of(self, version: str) -> shard.Shard:
        with self._opening:
            if version not in self._open:
                self._open[version] = self._opened(version)
                for old in list(self._open)[:-2]:
                    self._open.pop(old).close()
            return self._open[version]

    def _opened(self, version: str) -> shard.Shard:
        """This shard of a version, after its files are checked."""
        manifest, path = self._versions.manifest(version), self._versions.path(version)
        name = shard_name(self._number)
        files = {file: each for file, each in manifest.files.items() if name in file.split("/")}
        manifest.model_copy(update={"files": files}).verify(path)
        return shard.Shard(path / name, manifest.dimension)


class LinkReplica:
    """A replica of the service that devices connect to."""

    app: ClassVar[FastAPI]
    """The service of this process."""

    def __init__(self, *shards: DeploymentHandle) -> None:
        _log_as_ray()
        settings = PeerSettings.read()
        self._deadline_s = settings.peer_drain_deadline
        ask = _asking(shards)

        def opening(embedder: TextEmbedder, version: str | None) -> FarCorpus:
            return FarCorpus.served(settings.peer_corpus, embedder, version, len(shards), ask)

        LinkReplica.app = create_app(settings, opening)
        self._gauges: dict[str, metrics.Gauge] = {}
        self._watching = asyncio.create_task(self._watch())

    async def check_health(self) -> None:
        """Raises `RuntimeError` if Ray should replace the replica."""
        if not _shared().engine.alive:
            raise RuntimeError("the engine has ended")

    async def record_autoscaling_stats(self) -> dict[str, float]:
        return {"answers": _shared().sessions}

    async def _watch(self) -> None:
        """Drain once Ray stops the replica; until then export its metrics to Ray."""
        own = serve.get_replica_context().replica_id.unique_id
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                if await asyncio.to_thread(_is_stopping, own):
                    break
                self._report()
            except Exception:
                log.exception("the controller does not answer")
        await drain(LinkReplica.app, self._deadline_s)

    def _report(self) -> None:
        if not hasattr(LinkReplica.app.state, "peer"):
            return  # still loading
        for family in _shared().metrics.registry.collect():
            for sample in family.samples:
                if sample.name not in self._gauges:
                    labels = tuple(sample.labels)
                    self._gauges[sample.name] = metrics.Gauge(
                        sample.name, family.documentation, labels
                    )
                self._gauges[sample.name].set(sample.value, dict(sample.labels))


def _service() -> FastAPI:
    return LinkReplica.app


def _shared() -> Shared:
    shared: Shared = LinkReplica.app.state.peer
    return shared


def _asking(shards: Sequence[DeploymentHandle]) -> Ask:
    def ask(number: int, version: str, method: str, values: Sequence[Any]) -> Any:
        response = shards[number].ask.remote(version, method, values)
        try:
            return response.result(timeout_s=_LATE_S)
        except TimeoutError:
            response.cancel()
            raise ShardError(f"it has not answered for {_LATE_S} s") from None
        except (RayError, RayServeException) as error:
            raise ShardError(f"it has failed: {error}") from error

    return ask


def _is_stopping(replica: str) -> bool:
    """Whether the controller is stopping a replica of `Link`; the replica itself is not told."""
    served = _served()
    if served["status"] == "DELETING":
        return True  # with all others, and none is listed any more
    links = served["deployments"]["Link"]["replicas"]
    states = {each["replica_id"]: each["state"] for each in links}
    return states.get(replica) == "STOPPING"


def replicas(deployment: str) -> list[dict[str, Any]]:
    """The replicas of a deployment in Ray Serve: `replica_id`, `state`, `pid` and more."""
    found: list[dict[str, Any]] = _served()["deployments"][deployment]["replicas"]
    return found


def _served() -> dict[str, Any]:
    served: dict[str, Any] = _get_global_client().get_serve_details()["applications"][NAME]
    return served


def _log_as_ray() -> None:
    """Send this project's logs where Ray's own log lines of the replica go."""
    for name in ("peer", "dragon"):
        ours = logging.getLogger(name)
        ours.handlers, ours.propagate = logging.getLogger("ray.serve").handlers, False
        ours.setLevel(logging.INFO)
