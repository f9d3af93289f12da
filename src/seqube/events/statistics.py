"""How many events of which type, over how long: what the cost model asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of a batch; `first` and `last` are times in ticks of its unit, None when it is empty."""

    n: int
    first: int | None
    last: int | None
    counts: Mapping[str, int]

    @property
    def span(self) -> int:
        """Ticks from the first to the last event."""
        return 0 if self.first is None or self.last is None else self.last - self.first

    def count(self, names: str | Iterable[str]) -> int:
        """The number of events whose type is one of these names."""
        return sum(self.counts.get(name, 0) for name in ({names} if isinstance(names, str) else set(names)))

    def rate(self, names: str | Iterable[str]) -> float:
        """Events of these types per tick; a batch that lies in one tick counts as one tick long."""
        return self.count(names) / max(self.span, 1)

    @property
    def rates(self) -> dict[str, float]:
        return {name: self.rate(name) for name in self.counts}
