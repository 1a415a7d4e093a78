"""A drill of what gateways share: a tenant's quota."""

from typing import Any, Final

from headway.apikey import digest_of, new_key
from headway.drill.stage import Stage, require, simulated

QUOTA_PER_S: Final = 300
NUM_GATEWAYS: Final = 3
MOST_OFF: Final = 0.1
_CLIENTS: Final = 18
_SETTLE_S: Final = 8.0
"""In which gateways find each other in the store, and what buckets held beforehand is used."""


async def quota(stage: Stage) -> None:
    """Three gateways divide a tenant's quota: together they let through what it may use."""
    admin_key, tenant_key = new_key()[0], new_key()[0]
    stage.admin_key = admin_key
    tenants = {
        "operators": {"keys": [_entry(admin_key, "admin")]},
        "acme": {
            "keys": [_entry(tenant_key, "none")],
            "units_per_second": QUOTA_PER_S,
            "burst_units": QUOTA_PER_S,
        },
    }
    device = [simulated(intercept_ms=5, max_requests=16)]
    await stage.start(
        {"w0": device, "w1": device},
        num_gateways=NUM_GATEWAYS,
        tenants=tenants,
        fleet_token="a token of this drill",
    )
    calls = stage.new_calls(api_key=tenant_key)
    calls.start_clients(_CLIENTS, timeout_s=2.0)
    await stage.pause(_SETTLE_S)
    units, began_ns = calls.tally.units, stage.clock.now_ns()
    await stage.pause(max(10.0, 30 * stage.size))
    seconds = (stage.clock.now_ns() - began_ns) / 1e9
    used = calls.tally.units - units
    tally = await calls.stop()
    share = used / (QUOTA_PER_S * seconds)
    stage.figures |= {
        "quota_units_per_s": QUOTA_PER_S, "used_units_per_s": round(used / seconds, 1),
        "share_of_quota": round(share, 3),
    }  # fmt: skip
    require(tally.outcomes["QUOTA_EXCEEDED"] > 0, "the load did not reach the quota")
    require(abs(share - 1) <= MOST_OFF, f"the tenant used {share:.0%} of its quota")


def _entry(key: str, role: str) -> dict[str, Any]:
    return {"key_id": key.split("_")[1], "sha256": digest_of(key).hex(), "role": role}
