"""The analytic solver: from a network of queues and delays to distributions of latency.

One stage a module, each a pure function of the stages before it: ``flat`` (the network as arrays), ``rates``,
``contention``, ``spout_loop``, ``flow`` (variability, waiting), ``forward`` (from the spouts to the sinks:
ground truth), ``backward`` (from the acks to the spouts: trees), ``capacity``; ``solve`` joins them. Times
are in milliseconds, rates in tuples a millisecond.
"""
