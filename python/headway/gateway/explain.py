"""Puts the decisions on a request into words, for whoever asks."""

from collections.abc import Iterator
from typing import cast

from headway._core import Reading, split_point
from headway.clock import wall_ns
from headway.gateway.decisions import LANE, BatchTrace, Record
from headway.gateway.messages import timestamp
from headway.rpc.convert import duration_from_ns
from headway.v1 import control_pb2, inference_pb2, types_pb2

_WHY_CLOSED = {
    inference_pb2.BATCH_REASON_QUEUE_EMPTIED: "everything queued that could run was in it",
    inference_pb2.BATCH_REASON_MAX_REQUESTS: "it had reached the replica's limit of requests",
    inference_pb2.BATCH_REASON_MAX_ROWS: "it had reached the replica's limit of rows",
    inference_pb2.BATCH_REASON_MAX_UNITS: "it had reached the replica's limit of work units",
    inference_pb2.BATCH_REASON_DEADLINE: "one more member would have made another one late",
    inference_pb2.BATCH_REASON_QUANTUM: "it had reached the batch-length quantum",
    inference_pb2.BATCH_REASON_OVERSIZED: "the request is too large to share a batch",
}
_TELLING = 10
"""Outcomes below which a breaker says nothing."""

_ENDED_EARLY = {"DEADLINE_EXPIRED": "expired", "CANCELLED": "cancelled", "DRAINING": "cancelled"}
_WHAT_FAILED = {
    "busy": "The replica said it was busy and did not begin it, which says nothing of its health",
    "failed": "The batch failed as a whole{why}",
    "lost": "The connection to the worker was lost before an answer",
}


def sentences(record: Record, now_ns: int) -> Iterator[str]:
    """What happened and why, in order, a sentence or two for each decision."""
    yield _arrival(record, now_ns)
    yield _admission(record)
    if record.pool is not None:
        yield _version(record)
    if record.admitted:
        yield _queue(record)
    if record.reading is not None and _had_say(record.reading):
        yield _share(record.reading, "outputs in hand" if _writes(record) else None)
    if record.reading is not None and record.reading.earned_per_s > 0:
        yield _price(record.reading)
    if record.reading is not None and record.reading.wanted_chance > 0:
        yield _odds(record.reading)
    for number, _ in enumerate(record.attempts):
        yield from _attempt(record, number)
    yield _outcome(record, now_ns)


def message(record: Record, now_ns: int) -> control_pb2.DecisionRecord:
    """The numbers, for programs."""
    caller, model = record.caller, record.model
    told = control_pb2.DecisionRecord(
        request_id=record.request_id,
        tenant=caller.tenant,
        key_id=caller.key_id,
        model=model.name if model else "",
        version=record.pool.version if record.pool else "",
        version_reason="" if record.pool is None else "pinned" if record.pinned else "split",
        arrived_at=timestamp(wall_ns() - (now_ns - record.arrived_ns)),
        units=record.units,
        rows=record.rows,
        outcome=record.outcome,
        message=record.message,
        weight=record.weight,
        inflight_requests=record.inflight,
        attempts=[_attempt_message(record, number) for number, _ in enumerate(record.attempts)],
    )
    told.priority = cast("types_pb2.Priority", record.priority)
    told.lane = cast("types_pb2.Lane", record.lane)
    if record.deadline_ns:
        told.deadline.CopyFrom(duration_from_ns(record.deadline_ns - record.arrived_ns))
    if record.retry_after_ns is not None:
        told.retry_after.CopyFrom(duration_from_ns(record.retry_after_ns))
    if model is not None and record.key_hash and not record.pinned:
        told.split_point = split_point(record.key_hash, model.salt)
    for version, share in record.shares:
        told.shares.add(version=version, share=share)
    if record.admitted:
        ahead = _ahead(record)
        told.queued_ahead, told.queued_units_ahead, told.executing_ahead = ahead[:3]
        told.drain.CopyFrom(duration_from_ns(ahead[3]))
    if record.reading is not None:
        told.admission.CopyFrom(_reading(record.reading))
    told.timings.CopyFrom(_timings(record))
    return told


