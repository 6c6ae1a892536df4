"""Attention blocks over sets and sequences."""
