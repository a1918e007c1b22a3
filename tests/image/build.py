"""Builds the image as `Dockerfile` says, and what it is tried with: `python -m tests.image.build`

Where `python:3.11-slim` and `haproxy` cannot be pulled, both are made of Debian's packages. The
build finds packages where this machine's pip does.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.services import ROOT
from tests.image.buildah import BALANCER, BASE, DRAGON, STORE, call, command, there

_PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def base() -> None:
    """Python 3.11 on Debian, as `python:3.11-slim` has it."""
    if there(BASE) or _pulled(BASE):
        return
    container = call("from", "scratch")
    root = Path(call("mount", container))
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(root)],
        check=True,
    )
    # The image's Python is its own, not Debian's, and may be installed into.
    (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink()
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    call("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", container)
    call("commit", "--rm", container, BASE)


def balancer() -> None:
    """HAProxy."""
    if there(BALANCER) or _pulled(f"docker.io/library/{BALANCER}", BALANCER):
        return
    container = call("from", "--pull-never", BASE)
    install = "apt-get update -q && apt-get install -qy --no-install-recommends haproxy"
    call("run", "--isolation", "chroot", container, "--", "sh", "-c", install)
    call("commit", "--rm", container, BALANCER)


def image() -> None:
    """The image itself. A layer for all, since `vfs` copies each whole."""
    volumes = [option for volume in _pip_finds() for option in ("--volume", volume)]
    subprocess.run(
        command(
            "build", "--format", "docker", "--isolation", "chroot", "--layers=false",
            "--pull-never", *volumes, "--tag", DRAGON, str(ROOT),
        ),
        check=True,
    )  # fmt: skip


def _pulled(image: str, name: str | None = None) -> bool:
    if subprocess.run(command("pull", "--quiet", image), check=False).returncode:
        return False
    if name is not None:
        call("tag", image, name)
    return True


def _pip_finds() -> Iterator[str]:
    """What the build is to see of this machine, as volumes: where pip looks, and what it trusts."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    )
    found = {"cert": str(_AUTHORITIES)}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        if (option := name.rpartition(".")[2]) in {"index-url", "find-links"}:
            found[option] = value.strip("'")
    config = STORE / "pip.conf"
    config.write_text("[global]\n" + "".join(f"{name} = {found[name]}\n" for name in found))
    yield f"{config}:/etc/pip.conf:ro"
    for each in {*found["cert"].split(), *found.get("find-links", "").split()}:
        if Path(each).exists():
            yield f"{each}:{each}:ro"


if __name__ == "__main__":
    STORE.mkdir(exist_ok=True)
    base()
    balancer()
    image()
