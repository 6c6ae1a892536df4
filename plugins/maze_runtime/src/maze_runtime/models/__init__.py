"""Policies, distributions and critics: contracts and their torch implementations."""
