"""Messages of outputs: to a worker, and to who asked."""

from headway import errors
from headway.gateway.replica import Replica
from headway.gateway.stream_request import PendingStream
from headway.gateway.stream_targets import remaining
from headway.rpc.convert import duration_from_ns
from headway.v1 import inference_pb2, worker_pb2

MESSAGE_LIMIT = 500


def execute_of(stream: PendingStream, handle: int, now_ns: int) -> worker_pb2.SessionRequest:
    """Asks a worker for the output; its batch and its one member have one name."""
    request = stream.request
    item = worker_pb2.BatchItem(
        item_id=stream.stream_id,
        remaining_ns=max(1, stream.deadline_ns - now_ns),
        input=request.input,
        max_output_units=stream.budget,
        request_id=stream.request_id,
    )
    if request.HasField("sampling"):
        item.sampling.CopyFrom(request.sampling)
    if request.HasField("targets"):
        item.targets.CopyFrom(remaining(request.targets, now_ns - stream.arrived_ns))
    execute = worker_pb2.ExecuteBatch(
        batch_id=stream.stream_id,
        model_handle=handle,
        items=[item],
        predicted_device_ns=stream.predicted_first_ns,
    )
    return worker_pb2.SessionRequest(execute=execute)


def delta_of(part: worker_pb2.StreamPart, index: int) -> inference_pb2.OutputDelta:
    """A part for the reader."""
    return inference_pb2.OutputDelta(
        index=index, text=part.text, token_ids=part.token_ids, logprobs=part.logprobs
    )


def response_of(
    stream: PendingStream,
    replica: Replica,
    item: worker_pb2.ItemResult,
    result: worker_pb2.BatchResult,
    now_ns: int,
) -> inference_pb2.InferResponse:
    """The answer. The device's time is that of the steps it was in, which others shared."""
    timings = inference_pb2.Timings(
        queued=duration_from_ns(stream.dispatched_ns - stream.arrived_ns),
        device=duration_from_ns(result.device_ns),
        execution=duration_from_ns(now_ns - stream.dispatched_ns),
        total=duration_from_ns(now_ns - stream.arrived_ns),
        slack_at_dispatch=duration_from_ns(
            stream.deadline_ns - stream.dispatched_ns - stream.predicted_first_ns
        ),
    )
    return inference_pb2.InferResponse(
        request_id=stream.request_id,
        model=stream.pool.model.name,
        version=stream.pool.version,
        replica=replica.worker_id,
        attempts=stream.attempts,
        output=item.output,
        usage=item.usage,
        timings=timings,
    )


def failure_of(stream: PendingStream, item: worker_pb2.ItemResult) -> errors.RequestError:
    """The error behind a member that was not answered."""
    message = item.message[:MESSAGE_LIMIT]
    if item.status == worker_pb2.ITEM_STATUS_INVALID:
        field = message.split(" ", 1)[0] if message.startswith(("sampling.", "input.")) else "input"
        return errors.InvalidRequest(message or "the model does not take it", field=field)
    if item.status == worker_pb2.ITEM_STATUS_EXPIRED:
        return errors.DeadlineExpired("its deadline passed while it was written")
    if stream.num_parts:
        return errors.StreamBroken(
            f"the model failed after {stream.written} units: {message or 'no reason given'}"
        )
    return errors.UpstreamFailure(f"the model failed on it: {message or 'no reason given'}")
