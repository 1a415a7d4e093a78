"""What a request says of how its output is written: checked on arrival, handed on at dispatch."""

from google.protobuf.duration_pb2 import Duration

from headway.errors import InvalidRequest
from headway.rpc.convert import duration_ns
from headway.v1 import inference_pb2, types_pb2, worker_pb2

LONGEST_NS = 86_400_000_000_000
_NAMES = ("first_token", "gap", "completion")


def check_targets(targets: types_pb2.StreamTargets) -> None:
    """Refuses what is no span of time.

    Raises:
      InvalidRequest: a target is not in (0, 24 h].
    """
    for name in _NAMES:
        if targets.HasField(name):
            _check(f"targets.{name}", getattr(targets, name))


def refuse_writing(request: inference_pb2.InferRequest, model: str) -> None:
    """Refuses what only means something to a model that writes; `model` answers whole.

    Raises:
      InvalidRequest: a target, a sampling parameter or an output budget is set.
    """
    if request.HasField("targets"):
        _refuse_targets(request.targets, model)
    if request.HasField("max_output_units"):
        raise InvalidRequest(
            f"max_output_units is {request.max_output_units}, and {model} answers whole, not in "
            "units that it writes; leave it out",
            field="max_output_units",
        )
    if not request.HasField("sampling"):
        return
    for field, _ in request.sampling.ListFields():
        raise InvalidRequest(
            f"sampling.{field.name} is set, and {model} answers whole and draws nothing; leave "
            "sampling out",
            field=f"sampling.{field.name}",
        )


def _refuse_targets(targets: types_pb2.StreamTargets, model: str) -> None:
    for name in _NAMES:
        if targets.HasField(name):
            wanted_ns = duration_ns(getattr(targets, name))
            raise InvalidRequest(
                f"targets.{name} is {wanted_ns / 1e9:g} s, and {model} answers whole, not in "
                "parts; leave targets out, and say with slo or the call's deadline when the "
                "answer is wanted",
                field=f"targets.{name}",
            )


def remaining(targets: types_pb2.StreamTargets, waited_ns: int) -> worker_pb2.ItemTargets:
    """What a worker is told, `waited_ns` after the arrival."""
    left = worker_pb2.ItemTargets()
    if targets.HasField("first_token"):
        left.first_token_remaining_ns = duration_ns(targets.first_token) - waited_ns
    if targets.HasField("gap"):
        left.gap_ns = duration_ns(targets.gap)
    if targets.HasField("completion"):
        left.completion_remaining_ns = duration_ns(targets.completion) - waited_ns
    return left


def _check(field: str, duration: Duration) -> None:
    wanted_ns = duration_ns(duration)
    if not 0 < wanted_ns <= LONGEST_NS:
        raise InvalidRequest(
            f"{field} is {wanted_ns / 1e9:g} s; it must be above 0 and at most 24 h", field=field
        )
