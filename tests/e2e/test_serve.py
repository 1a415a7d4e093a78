"""`headway serve` as a user runs it: real processes, real calls, Ctrl-C."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

READY_SECONDS = 60
STOP_SECONDS = 60
TRY_LATER = 75


class Served:
    """A running `headway serve`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.lines: list[str] = []
        ports = ["--port", "0", "--control-port", "0", "--http-port", "0"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headway", "serve", "--state-dir", folder, *ports, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def read_until(self, start: str) -> str:
        """The next printed line that begins with `start`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if self.lines[-1].startswith(start):
                return self.lines[-1]
        raise AssertionError(f"ended without {start!r}: {self.lines}")

    @property
    def addresses(self) -> dict[str, str]:
        return dict(json.loads((self.folder / "gateway.json").read_text()))

    def children(self) -> dict[str, int]:
        """Process ids of the processes it started, by name."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                arguments = (entry / "cmdline").read_text().split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(status[1]) == self.process.pid and status[0] != "Z":
                named = "--id" in arguments
                found[arguments[arguments.index("--id") + 1] if named else "gateway"] = int(
                    entry.name
                )
        return found

    def headway(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a command against it."""
        return subprocess.run(
            [sys.executable, "-m", "headway", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "HEADWAY_ADDRESS": self.addresses["data"]},
            **options,
        )

    def stop(self, number: int = signal.SIGINT) -> int:
        """Sends a signal; returns the exit code."""
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=STOP_SECONDS)
        self.lines += output.splitlines()
        return self.process.returncode


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One simulated fleet with two versions, for the tests that only look."""
    served = Served(tmp_path_factory.mktemp("serve"), "--simulated", "--replicas", "v1,v1@0.6,v2")
    served.read_until("ready")
    yield served
    if served.process.poll() is None:
        served.stop(signal.SIGTERM)


def test_infer_shows_the_decision(served: Served) -> None:
    result = served.headway("infer", "the tide turns", "--json", "--version", "v2")
    assert result.returncode == 0, result.stderr
    shown = json.loads(result.stdout)
    assert (shown["model"], shown["version"], shown["replica"]) == (
        "simulated",
        "v2",
        "replica-c",
    )
    assert shown["batch"]["reason"] == "QUEUE_EMPTIED"
    assert shown["batch"]["size"] == 1
    assert shown["timings_ms"]["device"] >= 16


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["x", "--model", "nope"], 1, "MODEL_NOT_FOUND: "),
        (["x", "--version", "v9"], 1, "MODEL_NOT_FOUND: "),
        ([""], 1, "INVALID_REQUEST: "),
        (["x", "--deadline-ms", "3"], 1, "DEADLINE_"),
    ],
)
def test_bad_requests_are_told_apart(
    served: Served, arguments: list[str], code: int, message: str
) -> None:
    result = served.headway("infer", *arguments)
    while result.returncode == TRY_LATER:  # it does not know yet what its workers have
        result = served.headway("infer", *arguments)
    assert result.returncode == code
    assert result.stderr.startswith(message)


