"""From a run directory to error matrices, figures, report and verdict (Spark)."""
