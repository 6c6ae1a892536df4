"""Algorithms of Ray RLlib as a trainer. Import the modules; nothing is re-exported here."""
