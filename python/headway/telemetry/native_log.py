"""What gRPC's C core writes to standard error by itself, past the logs of the process."""

import os


def calm_grpc() -> None:
    """Leaves only its errors: it tells of each failed TLS handshake otherwise, in lines of its own.

    Before anything imports gRPC, which reads GRPC_VERBOSITY then; a value of the user's stays.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
