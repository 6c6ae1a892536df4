"""Events: what an environment reports while it runs, and how reports become rewards, statistics and KPIs."""
