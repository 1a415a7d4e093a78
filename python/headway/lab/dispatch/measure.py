"""What a run amounts to, by request and in all."""

from dataclasses import dataclass

import numpy as np

from headway.lab.dispatch.catalog import NS_PER_MS
from headway.lab.dispatch.simulator import Progress, Run


@dataclass(frozen=True)
class RequestRow:
    """One line of `requests.csv`; an empty cell is None: it did not happen in the run."""

    request: str
    arrived_ms: float
    first_token_ms: float | None
    completed_ms: float | None
    prompt_tokens: int
    output_tokens: int
    max_gap_ms: float | None
    mean_gap_ms: float | None
    age_area_ms2: float
    open_stall_ms: float


@dataclass(frozen=True)
class SummaryRow:
    """One line of `summary.csv`. Rates are per second of elapsed time."""

    elapsed_ms: float
    busy_ms: float
    num_steps: int
    prompt_tokens: int
    output_tokens: int
    prompt_tokens_per_s: float
    output_tokens_per_s: float
    completed: int
    incomplete: int
    mean_first_token_ms: float | None
    mean_completion_ms: float | None
    p99_gap_ms: float | None
    max_gap_ms: float | None
    age_area_ms2: float
    max_open_stall_ms: float


def request_rows(run: Run) -> list[RequestRow]:
    """By request, in the order of the workload. First token and completion count from arrival."""
    return [_request_row(progress, run.ended_at_ns) for progress in run.requests]


def summary_row(run: Run) -> SummaryRow:
    """All requests together. Gaps are pooled over deliveries; unfinished requests are counted."""
    rows = request_rows(run)
    gaps = [gap / NS_PER_MS for progress in run.requests for gap in progress.gaps_ns]
    prompt_tokens = sum(row.prompt_tokens for row in rows)
    output_tokens = sum(row.output_tokens for row in rows)
    seconds = max(run.ended_at_ns, 1) * 1e-9
    completed = [row.completed_ms for row in rows if row.completed_ms is not None]
    first_tokens = [
        row.first_token_ms
        for row, progress in zip(rows, run.requests, strict=True)
        if row.first_token_ms is not None and progress.spec.prompt_tokens > 0
    ]
    return SummaryRow(
        elapsed_ms=run.ended_at_ns / NS_PER_MS,
        busy_ms=run.busy_ns / NS_PER_MS,
        num_steps=len(run.steps),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        prompt_tokens_per_s=prompt_tokens / seconds,
        output_tokens_per_s=output_tokens / seconds,
        completed=len(completed),
        incomplete=len(rows) - len(completed),
        mean_first_token_ms=_mean(first_tokens),
        mean_completion_ms=_mean(completed),
        p99_gap_ms=float(np.percentile(gaps, 99)) if gaps else None,
        max_gap_ms=max(gaps, default=None),
        age_area_ms2=sum(row.age_area_ms2 for row in rows),
        max_open_stall_ms=max(row.open_stall_ms for row in rows),
    )


def _request_row(progress: Progress, ended_at_ns: int) -> RequestRow:
    spec = progress.spec
    gaps = [gap / NS_PER_MS for gap in progress.gaps_ns]
    open_ns = ended_at_ns - progress.wait_since_ns if progress.decoding else 0
    return RequestRow(
        request=spec.name,
        arrived_ms=spec.arrives_at_ns / NS_PER_MS,
        first_token_ms=_since(progress.first_token_at_ns, spec.arrives_at_ns),
        completed_ms=_since(progress.ended_at_ns, spec.arrives_at_ns),
        prompt_tokens=spec.prompt_tokens - progress.prompt_left,
        output_tokens=progress.generated,
        max_gap_ms=max(gaps, default=None),
        mean_gap_ms=_mean(gaps),
        age_area_ms2=progress.age_area_ns2 / NS_PER_MS**2,
        open_stall_ms=open_ns / NS_PER_MS,
    )


def _since(at_ns: int | None, start_ns: int) -> float | None:
    return None if at_ns is None else (at_ns - start_ns) / NS_PER_MS


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
