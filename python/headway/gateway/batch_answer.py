"""What a worker's answer to a batch means for its members."""

from collections.abc import Iterable

from headway import errors
from headway.gateway.flight import Flight
from headway.gateway.pending import Pending
from headway.rpc.convert import set_duration
from headway.v1 import inference_pb2, worker_pb2

_OK = worker_pb2.ITEM_STATUS_OK
_INVALID = worker_pb2.ITEM_STATUS_INVALID
_EXPIRED = worker_pb2.ITEM_STATUS_EXPIRED
_NO_ANSWER = (worker_pb2.ITEM_STATUS_UNSPECIFIED, worker_pb2.ITEM_STATUS_CANCELLED)
_MESSAGE_LIMIT = 500


def match(
    flight: Flight, result: worker_pb2.BatchResult
) -> tuple[list[worker_pb2.ItemResult], list[int]]:
    """Results of members, each once, and the members without one.

    A worker may send too few or too many; what belongs to no member is dropped, so that nobody
    gets somebody else's answer.
    """
    missing = dict.fromkeys(flight.members)
    items = []
    for item in result.items:
        if item.item_id in missing and _complete(item):
            del missing[item.item_id]
            items.append(item)
    return items, list(missing)


def used(items: Iterable[worker_pb2.ItemResult]) -> list[tuple[int, int]]:
    """Units of the members that a worker counted, prompt and output: what their tenants pay."""
    counted = []
    for item in items:
        if item.HasField("usage"):
            usage = item.usage
            counted.append((item.item_id, usage.prompt_units + usage.output_units))
    return counted


def _complete(item: worker_pb2.ItemResult) -> bool:
    # A member the worker cancelled by itself (it is going down) still wants an answer; one that
    # the gateway cancelled has ended already.
    if item.status in _NO_ANSWER:
        return False
    return item.status != _OK or item.HasField("output")


def common_answer(flight: Flight, device_ns: int, now_ns: int) -> inference_pb2.InferResponse:
    """What the answers of a batch's members have in common: made once, copied for each."""
    pool = flight.replica.pool
    common = inference_pb2.InferResponse(
        model=pool.model.name,
        version=pool.version,
        replica=flight.replica.worker_id,
        batch=flight.info,
    )
    set_duration(common.timings.device, device_ns)
    set_duration(common.timings.execution, now_ns - flight.sent_ns)
    return common


def response_of(
    common: inference_pb2.InferResponse, pending: Pending, item: worker_pb2.ItemResult, now_ns: int
) -> inference_pb2.InferResponse:
    """The answer of one member; `common` as `common_answer` made it for its batch."""
    response = inference_pb2.InferResponse()
    response.CopyFrom(common)
    response.request_id = pending.request_id
    response.attempts = pending.attempts
    response.hedged = pending.hedged
    response.output.CopyFrom(item.output)
    response.usage.CopyFrom(item.usage)
    timings = response.timings
    set_duration(timings.queued, pending.queued_ns)
    set_duration(timings.total, now_ns - pending.arrived_ns)
    set_duration(timings.slack_at_dispatch, pending.slack_ns)
    return response


def too_large(size: int, limit: int) -> errors.MessageTooLarge:
    """The error of an output that would not reach its caller, in bytes."""
    return errors.MessageTooLarge(
        f"the output has {size} bytes and the gateway sends at most {limit}; ask for fewer rows, "
        "or raise gateway.max_message_bytes",
        metadata={"size_bytes": str(size), "limit_bytes": str(limit)},
    )


def member_error(item: worker_pb2.ItemResult, replica: str) -> errors.RequestError:
    """The error behind a member that was not answered; `replica` by name."""
    message = item.message[:_MESSAGE_LIMIT]
    if item.status == _INVALID:
        return errors.InvalidRequest(message or "the model does not take it", field="input")
    if item.status == _EXPIRED:
        return errors.DeadlineExpired("its deadline passed before the worker could begin it")
    return errors.UpstreamFailure(
        f"the model failed on it: {message or 'no reason given'}", metadata={"replica": replica}
    )
