"""Where parts are joined: what reads runs and files gives values to what is pure."""
