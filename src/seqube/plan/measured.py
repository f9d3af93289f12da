"""What is known of the events a workload is planned for: all that the cost models ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from seqube.events import Statistics
from seqube.language.mentions import attributes
from seqube.language.tree import Value

ASSUMED_VALUES = 10  # of a column that was not looked at


@dataclass(frozen=True, slots=True)
class Measurements:
    """How many events of which type over how long, how many values columns have, and where known how many matches queries have."""

    statistics: Statistics
    unit: str = "ms"
    distinct: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    continuous: bool = False  # more events come, a few at a time: what goes on from step to step is better than what begins anew

    def only(self, names: Iterable[str]) -> Measurements:
        """The same with these columns alone: a query is weighed by its own columns, whatever others the workload looks at."""
        return replace(self, distinct={name: self.distinct[name] for name in sorted(names) if name in self.distinct})

    def values(self, name: str, assumed: int = ASSUMED_VALUES) -> int:
        """How many values a column has; where there are no events there are no values, which is as good as one."""
        return max(1, self.distinct.get(name, assumed))

    def share(self, left: Value, right: Value) -> float:
        """The share of pairs of events that agree on two values."""
        names = {attribute.name for value in (left, right) for attribute in attributes(value)}
        return 1 / max(1, *([self.distinct[name] for name in names if name in self.distinct] or [ASSUMED_VALUES]))
