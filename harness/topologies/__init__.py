"""The test topologies: their query plans, defined here once for all sides.

The jar builds what its settings say; a query plan is sent to it as JSON (``harness.storm.submission``).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.topologies.graph import TestTopology
from harness.topologies.thesis import THESIS

TOPOLOGIES: Mapping[str, TestTopology] = {topology.name: topology for topology in THESIS}
"""The topologies by name."""
