"""Judging: actual values, pairs, errors, checks and verdicts."""
