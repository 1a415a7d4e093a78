"""Checks ports before anything is started, so that a taken one is a clear error."""

import errno
import os
import socket

from headway.errors import StartupError
from headway.serve.settings import ServeSettings


def check_ports(settings: ServeSettings) -> None:
    """Raises StartupError, naming the port and its option, if a port cannot be had."""
    wanted = {
        "--port": settings.port,
        "--control-port": settings.control_port,
        "--http-port": settings.http_port,
    }
    taken_by: dict[int, str] = {}
    for option, port in wanted.items():
        if port and port in taken_by:
            raise StartupError(f"{taken_by[port]} and {option} are both {port}; choose two")
        taken_by[port] = option
        _check(settings.host, port, option)


def _check(host: str, port: int, option: str) -> None:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do: connections of a server that has ended do not hold the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        variable = option.removeprefix("--").replace("-", "_").upper()
        if error.errno == errno.EADDRINUSE:
            raise StartupError(
                f"port {port} is taken by another process; choose another with {option} "
                f"(make serve {variable}=...), or 0 for any free one"
            ) from error
        what = os.strerror(error.errno) if isinstance(error.errno, int) else str(error)
        raise StartupError(f"cannot listen on {host}:{port} ({option}): {what}") from error
