"""The services of a compose file, started from the same images with the same settings, by hand.

Of what compose does they have: images, commands, environment, volumes, configs, health checks,
the order of the start, capabilities. They have not: a network of their own (the whole test is in
one, as the services of these files are), a read-only root, a restart by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from harness.services import ROOT
from tests.image.containers import Container, container, volume

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::([-?])([^}]*))?\})")


def read(file: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """A compose file with its variables put in."""
    found: dict[str, Any] = _filled(yaml.safe_load((ROOT / file).read_text()), variables)
    return found


@contextmanager
def composed(
    file: str,
    data: Path,
    variables: Mapping[str, str] = MappingProxyType({}),
    more: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[dict[str, Container]]:
    """The services of a file, started in its order and healthy, by their names.

    Its volumes are directories of `data`; what it mounts from beside the file is there, too. `more`
    is added to the environment of all.
    """
    composition = read(file, variables)
    services = composition["services"]
    started: dict[str, Container] = {}
    with ExitStack() as stack:

        def start(name: str) -> None:
            service = services[name]
            for needed in service.get("depends_on", ()):
                if needed not in started:
                    start(needed)
            made = stack.enter_context(
                container(
                    service["image"],
                    data / f"{name}.d",
                    command=service.get("command", ()),
                    environment={**service.get("environment", {}), **more},
                    volumes=[*_volumes(service, data), *_configs(service, composition, data)],
                    health=_health(service),
                )
            )
            made.start()
            if made.health:
                made.wait_healthy()
            started[name] = made

        for name in services:
            if name not in started and name != "network":  # which all of them have without it
                start(name)
        yield started


def _volumes(service: Mapping[str, Any], data: Path) -> Iterator[str]:
    for each in service.get("volumes", ()):
        source, inside = each.split(":", 1)
        if source.startswith("."):
            yield f"{data / source}:{inside}"
        else:
            yield volume(data / source, inside)


def _configs(
    service: Mapping[str, Any], composition: Mapping[str, Any], data: Path
) -> Iterator[str]:
    for each in service.get("configs", ()):
        path = data / f"{each['source']}.config"
        path.write_text(composition["configs"][each["source"]]["content"])
        yield f"{path}:{each['target']}:ro"


def _health(service: Mapping[str, Any]) -> list[str]:
    kind, *check = service.get("healthcheck", {}).get("test", ["NONE"])
    assert kind in {"NONE", "CMD"}
    return check


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, variables) for each in value]
    if not isinstance(value, str):
        return value

    def put_in(found: re.Match[str]) -> str:
        dollar, name, kind, other = found.groups()
        if dollar:
            return "$"
        if kind == "?" and not variables.get(name):
            raise ValueError(f"{name}: {other}")
        return variables.get(name) or other or ""

    return _VARIABLE.sub(put_in, value)
