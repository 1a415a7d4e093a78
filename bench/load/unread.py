"""What a gateway keeps of clients that write, do not read, and leave.

Question:  does memory level off over millions of requests whose answers nobody reads?
Workload:  one connection. `many`: InferMany streams of 30-byte texts, written as fast as the
           windows allow and never read, reset after --hold seconds. `infer`: Infer calls, a
           hundred at a time, reset before they are read. `stream`: the same with InferStream.
           One gateway, one instant worker (null model). Resident memory from /proc after each
           round, once the gateway has nothing in work.
Machine:   two cores, which the client shares.
Command:   python -m bench.load.unread [--transport native] [--what many] [--rounds 40] [--hold 3]
"""

import argparse
import select
import socket
import tempfile
import time
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from bench.load.overhead import fleet, wait_ready
from headway.v1 import inference_pb2, types_pb2

MIB = 1 << 20
SERVICE = "/headway.v1.InferenceService/"
METHODS = {"many": "InferMany", "infer": "Infer", "stream": "InferStream"}
TEXT = "x" * 30
CALLS_AT_ONCE = 100


def framed(body: bytes) -> bytes:
    return b"\0" + len(body).to_bytes(4, "big") + body


def request_of(what: str, number: int) -> bytes:
    request = inference_pb2.InferRequest(model="null", input=types_pb2.Input(text=TEXT))
    if what == "infer":
        return framed(request.SerializeToString())
    if what == "stream":
        wanted = inference_pb2.InferStreamRequest(request=request)
        return framed(wanted.SerializeToString())
    item = inference_pb2.InferManyRequest(id=number, request=request)
    return framed(item.SerializeToString())


class Client:
    """A connection that takes in control frames, and gives no room for answers."""

    def __init__(self, address: str, what: str, num_requests: int = 0) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setblocking(False)
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self._h2.initiate_connection()
        self._what = what
        self._unsent = b""
        self.num_requests = num_requests
        self.is_over = False

    def _exchange(self, wait_s: float) -> None:
        """Sends what can be sent, reads what has come."""
        self._unsent += self._h2.data_to_send()
        writing = [self._socket] if self._unsent else []
        readable, writable, _ = select.select([self._socket], writing, [], wait_s)
        if writable:
            try:
                sent = self._socket.send(self._unsent[: 1 << 16])
            except ConnectionError:
                self.is_over = True
                return
            self._unsent = self._unsent[sent:]
        if readable:
            try:
                data = self._socket.recv(1 << 16)
                events = self._h2.receive_data(data)
            except (ConnectionError, h2.exceptions.ProtocolError):
                data, events = b"", []
            # Who resets much is told to calm down, and comes again.
            self.is_over |= not data
            for event in events:
                self.is_over |= isinstance(event, h2.events.ConnectionTerminated)
                # Answers that came all the same give the connection its window back, not the call.
                if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                    self._h2.increment_flow_control_window(event.flow_controlled_length)

    def _begin(self) -> int:
        stream = self._h2.get_next_available_stream_id()
        fixed = {
            ":method": "POST",
            ":scheme": "http",
            ":path": SERVICE + METHODS[self._what],
            ":authority": "bench",
            "te": "trailers",
            "content-type": "application/grpc",
        }
        self._h2.send_headers(stream, list(fixed.items()))
        return stream

    def _reset(self, stream: int) -> None:
        try:
            self._h2.reset_stream(stream, 8)
        except (h2.exceptions.ProtocolError, KeyError):
            return

    def _write_many(self, end: float) -> None:
        stream = self._begin()
        chunk = b""
        while time.monotonic() < end and not self.is_over:
            if not chunk:
                chunk = b"".join(request_of("many", number) for number in range(250))
                self.num_requests += 250
            room = min(self._h2.local_flow_control_window(stream), len(chunk), 16_000)
            if room > 0 and len(self._unsent) < 1 << 18:
                self._h2.send_data(stream, chunk[:room])
                chunk = chunk[room:]
                self._exchange(0)
            else:
                self._exchange(0.05)
        self._reset(stream)

    def _write_calls(self, end: float) -> None:
        while time.monotonic() < end and not self.is_over:
            streams = [self._begin() for _ in range(CALLS_AT_ONCE)]
            for stream in streams:
                self._h2.send_data(stream, request_of(self._what, 0), end_stream=True)
            self.num_requests += CALLS_AT_ONCE
            self._exchange(0)
            self._exchange(0.01)
            for stream in streams:
                self._reset(stream)

    def close(self) -> None:
        self._socket.close()

    def attack(self, seconds: float) -> None:
        """One round."""
        end = time.monotonic() + seconds
        if self._what == "many":
            self._write_many(end)
        else:
            self._write_calls(end)
        if not self.is_over:
            self._exchange(0)
        while self._unsent and not self.is_over:
            self._exchange(0.05)


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / MIB


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transport", choices=("native", "grpcio"), default="native")
    parser.add_argument("--what", choices=sorted(METHODS), default="many")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--hold", type=float, default=3, metavar="SECONDS")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with fleet(given.transport, 1, Path(folder)) as (address, gateway, (worker,)):
            wait_ready(address)
            client = Client(address, given.what)
            print(f"{'round':>5} {'requests':>9} {'gateway MiB':>11} {'worker MiB':>10}")
            for number in range(given.rounds + 1):
                end = time.monotonic() + given.hold * (number > 0)
                while (left := end - time.monotonic()) > 0:
                    client.attack(left)
                    if client.is_over:
                        client.close()
                        client = Client(address, given.what, client.num_requests)
                if number:
                    # What was in work ends by then; nothing tells when.
                    time.sleep(1)
                sizes = f"{resident_mib(gateway):>11.1f} {resident_mib(worker):>10.1f}"
                print(f"{number:>5} {client.num_requests:>9} {sizes}", flush=True)


if __name__ == "__main__":
    main()
