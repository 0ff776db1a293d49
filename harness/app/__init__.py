"""Where parts are joined: a run on any kind of cluster, its stores, its folder."""
