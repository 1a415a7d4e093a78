"""What is asked of a rollout before it begins."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from headway.errors import FailedPrecondition, InvalidRequest, NoCapacity, NotFound
from headway.gateway.catalog import Model
from headway.rollout.policy import PRESETS, make_policy


def checked_policy(preset: str, settings: Mapping[str, Any]) -> Any:
    """A policy from a request.

    Raises:
      InvalidRequest: naming the setting, its value, and what is allowed.
    """
    if preset and preset not in PRESETS:
        raise InvalidRequest(
            f"policy.preset is {preset[:40]!r}; use one of: {', '.join(PRESETS)}",
            field="policy.preset",
        )
    try:
        return make_policy(preset, settings)
    except ValidationError as error:
        first = error.errors()[0]
        kinds = ("sequential", "classic")
        path = ".".join(str(part) for part in first["loc"] if part not in kinds)
        field = f"policy.settings.{path}" if path else "policy.settings"
        raise InvalidRequest(
            f"{field}: {first['msg']} (given: {str(first.get('input'))[:80]}); docs/rollout.md "
            "lists every setting",
            field=field,
        ) from error


def baseline_of(model: Model, split: Mapping[str, float] | None) -> str:
    """The version that has all of a model's traffic. `split`: as stored; None: what is in force.

    Raises:
      FailedPrecondition: the traffic is divided.
    """
    live = model.live_split() if split is None else model.live_shares(split)
    having = [(pool.version, share) for pool, share in live if share > 0]
    if len(having) == 1:
        return having[0][0]
    listed = ", ".join(f"{version} {share:.0%}" for version, share in having) or "nothing"
    raise FailedPrecondition(
        f"the traffic of {model.name} goes to: {listed}; a rollout begins where one version has "
        "all of it: set the split first (`headway split set`)",
        field="model",
        metadata={"type": "TRAFFIC_DIVIDED"},
    )


def check_versions(model: Model, baseline: str, canary: str) -> None:
    """Raises InvalidRequest, NotFound or NoCapacity if the canary cannot be one."""
    if canary == baseline:
        raise InvalidRequest(
            f"canary_version is {canary}, which has all traffic of {model.name} already; name "
            "another version",
            field="canary_version",
        )
    pool = model.versions.get(canary)
    if pool is None:
        raise NotFound(
            f"model {model.name} has no version {canary[:64]!r}; there are: "
            f"{', '.join(sorted(model.versions)) or 'none'}; start a worker that hosts it first",
            field="canary_version",
            metadata={"name": f"{model.name}/{canary[:64]}", "kind": "version"},
        )
    if pool.num_ready == 0:
        raise NoCapacity(
            f"version {canary} of {model.name} has no replica that takes work; start one, or wait "
            "until it is ready",
            field="canary_version",
        )
