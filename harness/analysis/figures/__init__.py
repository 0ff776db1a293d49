"""Figures, with one style."""
