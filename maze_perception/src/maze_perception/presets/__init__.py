"""Presets of this distribution, one TOML file each."""
