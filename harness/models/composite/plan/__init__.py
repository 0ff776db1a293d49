"""A proposed plan's network, built from the source's estimates."""
