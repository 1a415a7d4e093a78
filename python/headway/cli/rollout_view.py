"""How rollouts and their verdicts are shown to people."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Column, Table

from headway.rpc.convert import duration_ns
from headway.v1 import control_pb2

_PHASE_STYLE: Final[Mapping[str, str]] = {
    "running": "cyan", "paused": "yellow", "promoted": "green", "rolled back": "red",
    "aborted": "red",
}  # fmt: skip
_DECISION_WORDS: Final[Mapping[str, str]] = {
    "HOLD": "hold", "ADVANCE": "go on", "ROLL_BACK": "roll back", "PROMOTE": "promote",
    "STEP_BACK": "step back", "PAUSE": "pause",
}  # fmt: skip


def phase_name(rollout: control_pb2.Rollout) -> str:
    """running, paused, promoted, rolled back or aborted."""
    name = control_pb2.RolloutPhase.Name(rollout.phase).removeprefix("ROLLOUT_PHASE_")
    return name.replace("_", " ").lower()


def rollout_table(rollouts: Sequence[control_pb2.Rollout]) -> RenderableType:
    """Rollouts, one a line."""
    if not rollouts:
        return "[dim]no rollouts yet[/dim]"
    table = Table(
        Column("rollout", no_wrap=True),
        "model",
        "from",
        "to",
        "phase",
        "share",
        "started",
        "why",
        box=None,
    )
    for rollout in rollouts:
        phase = phase_name(rollout)
        table.add_row(
            rollout.rollout_id,
            rollout.model,
            rollout.baseline_version,
            rollout.canary_version,
            f"[{_PHASE_STYLE.get(phase, '')}]{phase}[/]",
            f"{rollout.canary_share:.0%}",
            _time(rollout.started_at),
            rollout.reason,
        )
    return table


def rollout_panel(rollout: control_pb2.Rollout) -> RenderableType:
    """One rollout as it stands: split, both versions with intervals, evidence, next analysis."""
    phase, progress = phase_name(rollout), rollout.progress
    shares = ", ".join(f"{100 * share:g} %" for share in rollout.policy.steps)
    lines: list[RenderableType] = [
        f"[{_PHASE_STYLE.get(phase, '')} bold]{phase}[/]: {rollout.reason}",
        f"split     {rollout.baseline_version} {1 - rollout.canary_share:.1%}, "
        f"{rollout.canary_version} {rollout.canary_share:.1%} "
        f"({_step(rollout.step, len(rollout.policy.steps))}; {shares})",
    ]
    if rollout.HasField("progress"):
        streaks = f"{progress.healthy_streak} for going on, {progress.unhealthy_streak} against"
        lines += [
            f"step      {duration_ns(progress.step_elapsed) / 1e9:.0f} s; next analysis in "
            f"{duration_ns(progress.next_analysis) / 1e9:.0f} s; analyses in a row: {streaks}",
            "",
            arm_table(progress.baseline, progress.canary),
            "",
            _evidence_table(progress.evidence, progress.bounds),
        ]
    title = f"[bold]{rollout.model}[/bold] [dim]{rollout.rollout_id}[/dim]"
    return Panel(Group(*lines), title=title, title_align="left", expand=False)


def arm_table(baseline: control_pb2.ArmEvidence, canary: control_pb2.ArmEvidence) -> Table:
    """Both versions side by side."""
    table = Table(
        "", "requests", "errors (98 % interval)", "refused", "p50", "p95 (95 % interval)", "p99",
        "busy", "replicas", "device/request", box=None,
    )  # fmt: skip
    for arm in (baseline, canary):
        table.add_row(
            arm.version,
            str(arm.requests),
            f"{arm.errors} ({arm.error_rate_low:.2%} to {arm.error_rate_high:.2%})",
            str(arm.sheds),
            _ms(arm.p50),
            f"{_ms(arm.p95)} ({_ms(arm.p95_low)} to {_ms(arm.p95_high)})",
            _ms(arm.p99),
            f"{arm.utilisation:.0%}",
            f"{arm.replicas:.3g}",
            _ms(arm.device_per_request),
        )
    return table


def trail(verdicts: Sequence[control_pb2.Verdict]) -> RenderableType:
    """Verdicts in words, oldest first; a run of alike holds is told once."""
    lines: list[RenderableType] = []
    skipped = 0
    for index, verdict in enumerate(verdicts):
        following = verdicts[index + 1] if index + 1 < len(verdicts) else None
        if following is not None and _alike(verdict, following):
            skipped += 1
            continue
        again = f" [dim](the last of {skipped + 1} like it)[/dim]" if skipped else ""
        lines.append(sentence(verdict) + again)
        skipped = 0
    last = verdicts[-1] if verdicts else None
    if last is not None:
        lines += ["", "[bold]at the last verdict[/bold]", arm_table(last.baseline, last.canary)]
    return Group(*lines) if lines else "no verdict yet"


def sentence(verdict: control_pb2.Verdict) -> str:
    """One verdict in words."""
    name = control_pb2.VerdictDecision.Name(verdict.decision).removeprefix("VERDICT_DECISION_")
    where = "shadow" if verdict.step < 0 else f"{verdict.canary_share:.0%}"
    strongest = max(verdict.evidence, key=lambda test: verdict.evidence[test], default="")
    most = f"; strongest evidence: {strongest} {verdict.evidence[strongest]:.3g}"
    return (
        f"[dim]{verdict.sequence:4} {_time(verdict.decided_at)}[/dim] at {where}: "
        f"[bold]{_DECISION_WORDS.get(name, name)}[/bold] ({verdict.test}) {verdict.reason} [dim]"
        f"{verdict.baseline.requests} and {verdict.canary.requests} requests, "
        f"{verdict.baseline.errors} and {verdict.canary.errors} errors, p95 "
        f"{_ms(verdict.baseline.p95)} and {_ms(verdict.canary.p95)}{most if strongest else ''}[/]"
    )


def _alike(one: control_pb2.Verdict, other: control_pb2.Verdict) -> bool:
    hold = control_pb2.VERDICT_DECISION_HOLD
    same = (one.step, one.test) == (other.step, other.test)
    return one.decision == hold == other.decision and same


def _evidence_table(evidence: Mapping[str, float], bounds: Mapping[str, float]) -> Table:
    table = Table("evidence that it is worse", "now", "rolls back at", box=None)
    for test in sorted(evidence):
        value = evidence[test]
        style = "red" if value > 5 else ""
        bound = f"{bounds[test]:.0f}" if test in bounds else ""
        table.add_row(test, f"[{style}]{value:.3g}[/]" if style else f"{value:.3g}", bound)
    return table


def _step(step: int, count: int) -> str:
    return "shadow step" if step < 0 else f"step {step + 1} of {count}"


def _ms(duration: Any) -> str:
    return f"{duration_ns(duration) / 1e6:.1f} ms"


def _time(timestamp: Any) -> str:
    return str(timestamp.ToDatetime().strftime("%Y-%m-%d %H:%M:%S")) + "Z"
