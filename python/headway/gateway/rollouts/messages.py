"""Rollouts on the wire: requests to settings, records to messages."""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp

from headway.rollout.controller import Controller, evidence_of
from headway.rollout.machine import is_active
from headway.rpc.convert import NS_PER_S, duration_from_ns, duration_ns
from headway.store.records import RolloutRecord, VerdictRecord
from headway.v1 import control_pb2

_PHASES: Final[Mapping[str, "control_pb2.RolloutPhase"]] = {
    "running": control_pb2.ROLLOUT_PHASE_RUNNING,
    "paused": control_pb2.ROLLOUT_PHASE_PAUSED,
    "promoted": control_pb2.ROLLOUT_PHASE_PROMOTED,
    "rolled_back": control_pb2.ROLLOUT_PHASE_ROLLED_BACK,
    "aborted": control_pb2.ROLLOUT_PHASE_ABORTED,
}
_DECISIONS: Final[Mapping[str, "control_pb2.VerdictDecision"]] = {
    "hold": control_pb2.VERDICT_DECISION_HOLD,
    "advance": control_pb2.VERDICT_DECISION_ADVANCE,
    "roll_back": control_pb2.VERDICT_DECISION_ROLL_BACK,
    "promote": control_pb2.VERDICT_DECISION_PROMOTE,
    "step_back": control_pb2.VERDICT_DECISION_STEP_BACK,
    "pause": control_pb2.VERDICT_DECISION_PAUSE,
}


def policy_settings(policy: control_pb2.RolloutPolicy) -> dict[str, Any]:
    """Settings of a request's policy; its own fields win over `settings`."""
    settings: dict[str, Any] = dict(json_format.MessageToDict(policy.settings))
    least: dict[str, Any] = {}
    if policy.HasField("min_step_duration"):
        least["min_seconds"] = duration_ns(policy.min_step_duration) / NS_PER_S
    if policy.min_step_requests:
        least["min_requests"] = policy.min_step_requests
    if policy.steps:
        settings["steps"] = list(policy.steps)
    if least:
        settings["least"] = settings.get("least", {}) | least
    for name in ("latency_tolerance", "error_tolerance", "error_floor",
                 "false_rollback_probability"):  # fmt: skip
        if getattr(policy, name):
            settings[name] = getattr(policy, name)
    for field, name in (("analysis_interval", "analysis_seconds"), ("max_duration", "max_seconds")):
        if policy.HasField(field):
            settings[name] = duration_ns(getattr(policy, field)) / NS_PER_S
    return settings


def rollout_message(
    record: RolloutRecord, controller: Controller | None = None
) -> control_pb2.Rollout:
    """A rollout, with the progress of its step where that is known."""
    message = control_pb2.Rollout(
        rollout_id=record.rollout_id,
        model=record.model,
        baseline_version=record.baseline_version,
        canary_version=record.canary_version,
        phase=_PHASES[record.phase],
        step=record.step,
        canary_share=record.canary_share,
        policy=_policy_message(record.policy),
        started_at=_timestamp(record.started_at_ns),
        reason=record.reason,
    )
    if record.ended_at_ns is not None:
        message.ended_at.CopyFrom(_timestamp(record.ended_at_ns))
    if controller is not None and is_active(record):
        message.progress.CopyFrom(_progress(controller))
    return message


def verdict_message(verdict: VerdictRecord) -> control_pb2.Verdict:
    """A verdict with its evidence."""
    return control_pb2.Verdict(
        sequence=verdict.sequence,
        decided_at=_timestamp(verdict.decided_at_ns),
        decision=_DECISIONS[verdict.decision],
        test=verdict.test,
        reason=verdict.reason,
        baseline=_arm(verdict.baseline),
        canary=_arm(verdict.canary),
        evidence=verdict.evidence,
        step=int(verdict.canary.get("step", 0)),
        canary_share=float(verdict.canary.get("share", 0)),
    )


def _progress(controller: Controller) -> control_pb2.RolloutProgress:
    baseline, canary = controller.arms()
    view = controller.view()
    healthy, unhealthy = controller.streaks()
    return control_pb2.RolloutProgress(
        step_elapsed=duration_from_ns(round(view.elapsed_s * NS_PER_S)),
        next_analysis=duration_from_ns(round(controller.next_analysis_s * NS_PER_S)),
        baseline=_arm(baseline),
        canary=_arm(canary),
        evidence=evidence_of(view.logs),
        bounds=evidence_of(controller.judge.bounds()),
        healthy_streak=healthy,
        unhealthy_streak=unhealthy,
    )


def _arm(plain: Mapping[str, Any]) -> control_pb2.ArmEvidence:
    durations = {
        name: duration_from_ns(int(plain.get(f"{name}_ns", 0)))
        for name in ("p50", "p95", "p99", "p95_low", "p95_high")
    }
    return control_pb2.ArmEvidence(
        version=plain["version"],
        requests=plain["requests"],
        errors=plain["errors"],
        sheds=plain["sheds"],
        utilisation=plain["utilisation"],
        error_rate_low=plain["error_rate_low"],
        error_rate_high=plain["error_rate_high"],
        replicas=plain["replicas"],
        device_per_request=duration_from_ns(int(plain["device_ns_per_request"])),
        **durations,
    )


def _policy_message(policy: Mapping[str, Any]) -> control_pb2.RolloutPolicy:
    message = control_pb2.RolloutPolicy(
        steps=[*(step["share"] for step in policy["steps"]), 1.0],
        latency_tolerance=policy["latency_tolerance"],
        error_tolerance=policy["error_tolerance"],
        error_floor=policy["error_floor"],
        analysis_interval=duration_from_ns(round(policy["analysis_seconds"] * NS_PER_S)),
        false_rollback_probability=policy.get("false_rollback_probability", 0.0),
    )
    if policy["max_seconds"] is not None:
        message.max_duration.CopyFrom(duration_from_ns(round(policy["max_seconds"] * NS_PER_S)))
    json_format.ParseDict(dict(policy), message.settings)
    return message


def _timestamp(ns: int) -> Timestamp:
    return Timestamp(seconds=ns // NS_PER_S, nanos=ns % NS_PER_S)