def test_a_real_grpcurl_needs_no_proto_files(served: Served) -> None:
    grpcurl = shutil.which("grpcurl", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert grpcurl is not None, "grpcurl comes with the extra `grpcurl`"
    body = '{"input": {"text": "the tide turns"}}'
    address = served.addresses["data"]
    call = [grpcurl, "-plaintext", "-d", body, address, "headway.v1.InferenceService/Infer"]
    answer = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(answer.stdout)["batch"]["reason"] == "BATCH_REASON_QUEUE_EMPTIED"


@pytest.mark.parametrize("mode", ["unary", "many"])
def test_a_closed_loop_is_served_in_full(served: Served, mode: str) -> None:
    load = ["--clients", "8", "--seconds", "1", "--warmup", "0.2", "--seed", "1"]
    result = served.headway("loadtest", *load, "--stream-mode", mode, "--json", "-")
    assert result.returncode == 0, result.stderr
    shown = json.loads(result.stdout)
    assert shown["errors"] == {}
    assert shown["ok"] == shown["offered"] == shown["in_time"] >= 8
    assert set(shown["versions"]) <= {"v1", "v2"}
    assert sum(shown["replicas"].values()) == shown["ok"]


def test_an_open_loop_offers_its_rate(served: Served) -> None:
    load = ["--rate", "40", "--arrivals", "constant", "--seconds", "2", "--warmup", "0"]
    result = served.headway("loadtest", *load, "--deadline-mix", "2s:0.3,10s:0.7", "--json", "-")
    shown = json.loads(result.stdout)
    assert shown["offered"] == 79
    assert [one["deadline_ms"] for one in shown["deadlines"]] == [2000, 10000]
    assert shown["goodput_ratio"] > 0.9


def test_ctrl_c_in_a_load_test_reports_what_was_measured(served: Served) -> None:
    command = [sys.executable, "-m", "headway", "loadtest", "--address", served.addresses["data"]]
    load = subprocess.Popen(
        [*command, "--clients", "2", "--seconds", "600", "--warmup", "0", "--json", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_answers(served, 20)
    load.send_signal(signal.SIGINT)
    output, errors = load.communicate(timeout=STOP_SECONDS)
    assert load.returncode == 130
    assert json.loads(output)["ok"] > 0
    assert "Traceback" not in errors


def test_ctrl_c_in_a_call_leaves_with_130_and_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        call = subprocess.Popen(
            [sys.executable, "-m", "headway", "infer", "x", "--address", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        silent.settimeout(STOP_SECONDS)
        connection, _ = silent.accept()
        call.send_signal(signal.SIGINT)
        output, _ = call.communicate(timeout=STOP_SECONDS)
        connection.close()
    assert (call.returncode, output) == (130, "")


def test_a_taken_port_ends_it_with_69(served: Served, tmp_path: Path) -> None:
    port = served.addresses["control"].rpartition(":")[2]
    result = served.headway(
        *("serve", "--port", "0", "--control-port", port, "--http-port", "0"),
        *("--state-dir", str(tmp_path)),
    )
    assert result.returncode == 69
    assert result.stderr.startswith(
        f"port {port} is taken by another process; choose another with --control-port"
    )


def test_one_state_directory_is_for_one_process(served: Served) -> None:
    ports = ["--port", "0", "--control-port", "0", "--http-port", "0"]
    result = served.headway("serve", *ports, "--state-dir", str(served.folder))
    assert result.returncode == 69
    assert "another `headway serve` keeps its state in" in result.stderr


def test_ctrl_c_finishes_what_is_in_flight_and_leaves_nothing_behind(tmp_path: Path) -> None:
    served = Served(tmp_path, "--simulated", "--replicas", "v1,v1")
    served.read_until("ready")
    children = watched(served.children())
    assert sorted(children) == ["gateway", "replica-a", "replica-b"]
    command = [sys.executable, "-m", "headway", "loadtest", "--address", served.addresses["data"]]
    load = subprocess.Popen(
        [*command, "--clients", "8", "--seconds", "600", "--warmup", "0", "--json", "-"],
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for_answers(served, 50)
    assert served.stop() == 0
    assert "stopping: requests in flight are finished first" in served.lines
    assert all(has_ended(child) for child in children.values())
    load.send_signal(signal.SIGINT)
    shown = json.loads(load.communicate(timeout=STOP_SECONDS)[0])
    assert shown["ok"] >= 50
    assert set(shown["errors"]) <= {"DRAINING", "UNREACHABLE"}


def test_a_killed_worker_comes_back_and_it_is_said(tmp_path: Path) -> None:
    served = Served(tmp_path, "--simulated", "--replicas", "v1,v2")
    served.read_until("ready")
    os.kill(served.children()["replica-b"], signal.SIGKILL)
    line = served.read_until("[replica-b] was ended")
    assert line == "[replica-b] was ended by SIGKILL; starting it again in 0.5 s (1 of 5)"
    while served.headway("infer", "x", "--version", "v2").returncode != 0:
        assert served.process.poll() is None
    os.kill(served.children()["gateway"], signal.SIGKILL)
    served.read_until("[gateway] was ended by SIGKILL; starting it again")
    addresses = None
    while served.headway("infer", "x", "--version", "v2").returncode != 0:
        addresses = served.addresses
    assert addresses in (None, served.addresses)
    assert served.stop(signal.SIGTERM) == 0


def test_children_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    served = Served(tmp_path, "--simulated", "--replicas", "v1")
    served.read_until("ready")
    children = watched(served.children())
    assert sorted(children) == ["gateway", "replica-a"]
    served.process.kill()
    served.process.communicate(timeout=STOP_SECONDS)
    assert all(has_ended(child, STOP_SECONDS) for child in children.values())


def test_a_fleet_that_cannot_start_says_where_to_look(tmp_path: Path) -> None:
    config = tmp_path / "headway.toml"
    config.write_text('[gateway.store]\nurl = "sqlite:////proc/none/control.db"\n')
    served = Served(tmp_path / "state", "--config", str(config))
    output, _ = served.process.communicate(timeout=READY_SECONDS)
    assert served.process.returncode == 69
    assert "[gateway] ended with exit code 64; given up" in output
    assert f"gateway could not be started; the logs are in {tmp_path / 'state'}" in output
    assert "gateway.store.url: /proc/none/control.db cannot be opened for writing" in output


def test_bad_configuration_ends_it_with_64_before_anything_starts(tmp_path: Path) -> None:
    config = tmp_path / "headway.toml"
    config.write_text("[gateway]\nmax_live_requests = 0\n")
    served = Served(tmp_path / "state", "--config", str(config))
    output, _ = served.process.communicate(timeout=READY_SECONDS)
    assert served.process.returncode == 64
    assert "gateway.max_live_requests = 0: must be greater than or equal to 1" in output
    assert not list((tmp_path / "state").glob("*.log"))


def watched(children: dict[str, int]) -> dict[str, int]:
    """Handles of processes, which stay theirs when process ids are used again."""
    return {name: os.pidfd_open(pid) for name, pid in children.items()}


def has_ended(handle: int, seconds: float = 0) -> bool:
    """True if the process ends within `seconds`."""
    return bool(select.select([handle], [], [], seconds)[0])


def wait_for_answers(served: Served, count: int) -> None:
    """Returns once the gateway has answered so many more requests well."""
    wanted = answers(served) + count
    while answers(served) < wanted:
        assert served.process.poll() is None


def answers(served: Served) -> float:
    with urllib.request.urlopen(f"http://{served.addresses['http']}/metrics") as response:
        lines = response.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("headway_requests_total{") and 'outcome="ok"' in line
    )
