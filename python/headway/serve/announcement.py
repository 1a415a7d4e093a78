"""What is printed once everything is served."""

from pathlib import Path

from headway.exposure import LOOPBACK_HOSTS
from headway.serve.commands import DECODER_MODEL, Addresses, to_try
from headway.serve.settings import ServeSettings


def announcement(settings: ServeSettings, addresses: Addresses, logs: Path) -> list[str]:
    """Addresses, fleet, and what to try next. The first line is "ready"."""
    reachable = addresses.reached_by(settings.reachable_host)
    shares = ", ".join(f"{version} {share:.0%}" for version, share in settings.shares.items())
    fleet = ", ".join(
        f"{replica.name} {replica.version}"
        + (f" at {replica.speed:g} of the speed" if replica.speed != 1 else "")
        for replica in settings.fleet
    )
    lines = [
        "ready",
        f"  data     {reachable.data}",
        f"  control  {reachable.control}",
        f"  http     http://{reachable.http}/metrics",
        f"  model    {settings.model_name} ({settings.runtime}); traffic: {shares}",
        f"  fleet    {fleet}",
        *(
            [f"  writes   {DECODER_MODEL} on decoder-a, which loads now; some seconds more"]
            if settings.starts_decoder
            else []
        ),
        f"  logs     {logs}",
        "",
        "No API keys are asked for (--insecure-no-auth): whoever reaches these ports may use them.",
    ]
    if settings.host not in LOOPBACK_HOSTS:
        lines.append(f"They are open to the network, on {settings.host}.")
    lines += ["", "Try, in another terminal:"]
    lines += [f"  {command}" for command in to_try(settings, reachable)]
    return [*lines, "", "Ctrl-C stops everything."]
