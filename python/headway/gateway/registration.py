"""What a worker may say of itself. Everything it says is believed later, so it is judged here."""

import math
from collections.abc import Iterable

from headway.admission.settings import MOST_QUEUED
from headway.errors import InvalidRequest
from headway.naming import check_name
from headway.rpc.convert import duration_ns
from headway.v1 import fleet_pb2, types_pb2

_MAX_ADDRESS = 256
_MAX_INSTANCE = 128
_MAX_MODELS = 256
_MAX_LABELS = 16
_MAX_LABEL = 64
_MAX_OUTSTANDING = 1024
_DAY_NS = 86_400 * 10**9
# Above any rate a device could have, and far below what overflows in a sum over a queue.
_MAX_RATE = 1e12


def check(request: fleet_pb2.RegisterRequest) -> None:
    """Judges a registration.

    Raises:
      InvalidRequest: naming the field, its value, and what is allowed.
    """
    _check_worker(request)
    seen: set[tuple[str, str]] = set()
    for index, card in enumerate(request.models):
        field = f"models[{index}]"
        if not card.model or not card.version or (card.model, card.version) in seen:
            raise InvalidRequest(
                f"{field} is {card.model!r} version {card.version!r}; each needs a model "
                "and a version, and no two are the same",
                field=field,
            )
        seen.add((card.model, card.version))
        _check_card(card, field)


def _check_worker(request: fleet_pb2.RegisterRequest) -> None:
    for name in ("worker_id", "instance_id", "address"):
        if not getattr(request, name):
            raise InvalidRequest(f"{name} is empty", field=name)
    check_name(request.worker_id, "worker_id")
    if len(request.instance_id) > _MAX_INSTANCE:
        raise InvalidRequest(
            f"instance_id has {len(request.instance_id)} characters; at most {_MAX_INSTANCE}",
            field="instance_id",
        )
    host, _, port = request.address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536
    if not host or not is_port or len(request.address) > _MAX_ADDRESS:
        raise InvalidRequest(
            f"address is {request.address[:_MAX_ADDRESS]!r}; give host:port, as gateways reach "
            "the worker",
            field="address",
        )
    if not request.models:
        raise InvalidRequest("models is empty; a worker hosts at least one", field="models")
    for name, count, most in (
        ("models", len(request.models), _MAX_MODELS),
        ("labels", len(request.labels), _MAX_LABELS),
        ("max_outstanding_batches", request.max_outstanding_batches, _MAX_OUTSTANDING),
    ):
        if count > most:
            raise InvalidRequest(f"{name} is {count}; at most {most}", field=name)
    for key, value in request.labels.items():
        if max(len(key), len(value)) > _MAX_LABEL:
            raise InvalidRequest(
                f"labels has a text of more than {_MAX_LABEL} characters; shorten {key[:16]!r}",
                field="labels",
            )


def _check_card(card: types_pb2.ModelCard, field: str) -> None:
    check_name(card.model, f"{field}.model")
    check_name(card.version, f"{field}.version")
    unit, limits = card.unit_estimate, card.batch_limits
    _check_rates(
        f"{field}.unit_estimate",
        ("units_per_row", unit.units_per_row),
        ("units_per_byte", unit.units_per_byte),
        ("units_per_element", unit.units_per_element),
    )
    _check_counts(f"{field}.unit_estimate", [("max_units_per_row", unit.max_units_per_row)])
    _check_counts(
        f"{field}.batch_limits",
        [
            ("max_requests", limits.max_requests),
            ("max_rows", limits.max_rows),
            ("max_units", limits.max_units),
        ],
    )
    if card.HasField("default_deadline"):
        _check_between(f"{field}.default_deadline", duration_ns(card.default_deadline), 1)
    if card.HasField("cost_prior"):
        _check_between(f"{field}.cost_prior.intercept", duration_ns(card.cost_prior.intercept), 0)
        _check_rates(
            f"{field}.cost_prior", ("slope_ns_per_unit", card.cost_prior.slope_ns_per_unit)
        )


def _check_rates(field: str, *rates: tuple[str, float]) -> None:
    for name, value in rates:
        if not math.isfinite(value) or not 0 <= value <= _MAX_RATE:
            raise InvalidRequest(
                f"{field}.{name} is {value:g}; it must be from 0 to {_MAX_RATE:g}",
                field=f"{field}.{name}",
            )


def _check_counts(field: str, counts: Iterable[tuple[str, int]]) -> None:
    for name, value in counts:
        if not 0 <= value <= MOST_QUEUED:
            raise InvalidRequest(
                f"{field}.{name} is {value}; it must be from 0, which means no limit, to 2**62",
                field=f"{field}.{name}",
            )


def _check_between(field: str, value_ns: int, least_ns: int) -> None:
    if not least_ns <= value_ns <= _DAY_NS:
        what = "above 0" if least_ns else "at least 0"
        raise InvalidRequest(
            f"{field} is {value_ns / 1e9:g} s; it must be {what} and at most a day", field=field
        )
