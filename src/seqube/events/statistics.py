"""How many events of which type, over how long, and how many values columns have: what the cost models ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from seqube.events.schema import ANY


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of a batch; `first` and `last` are times in ticks of its unit, None when it is empty.

    `crowds` says for some lengths of time how many events lie in so long a stretch that ends with an event.
    """

    n: int
    first: int | None
    last: int | None
    counts: Mapping[str, int]
    crowds: Sequence[tuple[int, float]] = ()  # by length; empty where nobody has looked

    @property
    def span(self) -> int:
        """Ticks from the first to the last event."""
        return 0 if self.first is None or self.last is None else self.last - self.first

    def count(self, names: str | Iterable[str]) -> int:
        """The number of events whose type is one of these names."""
        wanted = {names} if isinstance(names, str) else set(names)
        return sum(self.counts.values() if ANY in wanted else (self.counts.get(name, 0) for name in wanted))

    def rate(self, names: str | Iterable[str]) -> float:
        """Events of these types per tick; a batch that lies in one tick counts as one tick long."""
        return self.count(names) / max(self.span, 1)

    def crowding(self, length: int) -> float:
        """How many times as many events a stretch of time holds as if they were spread evenly; 1 where that is not known."""
        held = max((held for known, held in self.crowds if known <= length), default=0.0)
        found = held / max(self.n * min(length / max(self.span, 1), 1.0), 1.0)
        return found if found > 2 else 1.0

    @property
    def rates(self) -> dict[str, float]:
        return {name: self.rate(name) for name in self.counts}


class Distinct(Mapping[str, int]):
    """How many values columns have; each is counted when it is first asked for."""

    def __init__(self, names: Iterable[str], count: Callable[[str], int]) -> None:
        self._names, self._count = frozenset(names), count
        self._counted: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._counted:
            self._counted[name] = self._count(name)
        return self._counted[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names))

    def __len__(self) -> int:
        return len(self._names)
