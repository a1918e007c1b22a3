"""The two sides of an answer."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Role(StrEnum):
    """The device decides where the sides differ; the cloud follows."""

    DEVICE = "device"
    CLOUD = "cloud"

    @property
    def other(self) -> Role:
        return Role.CLOUD if self is Role.DEVICE else Role.DEVICE


def by_role(role: Role, own: T, remote: T) -> tuple[T, T]:
    """Order a side's own value and the remote one as (device's, cloud's)."""
    return (own, remote) if role is Role.DEVICE else (remote, own)
