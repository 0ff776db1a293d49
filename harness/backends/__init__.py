"""Everything that speaks to something outside, one module each, named after it."""
