"""Private PostgreSQL servers on 127.0.0.1, started from the installed programs."""

import asyncio
import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SUPERUSER = "headway"
_UNSAFE_BUT_QUICK = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
}


def programs() -> Path:
    """The folder of initdb and postgres."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    for folder in reversed(folders):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    found = shutil.which("initdb")
    if found is None:
        raise AssertionError("PostgreSQL is not installed; run .ci/install-postgresql")
    return Path(found).resolve().parent


def _owner() -> tuple[int, int] | None:
    """Whom the server runs as; None for whoever runs the tests. PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam("postgres")
    return user.pw_uid, user.pw_gid


def _unprivileged() -> list[str]:
    """A program before the program: `subprocess` would fork for it, which gRPC's threads forbid."""
    owner = _owner()
    if owner is None:
        return []
    return ["setpriv", f"--reuid={owner[0]}", f"--regid={owner[1]}", "--clear-groups"]


class PostgresServer:
    """One server with its own data directory, which outlives stops."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="headway-postgresql-"))
        self.data = self.root / "data"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        owner = _owner()
        if owner is not None:
            os.chown(self.root, *owner)
        self._run("initdb", "-D", self.data, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync")  # fmt: skip

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{SUPERUSER}:unused-password@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        settings = _UNSAFE_BUT_QUICK | {"port": str(self.port)}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self._run("pg_ctl", "-D", self.data, "-w", "-t", "60", "-l", self.root / "log",
                  "-o", options, "start")  # fmt: skip

    def stop(self) -> None:
        """Connections break at once, as at a restart by its operator."""
        self._run("pg_ctl", "-D", self.data, "-w", "-m", "fast", "stop")

    def freeze(self) -> None:
        """As a hung machine looks to clients: connections stand and nobody answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def new_database(self, name: str) -> str:
        """The URL of an empty database."""
        asyncio.run(create_database(self.url(), name))
        return self.url(name)

    def _signal(self, number: signal.Signals) -> None:
        postmaster = int((self.data / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in (postmaster, *map(int, children)):
            os.kill(pid, number)

    def _run(self, program: str, *arguments: Any) -> None:
        with open(self.root / "output", "ab") as output:
            done = subprocess.run(
                [*_unprivileged(), str(programs() / program), *map(str, arguments)],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd="/",
                timeout=90,
                check=False,
            )
        if done.returncode != 0:
            log = (self.root / "output").read_text(errors="replace")
            raise AssertionError(f"{program} ended with {done.returncode}: {log[-2000:]}")


@contextmanager
def shared_server(folder: Path) -> Iterator[str]:
    """URL of the session's one server, which all worker processes of the session share.

    Args:
      folder: the session's own; the first to come starts the server, the last to go removes it.
    """
    with _locked(folder) as state:
        if state.get("users", 0) == 0:
            server = PostgresServer()
            server.start()
            state.update(root=str(server.root), port=server.port)
        state["users"] = state.get("users", 0) + 1
        handle = _attached(state)
    try:
        yield handle.url()
    finally:
        with _locked(folder) as state:
            state["users"] -= 1
            if state["users"] == 0:
                _attached(state).remove()


def _attached(state: dict[str, Any]) -> PostgresServer:
    server = PostgresServer.__new__(PostgresServer)
    server.root = Path(state["root"])
    server.data = server.root / "data"
    server.port = state["port"]
    return server


@contextmanager
def _locked(folder: Path) -> Iterator[dict[str, Any]]:
    with open(folder / "postgresql.json", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        state = json.loads(file.read() or "{}")
        yield state
        file.seek(0)
        file.truncate()
        file.write(json.dumps(state))


async def create_database(url: str, name: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    finally:
        await connection.close()
