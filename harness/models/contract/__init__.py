"""Common ground of models: observations laid out, answers put together, checks that every model passes."""
