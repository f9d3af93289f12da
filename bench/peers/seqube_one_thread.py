"""Seqube on one thread, to see what the others add."""

from __future__ import annotations

from bench.peers import seqube_engine


class Adapter(seqube_engine.Adapter):
    name = "Seqube, one thread"
    cores = 1
    about = "`sq.run(text, events, threads=1)`"
