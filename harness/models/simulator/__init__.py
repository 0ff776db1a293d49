"""A discrete-event simulator of ``harness.models.network.Network``: the analytic model's reference.

``simulate`` plays what the network's description says, mechanism by mechanism, with random numbers from a
seed. Its own code is shared with no other model's: that is what makes it a reference.
"""

from harness.models.simulator.simulation import SimulatedRun, simulate, simulate_messages

__all__ = ["SimulatedRun", "simulate", "simulate_messages"]
