"""``headway infer --stream``: the output as it is written, and what was measured of it."""

import json
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from headway.cli.connection import Connection
    from headway.v1.inference_pb2 import InferRequest, InferResponse

OUTPUT = "Models that write"

Stream = Annotated[
    bool,
    typer.Option("--stream", help="Print the output as it is written.", rich_help_panel=OUTPUT),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        metavar="N",
        min=1,
        max=1 << 38,
        help="Output budget. [dim]Default: the model's, 128.[/dim]",
        rich_help_panel=OUTPUT,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        metavar="T",
        min=0,
        max=100,
        help="0: the likeliest token, always. [dim]Default: 0.[/dim]",
        rich_help_panel=OUTPUT,
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p", metavar="P", min=0, max=1, help="The likeliest tokens that together reach it. "
        "[dim]Default: 1, all.[/dim]", rich_help_panel=OUTPUT,
    ),
]  # fmt: skip
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, help="Of the draws. [dim]Default: by the request's name.[/dim]",
        rich_help_panel=OUTPUT,
    ),
]  # fmt: skip
Stop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT", help="Ends the output; may be given several times.",
        rich_help_panel=OUTPUT,
    ),
]  # fmt: skip


def _target(flag: str, text: str) -> Any:
    return typer.Option(
        flag, metavar="MS", min=0.001, max=86_400_000,
        help=f"{text}, in ms; its steps become dearer as the time runs out, and nothing ends. "
        "[dim]Default: the model's.[/dim]",
        rich_help_panel=OUTPUT,
    )  # fmt: skip


FirstTarget = Annotated[
    float | None, _target("--first-target-ms", "Wanted wait to the first token")
]
GapTarget = Annotated[
    float | None, _target("--gap-target-ms", "Longest wanted time between two parts")
]
CompletionTarget = Annotated[
    float | None, _target("--completion-target-ms", "Wanted time to the last token")
]


def set_targets(
    request: "InferRequest",
    *,
    first_ms: float | None,
    gap_ms: float | None,
    completion_ms: float | None,
) -> None:
    """Puts wanted times into a request."""
    wanted = {"first_token": first_ms, "gap": gap_ms, "completion": completion_ms}
    for name, milliseconds in wanted.items():
        if milliseconds is not None:
            getattr(request.targets, name).FromNanoseconds(round(milliseconds * 1e6))


def set_output(
    request: "InferRequest",
    *,
    max_tokens: int | None,
    temperature: float | None,
    top_p: float | None,
    seed: int | None,
    stop: list[str] | None,
) -> None:
    """Puts what was asked of the output into a request; what was not stays the model's default."""
    if max_tokens is not None:
        request.max_output_units = max_tokens
    for name, value in (("temperature", temperature), ("top_p", top_p), ("seed", seed)):
        if value is not None:
            setattr(request.sampling, name, value)
    request.sampling.stop.extend(stop or ())
    if not request.sampling.ByteSize():
        request.ClearField("sampling")


@dataclass(slots=True)
class Reading:
    """Instants at which parts came, in nanoseconds from the call."""

    parts_at_ns: list[int] = field(default_factory=list)
    final: "InferResponse | None" = None
    end_ns: int = 0

    def as_json(self) -> dict[str, Any]:
        """For programs; times in ms."""
        from headway.cli import answer

        assert self.final is not None
        return {
            **answer.as_json(self.final, self.end_ns),
            "first_part_ms": self.first_ms,
            "longest_gap_ms": self.longest_gap_ms,
        }

    @property
    def first_ms(self) -> float:
        """Call to first part; to the answer where it came in one."""
        return (self.parts_at_ns[0] if self.parts_at_ns else self.end_ns) / 1e6

    @property
    def longest_gap_ms(self) -> float:
        """Longest wait between two parts."""
        gaps = (later - earlier for earlier, later in pairwise(self.parts_at_ns))
        return max(gaps, default=0) / 1e6


async def read(
    request: "InferRequest",
    connection: "Connection",
    timeout_s: float | None,
    *,
    show: bool,
) -> Reading:
    """Reads one output to its end; prints it as it comes if `show`."""
    from headway.client import Client
    from headway.clock import SystemClock

    clock, reading = SystemClock(), Reading()
    async with Client(connection.address, **connection.client_options()) as client:
        sent_ns = clock.now_ns()
        async for event in client.infer_stream(request, timeout_s=timeout_s):
            now_ns = clock.now_ns() - sent_ns
            if event.WhichOneof("event") == "final":
                reading.final, reading.end_ns = event.final, now_ns
                continue
            reading.parts_at_ns.append(now_ns)
            if show:
                sys.stdout.write(event.delta.text)
                sys.stdout.flush()
    return reading


def show_end(reading: Reading, *, as_json: bool) -> None:
    """What follows the output."""
    final = reading.final
    assert final is not None
    if as_json:
        print(json.dumps(reading.as_json()))
        return
    from rich.console import Console

    from headway.v1 import types_pb2

    if not reading.parts_at_ns:
        sys.stdout.write(final.output.text)
    written = final.usage.output_units
    ended = types_pb2.FinishReason.Name(final.output.finish_reason)
    seconds = (reading.end_ns / 1e6 - reading.first_ms) / 1e3
    rate = f", {(written - 1) / seconds:.1f} tokens/s" if written > 1 and seconds > 0 else ""
    line = (
        f"{final.model}/{final.version} on {final.replica}: {final.usage.prompt_units} tokens "
        f"read, {written} written ({ended.removeprefix('FINISH_REASON_').lower()}); first after "
        f"{reading.first_ms:.0f} ms{rate}, longest gap {reading.longest_gap_ms:.0f} ms"
    )
    print(flush=True)
    Console(stderr=True, highlight=False).print(line, style="dim", soft_wrap=True)
