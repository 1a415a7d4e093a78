"""One active rollout in one gateway: what is tapped, what is copied, what waits to be handed on."""

from collections import deque
from typing import Final

from headway.gateway.catalog import Catalog, Model, Pool
from headway.gateway.rollouts.shadow import ShadowMirror, Submit
from headway.rollout.controller import Controller
from headway.rollout.counts import TickCounts
from headway.rollout.machine import SHADOW_STEP
from headway.rollout.policy import parse_policy
from headway.rollout.tap import ArmTap, OutcomeTap
from headway.store.records import RolloutRecord, VerdictRecord
from headway.v1 import control_pb2

_NS_PER_S: Final = 1_000_000_000
_MAX_PENDING: Final = 1000


class Live:
    """An active rollout.

    Attributes:
      record: as last seen in the ledger.
      controller: where this gateway leads; None elsewhere.
      unposted: outcomes that wait to be handed to the leader; None if there are none.
      pending: verdicts that are in the trail once the change that they led to is known to be
        stored; the newest 1,000.
      is_cut_off: whether this gateway gave the baseline all traffic by itself.
    """

    def __init__(
        self, record: RolloutRecord, model: Model, catalog: Catalog, submit: Submit, now_ns: int
    ) -> None:
        self.record = record
        self.policy = parse_policy(record.policy)
        self.controller: Controller | None = None
        self.unposted: TickCounts | None = None
        self.posted_at_ns = now_ns
        self.ticked_at_ns = now_ns
        self.pending: deque[VerdictRecord] = deque(maxlen=_MAX_PENDING)
        self.is_cut_off = False
        self._put_back: tuple[TickCounts, float] | None = None
        self._model = model
        self._catalog = catalog
        self.tap = OutcomeTap(
            error_floor=self.policy.error_floor, error_tolerance=self.policy.error_tolerance
        )
        self.tap.on_dead = self.cut_off
        shadow = self.policy.shadow
        self._mirror = None if shadow is None else ShadowMirror(
            shadow, record.canary_version, self.tap.canary, submit, model.handle
        )  # fmt: skip
        self.attach()

    @property
    def tick_ns(self) -> int:
        """Length of a tick."""
        return round(self.policy.tick_seconds * _NS_PER_S)

    def attach(self) -> None:
        """Taps the pools of both versions; one that is new since the last time joins."""
        in_shadow = self.record.step == SHADOW_STEP
        for version, arm in self._arms():
            pool = self._model.versions.get(version)
            if pool is not None:
                pool.tap = arm
        baseline = self._model.versions.get(self.record.baseline_version)
        if baseline is not None:
            baseline.mirror = self._mirror if in_shadow else None

    def adopt(self, record: RolloutRecord) -> None:
        """Takes over what the ledger has; what was decided for anything else is void."""
        self.record = record
        if self.controller is not None and self.controller.record != record:
            self.controller.adopt(record)
            self.pending.clear()

    def detach(self) -> None:
        """Takes the taps off, and a cut back: the ledger's split says how it ended."""
        for version, arm in self._arms():
            pool = self._model.versions.get(version)
            if pool is not None and pool.tap is arm:
                pool.tap = None
                pool.mirror = None
        # Requests that it tapped may still end, and cut off what is another's traffic by now.
        self.tap.on_dead = lambda: None
        self._catalog.lift_override(self._model)

    def take(self, now_ns: int) -> tuple[TickCounts, float]:
        """The tick that ends now, with what was put back, and its length in s."""
        seconds = max(1, now_ns - self.ticked_at_ns) / _NS_PER_S
        self.ticked_at_ns = now_ns
        baseline, canary = (self._ready_replicas(version) for version, _ in self._arms())
        counts = self.tap.take(seconds, baseline, canary)
        if self._put_back is not None:
            (earlier, lasted), self._put_back = self._put_back, None
            counts.add(earlier)
            seconds += lasted
        return counts, seconds

    def put_back(self, counts: TickCounts, seconds: float) -> None:
        """A tick that nobody could judge: the next one lasts as long as both.

        However many there are, what is kept is as large as one: sums, and counts by latency bin.
        """
        self._put_back = counts, seconds

    def cut_off(self) -> None:
        """Gives this gateway's traffic to the baseline at once.

        The rollout itself is ended by whoever leads; until then no more users are harmed here.
        """
        split = {self.record.baseline_version: 1.0, self.record.canary_version: 0.0}
        source = control_pb2.TRAFFIC_SPLIT_SOURCE_ROLLOUT
        self._catalog.override_split(self._model, (split, source))
        self.is_cut_off = True

    def _arms(self) -> tuple[tuple[str, ArmTap], tuple[str, ArmTap]]:
        return (
            (self.record.baseline_version, self.tap.baseline),
            (self.record.canary_version, self.tap.canary),
        )

    def _ready_replicas(self, version: str) -> int:
        pool: Pool | None = self._model.versions.get(version)
        return 0 if pool is None else pool.num_ready
