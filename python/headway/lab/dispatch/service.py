"""Service histories and prices of the ongoing-service policy, in plain Python.

The same formulas as the native selector, written once more from their definition, so that each
can be checked against the other. Tokens and seconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headway.lab.analysis import PrefillPlan
from headway.lab.dispatch.catalog import GraphSpec
from headway.lab.dispatch.request import RequestView


@dataclass(frozen=True)
class ServicePrices:
    """Coefficients; `docs/lab.md` defines them. The defaults are the product's."""

    output_value: float = 1.0
    prompt_weight: float = 2.0
    fairness: float = 0.1
    delivery_fairness: float = 0.0
    age: float = 0.9
    stall: float = 4.0
    retirement_value: float = 0.0
    wait_pressure: float = 0.5
    wait_steps: float = 32.0
    pressure_cap: float = 8.0
    patience: float = 3.0
    memory_steps: float = 16.0
    share_floor: float = 0.02
    gap_weight: float = 0.125
    plan_lone_prompt: bool = True


@dataclass
class Service:
    """What a request has had; `share` of its phase's reference rate, `gap_s` between deliveries."""

    share: float
    delivery_share: float
    gap_s: float
    published_at_ns: int
    served_at_ns: int


class Reference:
    """Rates read off a catalogue, so that no price is tuned to a machine."""

    def __init__(self, graphs: Sequence[GraphSpec]) -> None:
        self.decode_times = _decode_times(graphs)
        self.decode_rate = max((rows / t for rows, t in self.decode_times), default=0.0)
        self.prefill_rate = max(
            (self._marginal_rate(graph) for graph in graphs if graph.prefill_capacity), default=0.0
        )
        self.plan = PrefillPlan([(graph.prefill_capacity, graph.duration_ns) for graph in graphs])

    def decode_time_s(self, streams: int) -> float:
        """T_N: the quickest decode step for as many streams as fit."""
        for rows, time_s in self.decode_times:
            if rows >= max(streams, 1):
                return time_s
        return self.decode_times[-1][1] if self.decode_times else 0.0

    def completion_s(self, tokens: int) -> float:
        """H(tokens)."""
        return self.plan.completion(tokens) * 1e-9

    def _marginal_rate(self, graph: GraphSpec) -> float:
        time_s = graph.duration_ns * 1e-9
        decode_s = self.decode_time_s(graph.decode_capacity) if graph.decode_capacity else 0.0
        return graph.prefill_capacity / max(time_s - decode_s, 0.05 * time_s)


def _decode_times(graphs: Sequence[GraphSpec]) -> list[tuple[int, float]]:
    decoding = [graph for graph in graphs if graph.decode_capacity]
    pure = [graph for graph in decoding if not graph.prefill_capacity] or decoding
    rows = sorted({graph.decode_capacity for graph in pure})
    return [
        (count, min(g.duration_ns * 1e-9 for g in pure if g.decode_capacity >= count))
        for count in rows
    ]


@dataclass(frozen=True)
class StreamPrice:
    """A decoding request's prices at one instant."""

    view: RequestView
    token: float
    delivery: float
    age: float
    stall: float
    gap_s: float
    age_s: float
    overshoot_s: float

    def row(self, tokens: float, time_s: float) -> float:
        """What serving it earns: tokens, a delivery, and the waits that the delivery ends."""
        return (
            tokens * self.token
            + self.delivery
            + self.age * self.gap_s * (self.age_s + time_s)
            + self.stall * self.gap_s * max(self.overshoot_s + time_s, 0.0)
        )

    def waiting(self, time_s: float) -> float:
        """What a step of `time_s` costs whether or not it is served, less what never differs."""
        before, after = max(self.overshoot_s, 0.0), max(self.overshoot_s + time_s, 0.0)
        stalled = (after**2 - before**2) / 2 + self.gap_s * (after - before)
        return self.age * time_s**2 / 2 + self.stall * stalled


@dataclass(frozen=True)
class PromptPrice:
    """A prompt's prices at one instant."""

    view: RequestView
    token: float
    completion: float
    rank: float
    passed_over: float
    overdue: float