def _arrival(record: Record, now_ns: int) -> str:
    who = f"tenant {record.caller.tenant}"
    if record.caller.key_id:
        who += f" (key {record.caller.key_id})"
    text = f"Request {record.request_id} of {who} arrived {_ago(now_ns - record.arrived_ns)} ago"
    if record.model is not None:
        text += f" for model {record.model.name}"
    if record.deadline_ns:
        text += f", to be answered within {_ms(record.deadline_ns - record.arrived_ns)}"
    if record.units:
        text += (
            f"; its work was estimated at {_count(record.units, 'unit')} in "
            f"{_count(record.rows, 'row')}"
        )
    return text + "."


def _admission(record: Record) -> str:
    if not record.admitted:
        return f"It was refused at the door ({record.outcome}): {record.message}."
    lane = types_pb2.Lane.Name(record.lane).removeprefix("LANE_").lower()
    priority = types_pb2.Priority.Name(record.priority)
    priority = priority.removeprefix("PRIORITY_").lower()
    return (
        f"It was admitted with priority {priority}, lane {lane} and weight {record.weight:g}: its "
        "tenant's quota had room, its deadline looked reachable and the queue was below its "
        f"bound; the gateway then had {_count(record.inflight, 'request')} in flight, this one "
        "included."
    )


def _version(record: Record) -> str:
    assert record.pool is not None  # checked by the caller
    version = record.pool.version
    if record.pinned:
        return f"Version {version} was asked for by the caller."
    if record.model is None or len(record.shares) == 1:
        return f"Version {version} gets all of the model's traffic."
    point, intervals, start, fell = split_point(record.key_hash, record.model.salt), [], 0.0, ""
    for name, share in record.shares:
        intervals.append(f"{name} {_percent(share)}")
        if start <= point < start + share:
            fell = name
        start += share
    text = (
        f"Version {version} was chosen by the traffic split ({', '.join(intervals)}): the hash of "
        f"its key falls at {_percent(point)} of the way"
    )
    if fell and fell != version:
        return f"{text}, which is {fell}'s part, but {fell} had no replica."
    return f"{text}, which is {version}'s part."


def _queue(record: Record) -> str:
    requests, units, executing, drain_ns = _ahead(record)
    if _writes(record):
        wait = "a lane was free" if not drain_ns else f"a lane was about {_ms(drain_ns)} away"
        return (
            f"At its arrival {_count(requests, 'other output')} with {_count(units, 'unit')} "
            f"waited for that version and {executing:,} were written; {wait}."
        )
    return (
        f"At its arrival {_count(requests, 'other request')} with "
        f"{_count(units, 'unit')} were queued for that "
        f"version and {_count(executing, 'request')} executing; the fleet needed "
        f"about {_ms(drain_ns)} for all of it."
    )


def _writes(record: Record) -> bool:
    """Whether it was for a model that writes."""
    return record.pool is not None and record.pool.card.generative


def _ahead(record: Record) -> tuple[int, int, int, int]:
    """(requests, units) queued before it, requests executing, ns for all of it and itself."""
    seen = record.reading
    if seen is None:
        return 0, 0, 0, 0
    return seen.queued_requests, seen.queued_units, seen.executing_requests, seen.drain_ns


def _had_say(seen: Reading) -> bool:
    """True if a quota, a share or the limit could have made a difference."""
    has_quota = seen.tenant_units < float("inf")
    is_tight = seen.limit > 0 and 2 * (seen.inflight + seen.reserved) >= seen.limit
    return has_quota or is_tight or seen.share_ratio > 1.001 or seen.weight_part < 1


def _share(seen: Reading, what: str | None = None) -> str:
    """What admission saw of the tenant and of the limit; shares are of `what`."""
    units = "no limit on units"
    if seen.tenant_units < float("inf"):
        units = f"{seen.tenant_units:,.0f} units left of its quota"
    text = (
        f"Its tenant then had {units}, {_count(seen.tenant_queued, 'request')} queued, and of the "
        f"{what or 'recent device time'} {seen.share_ratio:.2f} times its fair share"
    )
    if seen.weight_part < 1:
        text += f", for which the request kept {_percent(seen.weight_part)} of its weight"
    if not seen.limit:
        return text + "."
    text += f"; {seen.inflight:,} of at most {seen.limit:,} requests were in hand for that version"
    return text + (f", {seen.reserved:,} kept for higher classes." if seen.reserved else ".")


def _price(seen: Reading) -> str:
    """What it offered for device time, which is what requests compete by."""
    return (
        f"For a second of device time it offered a value of {seen.offered_per_s:,.3g}, where the "
        f"batches of late earned {seen.earned_per_s:,.3g}."
    )


