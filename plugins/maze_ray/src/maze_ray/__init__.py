"""Workers on a Ray cluster: the pool "ray"."""
