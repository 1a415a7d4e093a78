"""What to say where a version has no replica: what has, and which command sends traffic there."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headway.errors import NoCapacity
from headway.gateway.version_order import natural
from headway.v1 import control_pb2

if TYPE_CHECKING:
    from headway.gateway.catalog import Pool

_MAX_NAMED = 8
_WHY_IT: dict[int, str] = {
    control_pb2.TRAFFIC_SPLIT_SOURCE_DEFAULT: (
        "without a split all requests go to the lowest version there is or was"
    ),
    control_pb2.TRAFFIC_SPLIT_SOURCE_CONFIG: "the configuration's split sends this request there",
    control_pb2.TRAFFIC_SPLIT_SOURCE_OPERATOR: "the split that was set sends this request there",
    control_pb2.TRAFFIC_SPLIT_SOURCE_ROLLOUT: "a rollout's split sends this request there",
}


def no_capacity(
    pool: "Pool", *, pinned: bool, retry_after_ns: int, metadata: Mapping[str, str] | None = None
) -> NoCapacity:
    """The error of a request for a version without a replica.

    Args:
      pinned: the request named the version; else the split did.
      retry_after_ns: when to come back.
      metadata: what else is told. `version` and, where there are, `live_versions` and `command`
        are added.
    """
    model = pool.model
    live = sorted((v for v, each in model.versions.items() if each.num_ready > 0), key=natural)
    told = dict(metadata or {}) | {"version": pool.version}
    text = f"no replica serves {pool.name} now"
    if not live:
        text += ", nor any other version; see `headway replicas`"
    else:
        named = ", ".join(live[:_MAX_NAMED])
        told["live_versions"] = named
        if pinned:
            text += f"; versions with replicas: {named}. Name one of them, or none"
        else:
            command = _command(model.name, live[0], model.split_source)
            told["command"] = command
            text += f"; {_WHY_IT[model.split_source]}. Versions with replicas: {named}. "
            text += f"Name one in the request, or see to the split: `{command}`"
    return NoCapacity(
        f"{text}; retry in {retry_after_ns / 1e6:.0f} ms",
        retry_after_ns=retry_after_ns,
        metadata=told,
    )


def _command(model: str, version: str, source: int) -> str:
    if source == control_pb2.TRAFFIC_SPLIT_SOURCE_ROLLOUT:
        return "headway rollout list"
    return f"headway split set {shlex.quote(model)} {shlex.quote(f'{version}=1')}"
