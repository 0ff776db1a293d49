"""The harness's own receiver of metrics."""
