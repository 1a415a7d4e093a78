"""``headway infer``."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import options
from headway.cli import stream as streams
from headway.cli.connection import BY_OPTIONS, Connection, to_data
from headway.cli.exits import EXIT_CODES_HELP, code_of, command, error_as_json, tell, usage

if TYPE_CHECKING:
    from headway.v1.inference_pb2 import InferRequest, InferResponse

EPILOG = f"""
[bold]Examples[/bold]

headway infer "the tide turns"

[dim]# Rows of one request; their likeness is shown[/dim]
headway infer "a man is eating" "someone has a meal" "the stock market fell"

[dim]# One row a line from a file, within 200 ms, for a program[/dim]
headway infer - --deadline-ms 200 --json < lines.txt

[dim]# From a model that writes, as it writes[/dim]
headway infer --model smollm2 --stream "What is a tide?"

{EXIT_CODES_HELP}
"""


@command
@to_data
def infer(
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help="What to run. Several are the rows of one request. -: one row a line from "
            "standard input.",
            show_default=False,
        ),
    ],
    connection: Connection = BY_OPTIONS,
    model: options.Model = "",
    version: options.Version = "",
    deadline_ms: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            min=0.001,
            max=86_400_000,
            help="Deadline of the call, in ms; it is the deadline of the work. "
            "[dim]Default: the model's.[/dim]",
        ),
    ] = None,
    priority: options.Priority = "standard",
    lane: options.Lane = "interactive",
    session_key: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Requests with the same key see the same version while the traffic split allows. "
            "[dim]Default: none.[/dim]",
            show_default=False,
        ),
    ] = "",
    as_json: options.AsJson = False,
    stream: streams.Stream = False,
    max_tokens: streams.MaxTokens = None,
    temperature: streams.Temperature = None,
    top_p: streams.TopP = None,
    seed: streams.Seed = None,
    stop: streams.Stop = None,
    first_target_ms: streams.FirstTarget = None,
    gap_target_ms: streams.GapTarget = None,
    completion_target_ms: streams.CompletionTarget = None,
) -> int:
    """Send a text to a model; print the answer and the decisions behind it."""
    import asyncio
    import json

    from rich.console import Console

    from headway.cli import answer
    from headway.client import text_input
    from headway.errors import HeadwayError
    from headway.v1.inference_pb2 import InferRequest

    texts = _lines() if text == ["-"] else text
    if not all(map(_is_unicode, texts)):
        usage("the text is not valid UTF-8; convert it first, with iconv for example")
    if not texts:
        usage("standard input has no line with text")
    request = InferRequest(
        model=model,
        version=version,
        input=text_input(*texts),
        session_key=session_key,
        priority=f"PRIORITY_{priority.upper()}",
        lane=f"LANE_{lane.upper()}",
    )
    streams.set_output(
        request, max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed, stop=stop
    )
    streams.set_targets(
        request,
        first_ms=first_target_ms,
        gap_ms=gap_target_ms,
        completion_ms=completion_target_ms,
    )
    timeout_s = None if deadline_ms is None else deadline_ms / 1000
    try:
        if stream:
            read = streams.read(request, connection, timeout_s, show=not as_json)
            streams.show_end(asyncio.run(read), as_json=as_json)
            return 0
        response, round_trip_ns = asyncio.run(_call(request, connection, timeout_s))
    except HeadwayError as error:
        print(error_as_json(error)) if as_json else tell(error)
        return code_of(error)
    if as_json:
        print(json.dumps(answer.as_json(response, round_trip_ns)))
    else:
        panel = answer.as_panel(response, round_trip_ns, pinned=bool(version))
        Console(highlight=False).print(panel)
    return 0


async def _call(
    request: "InferRequest", connection: Connection, timeout_s: float | None
) -> "tuple[InferResponse, int]":
    from headway.client import Client
    from headway.clock import SystemClock

    clock = SystemClock()
    async with Client(connection.address, **connection.client_options()) as client:
        sent_ns = clock.now_ns()
        response = await client.infer(request, timeout_s=timeout_s)
        return response, clock.now_ns() - sent_ns


def _lines() -> list[str]:
    return [line for line in sys.stdin.read().splitlines() if line.strip()]


def _is_unicode(text: str) -> bool:
    """False for what came from bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