def _odds(seen: Reading) -> str:
    """Why it was refused early rather than at its deadline."""
    return (
        f"Its chance of being served in time was {_percent(seen.chance)}, judged by moments like "
        f"that one and the work ahead; at least {_percent(seen.wanted_chance)} was asked for."
    )


def _reading(seen: Reading) -> control_pb2.AdmissionRecord:
    told = control_pb2.AdmissionRecord(
        limit=seen.limit,
        inflight=seen.inflight,
        reserved=seen.reserved,
        tenant_queued=seen.tenant_queued,
        share_ratio=seen.share_ratio,
        weight_part=seen.weight_part,
        offered_per_second=seen.offered_per_s,
        earned_per_second=seen.earned_per_s,
    )
    if seen.tenant_units < float("inf"):
        told.tenant_units = seen.tenant_units
    if seen.wanted_chance > 0:
        told.chance, told.wanted_chance = seen.chance, seen.wanted_chance
    return told


def _company(record: Record, trace: BatchTrace) -> str:
    """With whom it went: "in batch 7 with 2 other requests (r-1, r-2)"."""
    if trace.size <= 1:
        return f"alone in batch {trace.batch_id}"
    others = [name for name in trace.request_ids if name != record.request_id]
    named = f" ({', '.join(others[:4])}{', ...' if trace.size > 5 else ''})" if others else ""
    return f"in batch {trace.batch_id} with {_count(trace.size - 1, 'other request')}{named}"


def _attempt(record: Record, number: int) -> Iterator[str]:
    trace, queued_ns, slack_ns = record.attempts[number]
    which = f"Attempt {number + 1}: after" if len(record.attempts) > 1 else "After"
    company = _company(record, trace)
    if trace.hedge_of:
        yield (
            f"Batch {trace.hedge_of} was later than 95 % of that version's batches, replica "
            f"{trace.replica} had nothing to do and there was device time left for copies: "
            f"{_ms(trace.sent_ns - record.arrived_ns)} after its arrival the request was also sent "
            f"there, {company}, predicted to take {_ms(trace.predicted_ns)}."
        )
        yield from _attempt_end(record, number)
        return
    if trace.reason == LANE:
        yield (
            f"{which} {_ms(queued_ns)} in the queue it took a lane of replica {trace.replica}. Its "
            f"first unit was predicted after {_ms(trace.predicted_ns)}, which left "
            f"{_slack(slack_ns)}."
        )
        return
    yield (
        f"{which} {_ms(queued_ns)} in the queue it went to replica {trace.replica} {company}, "
        f"{_count(trace.units, 'unit')} in all; the batch was closed because "
        f"{_WHY_CLOSED.get(trace.reason, 'of a newer rule')}. It was predicted to take "  # type: ignore[call-overload]
        f"{_ms(trace.predicted_ns)} of device time, which left {_slack(slack_ns)}."
    )
    if trace.other_replica:
        yield (
            f"{trace.replica} was drawn together with {trace.other_replica} and looked cheaper: "
            f"{_ms(trace.score_ns)} of expected wait and service against "
            f"{_ms(trace.other_score_ns)}."
        )
    if trace.pipelined:
        yield (
            f"{trace.replica} still executed its last batch and was about to be free: the batch "
            "left early, so as not to leave the device idle."
        )
    yield from _attempt_end(record, number)


def _attempt_end(record: Record, number: int) -> Iterator[str]:
    trace = record.attempts[number][0]
    outcome = _attempt_outcome(record, number)
    if outcome == "failed" and trace.outcome == "ok":
        yield "The replica answered the others of its batch, and for this request with an error."
    elif outcome in _WHAT_FAILED:
        why = f" ({trace.message})" if trace.message else ""
        yield f"{_WHAT_FAILED[outcome].format(why=why)}; {_what_then(record, number)}."
        if trace.recent_outcomes >= _TELLING and trace.recent_failures:
            yield (
                f"By then {trace.recent_failures} of the last {trace.recent_outcomes} requests on "
                f"{trace.replica} had failed."
            )
        if trace.shut_out:
            yield (
                f"{trace.replica} was shut out by its breaker, since half or more of its last "
                "requests had failed; after some seconds single requests are tried there."
            )
    elif outcome == "ok" and trace.device_ns:
        yield f"The device took {_ms(trace.device_ns)}{_compared(trace)}."
    elif outcome == "cancelled" and record.outcome == "ok":
        yield "The other copy answered first, so this one was stopped."


