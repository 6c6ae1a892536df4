"""Wrappers that go together, as presets."""
