"""How an answer, and the decisions behind it, are shown."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from headway.rpc.convert import array_from_tensor, duration_ns
from headway.v1 import inference_pb2, types_pb2

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "QUEUE_EMPTIED": "everything queued and feasible is in it",
        "MAX_REQUESTS": "the limit on requests was reached",
        "MAX_ROWS": "the limit on rows was reached",
        "MAX_UNITS": "the limit on work units was reached",
        "DEADLINE": "one more member would have made another miss its deadline",
        "QUANTUM": "the batch-length quantum was reached",
        "OVERSIZED": "one request too large to share a batch",
    }
)
_SHOWN_NUMBERS: Final = 5
_NS_PER_MS: Final = 1e6


def as_json(response: inference_pb2.InferResponse, round_trip_ns: int) -> Mapping[str, Any]:
    """The answer for programs; durations in ms, tensors as nested lists."""
    timings, batch = response.timings, response.batch
    output = response.output
    return {
        "request_id": response.request_id,
        "model": response.model,
        "version": response.version,
        "replica": response.replica,
        "hedged": response.hedged,
        "attempts": response.attempts,
        "output": {
            "text": output.text if output.HasField("text") else None,
            "tensors": [_tensor(tensor) for tensor in output.tensors],
        },
        "usage": {
            "prompt_units": response.usage.prompt_units,
            "output_units": response.usage.output_units,
            "rows": response.usage.rows,
            "truncated_rows": response.usage.truncated_rows,
        },
        "timings_ms": {
            "queued": duration_ns(timings.queued) / _NS_PER_MS,
            "device": duration_ns(timings.device) / _NS_PER_MS,
            "execution": duration_ns(timings.execution) / _NS_PER_MS,
            "total": duration_ns(timings.total) / _NS_PER_MS,
            "round_trip": round_trip_ns / _NS_PER_MS,
            "slack_at_dispatch": duration_ns(timings.slack_at_dispatch) / _NS_PER_MS,
        },
        "batch": {
            "id": batch.id,
            "size": batch.size,
            "rows": batch.rows,
            "units": batch.units,
            "reason": reason_name(batch.reason),
            "predicted_device_ms": duration_ns(batch.predicted_device) / _NS_PER_MS,
        },
    }


def as_panel(
    response: inference_pb2.InferResponse, round_trip_ns: int, *, pinned: bool
) -> RenderableType:
    """The answer for people. `pinned`: the request named a version."""
    timings, batch, usage = response.timings, response.batch, response.usage
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold")
    rows.add_column()
    chosen = "as asked for" if pinned else "by the traffic split"
    rows.add_row("version", f"{response.version}, {chosen}")
    rows.add_row("replica", f"{response.replica}{_executions(response)}")
    if response.HasField("batch"):
        _add_batch(rows, batch)
    rows.add_row(
        "time",
        f"{_ms(timings.total)} = queued {_ms(timings.queued)} + execution "
        f"{_ms(timings.execution)}; here {round_trip_ns / _NS_PER_MS:.1f} ms",
    )
    predicted = f"predicted {_ms(batch.predicted_device)} for the batch"
    shared = predicted if response.HasField("batch") else "of steps that others shared"
    rows.add_row("device", f"{_ms(timings.device)}, {shared}")
    rows.add_row("slack", f"{_ms(timings.slack_at_dispatch)} to the deadline at dispatch")
    written = f", {_number(usage.output_units, 'unit')} written" if usage.output_units else ""
    rows.add_row("work", f"{_number(usage.prompt_units, 'unit')} read{written}")
    if usage.truncated_rows:
        cut = _number(usage.truncated_rows, "row")
        rows.add_row("[yellow]truncated[/yellow]", f"{cut}: only the beginning was read")
    title = f"[bold]{response.model}[/bold] [dim]request {response.request_id}[/dim]"
    output = Group(*_output_lines(response.output))
    return Group(output, Panel(rows, title=title, title_align="left", expand=False))


def _add_batch(rows: Table, batch: inference_pb2.BatchInfo) -> None:
    rows.add_row(
        "batch",
        f"no. {batch.id}: {_number(batch.size, 'request')}, {_number(batch.rows, 'row')}, "
        f"{_number(batch.units, 'unit')}",
    )
    reason = reason_name(batch.reason)
    rows.add_row("closed by", f"{reason}: {REASONS.get(reason, 'a newer reason')}")


def reason_name(reason: inference_pb2.BatchReason) -> str:
    """Name of a batch reason; its number, if a newer gateway gave it."""
    try:
        return inference_pb2.BatchReason.Name(reason).removeprefix("BATCH_REASON_")
    except ValueError:
        return str(int(reason))


def _executions(response: inference_pb2.InferResponse) -> str:
    hedged = ", hedged" if response.hedged else ""
    return f" after {response.attempts} attempts{hedged}" if response.attempts > 1 else hedged


def _output_lines(output: types_pb2.Output) -> Sequence[str]:
    lines = [output.text] if output.HasField("text") else []
    for tensor in output.tensors:
        array = array_from_tensor(tensor)
        name = tensor.name or "output"
        lines.append(f"[bold]{name}[/bold] {array.dtype} {list(array.shape)}")
        lines += _row_lines(array.reshape(array.shape[0], -1))
    return lines


def _row_lines(rows: npt.NDArray[Any]) -> Sequence[str]:
    # Whole numbers are classes or codes, not directions.
    floats = np.issubdtype(rows.dtype, np.floating)
    similar = _similarity_to_first(rows)
    lines = []
    for index, row in enumerate(rows):
        numbers = " ".join(map(_shown, row[:_SHOWN_NUMBERS]))
        more = " ..." if len(row) > _SHOWN_NUMBERS else ""
        likeness = f"  [dim]cosine to 0: {similar[index]:.3f}[/dim]" if index and floats else ""
        lines.append(f"  {index}: {numbers}{more}{likeness}")
    return lines


def _shown(number: Any) -> str:
    """A number as its type has it: integers and truth values in full."""
    return f"{number:.4g}" if isinstance(number, np.floating) else str(number)


def _similarity_to_first(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    wide = rows.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1) * np.linalg.norm(wide[0])
    likeness: npt.NDArray[Any] = wide @ wide[0] / np.where(norms == 0, 1, norms)
    return likeness


def _tensor(tensor: types_pb2.Tensor) -> Mapping[str, Any]:
    array = array_from_tensor(tensor)
    return {
        "name": tensor.name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "values": array.tolist(),
    }


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _ms(duration: Any) -> str:
    return f"{duration_ns(duration) / _NS_PER_MS:.1f} ms"
