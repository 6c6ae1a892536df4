"""Behavioural cloning: policies from recorded episodes, by supervised learning."""