class Pricing:
    """Prices of all live requests at `now_ns`."""

    def __init__(
        self,
        now_ns: int,
        views: Sequence[RequestView],
        services: dict[int, Service],
        reference: Reference,
        prices: ServicePrices,
    ) -> None:
        self.now_ns = now_ns
        self.services = services
        self.reference = reference
        self.prices = prices
        self.num_prompts = sum(view.prompt_left > 0 for view in views)
        self.num_streams = len(views) - self.num_prompts
        self.decode_time_s = reference.decode_time_s(self.num_streams)
        self.fair_rate = reference.decode_rate / len(views)
        self.streams = [self._stream(view) for view in views if view.prompt_left == 0]
        self.prompts = sorted(
            (self._prompt(view) for view in views if view.prompt_left > 0), key=_order
        )

    def _fair(self, coefficient: float, share: float) -> float:
        share = max(share, self.prices.share_floor)
        return coefficient * self.fair_rate * self.decode_time_s / share

    def _stream(self, view: RequestView) -> StreamPrice:
        prices, service = self.prices, self.services[view.index]
        value = prices.output_value + prices.retirement_value / view.output_left
        rate = 0.0
        if self.decode_time_s > 0:
            rate = (
                view.weight * self.reference.decode_rate / (self.num_streams * self.decode_time_s)
            )
        age_s = max(self.now_ns - service.published_at_ns, 0) * 1e-9
        allowed_s = self.decode_time_s * (1 + self.num_prompts)
        return StreamPrice(
            view=view,
            token=view.weight * (value + self._fair(prices.fairness, service.share)),
            delivery=view.weight * self._fair(prices.delivery_fairness, service.delivery_share),
            age=prices.age * rate,
            stall=prices.stall * rate,
            gap_s=service.gap_s,
            age_s=age_s,
            overshoot_s=age_s - allowed_s,
        )

    def _prompt(self, view: RequestView) -> PromptPrice:
        prices, service, reference = self.prices, self.services[view.index], self.reference
        own_s = reference.completion_s(view.prompt_tokens) + prices.wait_steps * self.decode_time_s
        waited_s = (self.now_ns - view.arrived_at_ns) * 1e-9
        waited = waited_s / own_s if own_s > 0 else 0.0
        pressure = min(1 + prices.wait_pressure * waited, prices.pressure_cap)
        price = view.weight * pressure
        share = max(service.share, prices.share_floor)
        per_rate = prices.prompt_weight * reference.decode_rate
        per_rate += prices.fairness * self.fair_rate / share
        token = prices.prompt_weight * prices.output_value
        if reference.prefill_rate > 0 and reference.decode_rate > 0:
            token = per_rate / reference.prefill_rate
        since_s = (self.now_ns - service.served_at_ns) * 1e-9
        patience_s = prices.patience * own_s
        return PromptPrice(
            view=view,
            token=price * token,
            completion=price * (prices.output_value + self._fair(prices.fairness, share)),
            rank=price / (reference.completion_s(view.prompt_left) + self.decode_time_s),
            passed_over=since_s / patience_s if patience_s > 0 else 0.0,
            overdue=waited_s / patience_s if patience_s > 0 else 0.0,
        )


def _order(prompt: PromptPrice) -> tuple[float, float, int]:
    overdue = prompt.overdue if prompt.overdue >= 1 else 0.0
    return -overdue, -prompt.rank, prompt.view.index


def advance(
    service: Service,
    share: float | None,
    deliveries: float,
    occupied_s: float,
    decode_time_s: float,
    prices: ServicePrices,
) -> None:
    """Moves the recent shares by a step of `occupied_s`; a `share` of None is unknown."""
    if share is None or decode_time_s <= 0:
        return
    moved = 1 - math.exp(-occupied_s / (prices.memory_steps * decode_time_s))
    service.share += moved * (share - service.share)
    service.delivery_share += moved * (deliveries - service.delivery_share)
