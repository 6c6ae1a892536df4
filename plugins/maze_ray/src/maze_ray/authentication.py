"""Tokens and certificates: a cluster that asks for some says so at once, and a token is for its owner's eyes only."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

from maze_kernel.errors import RequestError, WorkerError

_ANSWER_SECONDS = 5.0
_PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"
_USE_TLS = "RAY_USE_TLS"
_PROBE_TIMEOUT = "RAY_gcs_rpc_server_connect_timeout_s"


def check_address(address: str) -> None:
    """Knock at a cluster's door; Ray itself knocks for twenty seconds and more, whatever the answer.

    Args:
        address: `host:port` or `ray://host:port`; others are Ray's to resolve.

    Raises:
        WorkerError: nobody listens there.
        RequestError: the cluster asks for a token and this process has none, or another; or only one of the two uses
            certificates.
    """
    host, separator, port = address.removeprefix("ray://").rpartition(":")
    if not separator or not port.isdigit() or "/" in host:
        return
    try:
        speaks_tls = _speaks_tls(host, int(port))
    except OSError as error:
        raise unanswered(address, str(error)) from error
    _compare_tls(address, speaks_tls)
    if address.startswith("ray://"):
        return
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


def _speaks_tls(host: str, port: int) -> bool:
    """Whether somebody who listens answers a TLS greeting; certificates do not matter.

    Raises:
        OSError: nobody listens.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, port), _ANSWER_SECONDS) as plain:
        try:
            context.wrap_socket(plain).close()
        except ssl.SSLError as error:
            return "ALERT" in (error.reason or "")
        except OSError:
            return False
    return True


def _compare_tls(address: str, speaks_tls: bool) -> None:
    wants_tls = os.environ.get(_USE_TLS, "0").lower() in ("1", "true")
    if speaks_tls == wants_tls:
        return
    raise RequestError(
        f"the Ray cluster at {address!r} {'speaks' if speaks_tls else 'does not speak'} TLS",
        received=f"{_USE_TLS}={os.environ.get(_USE_TLS, '')!r} here",
        expected="the same of the cluster and of this process",
        owner="maze-ray",
        help="set RAY_USE_TLS=1, RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT as on the head node"
        if speaks_tls
        else "leave RAY_USE_TLS out, or start every node of the cluster with it",
    )


def unanswered(address: str, why: str) -> WorkerError:
    """Nobody is there."""
    help_ = 'start the command on a machine of the cluster with address = "auto", or through ray://HOST:10001'
    if address.startswith("ray://"):
        # Its proxy lets a client without a token wait.
        help_ = "see that the head's client server listens, and give this command the cluster's token"
    return WorkerError(
        f"no Ray cluster answers at {address!r}",
        received=why,
        owner="maze-ray",
        cause="not started",
        help=help_,
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
