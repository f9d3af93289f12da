"""What flows: events in columns, their schema and statistics, and the concept hierarchy of their types."""

from seqube.events.batch import Events, Rejected
from seqube.events.hierarchy import Hierarchy
from seqube.events.schema import Schema
from seqube.events.statistics import Statistics

__all__ = ["Events", "Hierarchy", "Rejected", "Schema", "Statistics"]
