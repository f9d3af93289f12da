"""What tests on Spark share."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tables import with_end

from seqube.generate import generate


@pytest.fixture(scope="session")
def day() -> pa.Table:
    """Events, and one long after them that brings the watermark past all others."""
    return with_end(generate("hospital", 1_500, seed=5))
