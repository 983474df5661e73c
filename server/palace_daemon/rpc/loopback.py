"""The daemon's other door: a port on 127.0.0.1 that opens to whoever knows a secret made for this run of the daemon.

Any program of any user, and through a browser any web page, can connect to such a port. So the first message must
carry the token that stands in a file which only this user can read; and the daemon answers with a proof that only the
writer of that file knows, before a client tells it any question. Standard library only.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

from palace_daemon.errors import DaemonError
from palace_daemon.replacing import replacing
from palace_daemon.rpc.endpoint import make_socket_dir

HOST = "127.0.0.1"
SECRET_BYTES = 32
FIRST_FRAME_BYTES_MAX = 256 * 1024
"""Largest first message: an editor's ``initialize`` takes some 20 KiB, and strangers get no more memory than this."""
GREETING_S = 5.0
"""How long a connection may take to send it."""
STRANGERS_MAX = 16
"""Connections at once that have not sent it; further ones are closed, so that they take no places from clients."""
_BACKLOG = 64


@dataclass(frozen=True, slots=True)
class Secret:
    """Two random values, hexadecimal, of which each side shows one."""

    token: str = field(default_factory=lambda: secrets.token_hex(SECRET_BYTES), repr=False)
    """The client's."""
    proof: str = field(default_factory=lambda: secrets.token_hex(SECRET_BYTES), repr=False)
    """The daemon's."""

    def is_token(self, told: object) -> bool:
        """Return whether ``told`` is the token, in a time that does not tell how much of it is right."""
        if not isinstance(told, str):
            return False
        return hmac.compare_digest(told.encode("utf-8", "surrogatepass"), self.token.encode())


@dataclass(frozen=True, slots=True)
class Loopback:
    """A listening port, and the file that tells of it."""

    listener: socket.socket
    secret: Secret
    path: Path

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        port: int = self.listener.getsockname()[1]
        return port

    def close(self) -> None:
        """Stop listening and remove the file, unless it is another daemon's by now: see ``endpoint.remove_socket``."""
        self.listener.close()
        with contextlib.suppress(OSError):
            if self.secret.token in self.path.read_text(encoding="ascii", errors="replace"):
                self.path.unlink()


def remove_stale(path: Path) -> None:
    """Remove the file of a daemon that is gone; call it with the data directory's lock held."""
    with contextlib.suppress(OSError):
        path.unlink()


def listen(path: Path, port: int = 0) -> Loopback:
    """Listen on 127.0.0.1 and write ``path``; call it with the data directory's lock held.

    Args:
        path: The file for clients, 0600, which is replaced: one that is there is a dead daemon's.
        port: 0 takes a free one.

    Raises:
        DaemonError: The port is taken, or the file cannot be written.
    """
    make_socket_dir(path.parent)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on Windows the option means that others may take the port over
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        made = Loopback(listener, Secret(), path)
        _write(made)
    except OSError as exc:
        listener.close()
        raise DaemonError(
            f"cannot listen on {HOST}:{port or 'any port'}: {exc.strerror or exc}",
            hint="set serve.tcp_port to another port, or to 0 for any",
        ) from exc
    return made


def _write(made: Loopback) -> None:
    told = {"host": HOST, "port": made.port, "token": made.secret.token, "proof": made.secret.proof}
    with replacing(made.path) as file:
        file.write(json.dumps(told).encode() + b"\n")
