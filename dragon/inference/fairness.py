"""Shares the engine among callers: a heavy one waits for its own requests, and delays no other."""

from __future__ import annotations

import math
import zlib
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""Whom the current task works for: a user's page, an API client, a device at its peer."""


@dataclass(frozen=True)
class Household:
    """Callers who share the engine as one, in proportion to its weight.

    At a peer they are the devices with one key; on a device, the programs and users with one key,
    or a page.
    """

    name: str = ""
    weight: float = 1.0


HOUSEHOLD: ContextVar[Household] = ContextVar("household", default=Household())  # noqa: B039


class Caller(NamedTuple):
    household: Household
    name: str

    @classmethod
    def current(cls) -> Caller:
        return cls(HOUSEHOLD.get(), CALLER.get())


# How long a turn shared by several callers may take, with at least this many steps.
_TURN_S = 0.04
_LEAST_STEPS = 8
# With more steps than are due to its households, a turn may take this many times as long.
_LONGER = 1.25
_FORGET = 0.995

NOBODY = Caller(Household(), "")
LANES = 8


def lane_of(caller: str) -> int:
    """A caller's lane, by which a peer gives each caller a turn."""
    return zlib.crc32(caller.encode()) % LANES


class FairQueue(Generic[T]):
    """First come, first served per caller; waiting callers are served in turn."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}  # in the order of their turns

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def of(self, caller: str) -> int:
        return len(self._waiting.get(caller, ()))

    def put(self, caller: str, item: T) -> None:
        self._waiting.setdefault(caller, deque()).append(item)

    def first(self) -> T:
        """The item that `take` would return."""
        return next(iter(self._waiting.values()))[0]

    def take(self, may: Callable[[str], bool] = lambda _: True) -> T:
        """The next item of the caller whose turn it is, among those that `may` be served.

        Raises `LookupError` if there is none.
        """
        for caller, items in self._waiting.items():
            if may(caller):
                item = items.popleft()
                del self._waiting[caller]
                if items:
                    self._waiting[caller] = items
                return item
        raise LookupError("nothing that may be served waits")

    def keep(self, wanted: Callable[[T], bool]) -> None:
        kept = {caller: deque(filter(wanted, items)) for caller, items in self._waiting.items()}
        self._waiting = {caller: items for caller, items in kept.items() if items}


class SharedQueue(Generic[T]):
    """Serves households in proportion to their weights, and the callers of one in turn.

    Start-time fair queuing: each item advances a household's clock by 1 / weight, the household
    that is behind is next, and an idle one accumulates no credit.
    """

    def __init__(self) -> None:
        self._waiting: dict[Household, FairQueue[T]] = {}
        self._clocks: dict[Household, float] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, caller: Caller, item: T) -> None:
        household = caller.household
        if household not in self._waiting:
            self._clocks = {
                each: at
                for each, at in self._clocks.items()
                if at > self._now or each in self._waiting
            }
            self._clocks.setdefault(household, self._now)
            self._waiting[household] = FairQueue()
        self._waiting[household].put(caller.name, item)

    def first(self) -> T:
        return self._waiting[self._next()].first()

    def take(self) -> T:
        """The next item of the household whose turn it is; raises `LookupError` if none waits."""
        household = self._next()
        self._now = self._clocks[household]
        self._clocks[household] += 1.0 / household.weight
        item = self._waiting[household].take()
        self._drop_empty()
        return item

    def keep(self, wanted: Callable[[T], bool]) -> None:
        for queue in self._waiting.values():
            queue.keep(wanted)
        self._drop_empty()

    def _next(self) -> Household:
        if not self._waiting:
            raise LookupError("nothing waits")
        return min(self._waiting, key=lambda household: self._clocks[household])

    def _drop_empty(self) -> None:
        self._waiting = {household: queue for household, queue in self._waiting.items() if queue}


def due(wanted: Mapping[Household, int]) -> int:
    """How many items a turn has if no household gets more, for its weight, than the least wants."""
    level = min(count / household.weight for household, count in wanted.items())
    return sum(
        min(count, math.ceil(level * household.weight)) for household, count in wanted.items()
    )


class Turns:
    """Shares turns of limited length among households, in proportion to their weights.

    As in `SharedQueue`, each item advances its household's clock by 1 / weight. A turn has the
    items that end first by these clocks; in the order of their starts, a light household would get
    too much of a short turn. Clocks are kept while somebody waits, so that it gets no less either.
    """

    def __init__(self) -> None:
        self._clocks: dict[Household, float] = {}

    def shared(
        self,
        items: Sequence[T],
        caller_of: Callable[[T], Caller],
        most: int,
        most_of_several: Callable[[int], int] | None = None,
    ) -> tuple[list[T], list[T]]:
        """At most `most` items, and those left over, in order.

        The callers of one household take turns. A single caller has all of its items served.
        Several households get no more than `most_of_several`, if given, makes of the number `due`.
        """
        turns = Counter[Caller]()
        queues: dict[Household, list[tuple[int, int]]] = {}
        for index, item in enumerate(items):
            caller = caller_of(item)
            turns[caller] += 1
            queues.setdefault(caller.household, []).append((turns[caller], index))
        if len(queues) > 1 and most_of_several is not None:
            wanted = {household: len(queue) for household, queue in queues.items()}
            most = min(most, most_of_several(due(wanted)))
        if len(turns) < 2 or len(items) <= most:
            self._clocks.clear()
            return list(items), []
        now = min((at for each, at in self._clocks.items() if each in queues), default=0.0)
        starts = {household: self._clocks.get(household, now) for household in queues}
        order = sorted(
            (starts[household] + place / household.weight, index)
            for household, queue in queues.items()
            for place, (_, index) in enumerate(sorted(queue), start=1)
        )
        chosen = {index for _, index in order[:most]}
        self._clocks = {each: at for each, at in self._clocks.items() if at > now}
        for household, queue in queues.items():
            served = sum(index in chosen for _, index in queue)
            self._clocks[household] = starts[household] + served / household.weight
        return (
            [item for index, item in enumerate(items) if index in chosen],
            [item for index, item in enumerate(items) if index not in chosen],
        )


class TurnLength:
    """How many steps a turn of the engine may have, judging by the last turns.

    It models a turn of n steps as lasting a + b n: if steps share a forward, a is most of it.
    """

    def __init__(self) -> None:
        self.most = _LEAST_STEPS
        """The most steps of a turn that several callers share."""
        self._weight = self._n = self._nn = self._t = self._nt = 0.0

    def add(self, steps: int, seconds: float) -> None:
        self.most = max(_LEAST_STEPS, int(steps * _TURN_S / seconds))
        self._weight = _FORGET * self._weight + 1
        self._n = _FORGET * self._n + steps
        self._nn = _FORGET * self._nn + steps * steps
        self._t = _FORGET * self._t + seconds
        self._nt = _FORGET * self._nt + steps * seconds

    def most_of_several(self, due: int) -> int:
        """The most steps of a turn that several households share, `due` of them due to these.

        More are added as long as the turn takes hardly longer.
        """
        return due + int((_LONGER - 1) * (self._fixed + due))

    @property
    def _fixed(self) -> float:
        """a / b: a turn's fixed cost, in steps."""
        if not self._weight:
            return 0.0
        n, t = self._n / self._weight, self._t / self._weight
        spread = self._nn / self._weight - n * n
        # Turns of equal length do not show it.
        if spread < 0.01 * n * n:
            return 0.0
        b = (self._nt / self._weight - n * t) / spread
        return max(0.0, t / b - n) if b > 0 else n
