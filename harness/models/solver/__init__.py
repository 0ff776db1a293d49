"""The analytic solver: from a network of queues and delays to distributions of latency.

Each module is a stage, a pure function of the stages before it. The first stages are ``flat`` (the network as
arrays), ``rates``, ``contention``, ``spout_loop`` and ``flow`` (variability, waiting). Then come ``forward``
(ground truth, from the spouts to the sinks), ``backward`` (trees, from the acks to the spouts) and
``capacity``; ``solve`` joins all of them. Times are in milliseconds, rates in tuples a millisecond.
"""
