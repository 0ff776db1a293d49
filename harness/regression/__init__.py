"""Judgement whether a night is worse than the baseline by more than noise explains; sealed runs. No Spark."""