def _what_then(record: Record, number: int) -> str:
    trace = record.attempts[number][0]
    if trace.left_to_twin:
        return "its other copy was executing already, so the request waited for that"
    if number == len(record.attempts) - 1 and record.outcome not in ("", "ok"):
        return "no attempt or time was left"
    return "the request went back to the queue"


def _outcome(record: Record, now_ns: int) -> str:
    after = _ms(record.ended_ns - record.arrived_ns)
    if not record.outcome:
        where = "is executing" if _runs(record) else "is queued"
        return f"It {where} now, {_ms(now_ns - record.arrived_ns)} after its arrival."
    if record.outcome == "ok":
        left = record.deadline_ns - record.ended_ns
        return f"It was answered after {after}, {_ms(left)} before its deadline."
    text = f"It ended with {record.outcome} after {after}: {record.message}."
    if not record.admitted and record.retry_after_ns is None:
        return f"{text} The same request would be refused again."
    return text


def _runs(record: Record) -> bool:
    return bool(record.attempts) and not record.attempts[-1][0].outcome


def _attempt_outcome(record: Record, number: int) -> str:
    """How an execution ended for this member, which may differ from the batch's end."""
    trace = record.attempts[number][0]
    last = number == len(record.attempts) - 1
    if not last or not record.outcome or record.outcome == "ok":
        return trace.outcome
    early = _ENDED_EARLY.get(record.outcome)
    if early and (not trace.ended_ns or record.ended_ns <= trace.ended_ns):
        return early
    return "failed" if trace.outcome == "ok" else trace.outcome


def _attempt_message(record: Record, number: int) -> control_pb2.AttemptRecord:
    trace, queued_ns, slack_ns = record.attempts[number]
    batch = inference_pb2.BatchInfo(
        id=trace.batch_id,
        size=trace.size,
        rows=trace.rows,
        units=trace.units,
        reason=max(0, trace.reason),  # type: ignore[arg-type]  # an enum by its number
        predicted_device=duration_from_ns(trace.predicted_ns),
    )
    told = control_pb2.AttemptRecord(
        replica=trace.replica,
        batch=batch,
        device=duration_from_ns(trace.device_ns),
        outcome=_attempt_outcome(record, number),
        queued=duration_from_ns(queued_ns),
        slack=duration_from_ns(slack_ns),
        message=trace.message,
        companion_ids=[name for name in trace.request_ids if name != record.request_id],
        other_replica=trace.other_replica,
        hedge=trace.hedge_of > 0,
        pipelined=trace.pipelined,
    )
    if trace.ended_ns:
        told.execution.CopyFrom(duration_from_ns(trace.ended_ns - trace.sent_ns))
    if trace.other_replica:
        told.score.CopyFrom(duration_from_ns(trace.score_ns))
        told.other_score.CopyFrom(duration_from_ns(trace.other_score_ns))
    return told


def _timings(record: Record) -> inference_pb2.Timings:
    timings = inference_pb2.Timings()
    if record.ended_ns:
        timings.total.CopyFrom(duration_from_ns(record.ended_ns - record.arrived_ns))
    if record.attempts:
        trace, queued_ns, slack_ns = record.attempts[-1]
        timings.queued.CopyFrom(duration_from_ns(queued_ns))
        timings.slack_at_dispatch.CopyFrom(duration_from_ns(slack_ns))
        timings.device.CopyFrom(duration_from_ns(trace.device_ns))
        if trace.ended_ns:
            timings.execution.CopyFrom(duration_from_ns(trace.ended_ns - trace.sent_ns))
    return timings


def _compared(trace: BatchTrace) -> str:
    if not trace.predicted_ns:
        return ""
    return f", {trace.device_ns / trace.predicted_ns:.2f} times the prediction"


def _slack(slack_ns: int) -> str:
    if slack_ns >= 0:
        return f"{_ms(slack_ns)} to its deadline"
    return f"it {_ms(-slack_ns)} beyond its deadline, which was tried to learn the true cost"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.1f} ms" if abs(ns) < 10_000_000_000 else f"{ns / 1e9:.1f} s"


def _ago(ns: int) -> str:
    seconds = ns / 1e9
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
