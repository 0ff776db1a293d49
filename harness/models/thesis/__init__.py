"""The thesis's model, storm-tracer, one stage a module."""
