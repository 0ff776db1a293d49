"""The experiment: its file, the campaign that carries it out, and the statistics of measuring."""
