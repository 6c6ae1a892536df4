raise RuntimeError("broken\non purpose")
