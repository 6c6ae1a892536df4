"""Tokens of clusters that ask for one."""

from __future__ import annotations


def check_token(address: str) -> None:
    pass


def protect_token_file() -> None:
    pass
