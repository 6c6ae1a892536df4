"""Tokens: a cluster that asks for one says so at once, and the one that Ray writes is for its owner's eyes only."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from maze_kernel.errors import RequestError, WorkerError

_ANSWER_SECONDS = 5.0
_PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"
_PROBE_TIMEOUT = "RAY_gcs_rpc_server_connect_timeout_s"


def check_address(address: str) -> None:
    """Knock at a cluster's door; Ray itself knocks for twenty seconds, with a line each, whatever the answer.

    Args:
        address: `host:port`; others are Ray's to resolve.

    Raises:
        WorkerError: nobody listens there.
        RequestError: the cluster asks for a token and this process has none, or another.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except OSError as error:
        raise unanswered(address, str(error)) from error
    # In a process of its own, because Ray's client cannot be interrupted.
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _PROBE, address],
            env={**os.environ, _PROBE_TIMEOUT: "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return
    if b"AuthenticationError" in asked.stderr:
        raise unauthenticated(address, "no token, or a wrong one")


def unanswered(address: str, why: str) -> WorkerError:
    """Nobody is there."""
    return WorkerError(
        f"no Ray cluster answers at {address!r}",
        received=why,
        owner="maze-ray",
        cause="not started",
        help='start the command on a machine of the cluster with address = "auto", or through ray://HOST:10001',
    )


def unauthenticated(address: str, why: str) -> RequestError:
    """The cluster asks who is there."""
    return RequestError(
        f"the Ray cluster at {address!r} asks for a token",
        received=why,
        expected="RAY_AUTH_MODE=token, and the cluster's token in ~/.ray/auth_token or RAY_AUTH_TOKEN",
        owner="maze-ray",
        help="copy the token from the head node, where `ray get-auth-token` prints it",
    )


def protect_token_file() -> None:
    """Let nobody else read the token that Ray made for a cluster of this process; Ray leaves it to everybody."""
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    with contextlib.suppress(OSError):
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
