"""Apache Flink CEP again, with a filter written by hand before the pattern that drops the types it does not name.

Flink looks at every partial match for every event, so this helps it; the answers stay the same as long as all combinations match.
"""

from __future__ import annotations

from bench.peers import flink_cep


class Adapter(flink_cep.Adapter):
    name = "Flink CEP, filtered by hand"
    about = f"{flink_cep.Adapter.about}; other types filtered out before the pattern"
    filtered = True
