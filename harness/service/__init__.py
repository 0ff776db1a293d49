"""The service: pages of runs, live and ended, and questions about their topologies over HTTP."""
