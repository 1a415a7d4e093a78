"""Models, their versions, and how unpinned traffic divides over them."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway._core import Scheduler, hash_key
from headway.admission.policy import AdmissionPolicy
from headway.admission.units import UnitEstimator
from headway.errors import InvalidRequest, ModelLoading, ModelNotFound
from headway.gateway.policy_settings import SchedulingSettings
from headway.gateway.settings import GatewaySettings, ModelSettings
from headway.gateway.version_order import natural
from headway.rpc.convert import duration_ns
from headway.telemetry.gateway import GatewayMetrics, PoolMetrics
from headway.v1 import control_pb2, types_pb2

if TYPE_CHECKING:
    from headway.gateway.rollouts.shadow import ShadowMirror
    from headway.rollout.tap import ArmTap

_NS_PER_MS = 1_000_000
_RETRY_NS = 1_000_000_000
# Before a worker has said anything of a model's cost: a small transformer on one core.
_DEFAULT_PRIOR_INTERCEPT_NS = 5_000_000.0
_DEFAULT_PRIOR_SLOPE_NS = 100_000.0
GivenSplit = tuple[dict[str, float], "control_pb2.TrafficSplitSource"]
"""Shares by version, and who set them."""

MAX_MODELS = 1024
MAX_VERSIONS = 64


@dataclass(slots=True, eq=False)
class Pool:
    """The queue of one model version and what serves it."""

    handle: int
    model: "Model"
    version: str
    card: types_pb2.ModelCard
    estimator: UnitEstimator
    metrics: PoolMetrics
    # As the core was told; None before it was.
    scheduling: SchedulingSettings | None = None
    num_replicas: int = 0
    num_ready: int = 0
    # Of an active rollout: what counts outcomes, and what copies requests.
    tap: "ArmTap | None" = None
    mirror: "ShadowMirror | None" = None

    @property
    def name(self) -> str:
        """model/version."""
        return f"{self.model.name}/{self.version}"


@dataclass(slots=True, eq=False)
class Model:
    """A model and its versions."""

    name: str
    handle: int
    settings: ModelSettings
    default_deadline_ns: int
    versions: dict[str, Pool] = field(default_factory=dict)
    split: dict[str, float] = field(default_factory=dict)
    split_source: "control_pb2.TrafficSplitSource" = control_pb2.TRAFFIC_SPLIT_SOURCE_DEFAULT
    # The split in force; replaced, never changed, so that a record of a request may point to it.
    shares: tuple[tuple[str, float], ...] = ()
    # The same with the pools, so that a request need not work it out.
    routed: list[tuple[Pool, float]] = field(default_factory=list)
    salt: int = 0

    def live_split(self) -> list[tuple[Pool, float]]:
        """Registered versions with their shares; the first also takes keys of empty pools."""
        if self.split_source == control_pb2.TRAFFIC_SPLIT_SOURCE_DEFAULT:
            lowest = min(self.versions, key=natural, default=None)
            return [] if lowest is None else [(self.versions[lowest], 1.0)]
        return self.live_shares(self.split)

    def live_shares(self, split: Mapping[str, float]) -> list[tuple[Pool, float]]:
        """What a split gives the versions that are registered; nothing if it names none of them."""
        known = [(self.versions[v], s) for v, s in split.items() if v in self.versions]
        total = sum(share for _, share in known)
        return [(pool, share / total) for pool, share in known] if total > 0 else []

    def ready(self) -> bool:
        """True if a request that names no version would be served, whatever its key."""
        split = self.live_split()
        if not split:
            return False
        return split[0][0].num_ready > 0 or all(p.num_ready > 0 for p, share in split if share > 0)


class Catalog:
    """All models of a gateway. At most 1,024 models of at most 64 versions each."""

    def __init__(
        self, settings: GatewaySettings, scheduler: Scheduler, metrics: GatewayMetrics
    ) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._metrics = metrics
        self._policy = AdmissionPolicy(settings.admission)
        self.models: dict[str, Model] = {}
        self.pools: dict[int, Pool] = {}
        # Splits set by operators and rollouts, of models that have no worker yet too.
        self._given: dict[str, GivenSplit] = {}
        # In force here in their place, until the store's next one comes.
        self._overrides: dict[str, GivenSplit] = {}
        self._policy.apply(scheduler)
        for name in settings.models:
            self._add_model(name)

    def resolve(self, name: str, version: str, *, still_learning: bool) -> tuple[Model, Pool]:
        """The model and a pool of it: the pinned version's, else one whose rule weighs the input.

        Args:
          still_learning: the gateway has just started and may not have heard of every worker.

        Raises:
          ModelNotFound, ModelLoading, InvalidRequest.
        """
        model = self.models.get(name) if name else self._default()
        if model is None:
            raise self._unknown_model(name, still_learning)
        if version:
            pool = model.versions.get(version)
            if pool is None:
                raise _unknown_version(model, version, still_learning)
            return model, pool
        if not model.routed:
            raise _loading(f"model {model.name} has no worker yet")
        return model, model.routed[0][0]

    def host(self, card: types_pb2.ModelCard) -> Pool:
        """The pool of a card's model version, made or brought up to date.

        Raises:
          InvalidRequest: too many models or versions.
        """
        model = self.models.get(card.model) or self._add_model(card.model)
        pool = model.versions.get(card.version)
        if pool is None:
            pool = self._add_pool(model, card)
        elif pool.card != card:
            ratio = pool.estimator.ratio
            pool.card, pool.estimator = card, UnitEstimator(card)
            pool.estimator.ratio = ratio
        if card.HasField("default_deadline") and model.settings.default_deadline_ms is None:
            model.default_deadline_ns = duration_ns(card.default_deadline)
        return pool

    def take_splits(self, splits: Mapping[str, "GivenSplit | None"], *, full: bool) -> None:
        """Takes over splits set by operators and rollouts.

        Args:
          splits: by model; None for one that was taken back.
          full: whether these are all there are.
        """
        touched = set(splits)
        if full:
            touched |= self._given.keys() | self._overrides.keys()
            self._given.clear()
        for name in touched:
            self._overrides.pop(name, None)
        for name, given in splits.items():
            if given is None:
                self._given.pop(name, None)
            else:
                self._given[name] = given
        for name in sorted(touched & self.models.keys()):
            self._choose_split(self.models[name])

    def override_split(self, model: Model, given: "GivenSplit") -> None:
        """Puts a split in force here until the store's next one comes, or it is lifted."""
        self._overrides[model.name] = given
        self._choose_split(model)

    def lift_override(self, model: Model) -> None:
        """Puts the store's split in force again where `override_split` took its place."""
        if self._overrides.pop(model.name, None) is not None:
            self._choose_split(model)

    def configure(self, settings: GatewaySettings) -> None:
        """Takes over what the configuration says of models; queues keep their bounds."""
        self._settings = settings
        self._policy = AdmissionPolicy(settings.admission)
        self._policy.apply(self._scheduler)
        for handle in self.pools:
            self._policy.apply_to_pool(self._scheduler, handle)
        for name in settings.models:
            if name not in self.models:
                self._add_model(name)
        for name, model in self.models.items():
            model.settings = settings.models.get(name, ModelSettings())
            model.default_deadline_ns = self._default_deadline_ns(model)
            for pool in model.versions.values():
                self._schedule(pool)
            self._choose_split(model)

    def _schedule(self, pool: Pool) -> None:
        """Hands what the configuration says of scheduling to the core, if that is new."""
        wanted = self._settings.scheduling.with_model(pool.model.settings.scheduling)
        if wanted == pool.scheduling:
            return
        weights = wanted.priority_weights
        self._scheduler.set_policy(
            pool.handle,
            alpha=wanted.alpha,
            large_share=wanted.large_share,
            bulk_share=wanted.bulk_share,
            priority_weights=(weights.critical, weights.standard, weights.sheddable),
            shed_early=wanted.shed_early,
        )
        pool.scheduling = wanted

    def _default_deadline_ns(self, model: Model) -> int:
        if model.settings.default_deadline_ms is not None:
            return int(model.settings.default_deadline_ms * _NS_PER_MS)
        declared = [
            duration_ns(pool.card.default_deadline)
            for pool in model.versions.values()
            if pool.card.HasField("default_deadline")
        ]
        return declared[-1] if declared else int(self._settings.default_deadline_ms * _NS_PER_MS)

    def _choose_split(self, model: Model) -> None:
        """An operator's or rollout's split, else the configuration's, else the default."""
        given = self._overrides.get(model.name) or self._given.get(model.name)
        if given is not None:
            model.split, model.split_source = given
        elif model.settings.split:
            model.split = dict(model.settings.split)
            model.split_source = control_pb2.TRAFFIC_SPLIT_SOURCE_CONFIG
        else:
            model.split = {}
            model.split_source = control_pb2.TRAFFIC_SPLIT_SOURCE_DEFAULT
        self.apply_split(model)

    def apply_split(self, model: Model) -> None:
        """Hands the split of the registered versions to the scheduler."""
        split = model.routed = model.live_split()
        model.shares = tuple((pool.version, share) for pool, share in split)
        if not split:
            return  # `resolve` refuses what names no version
        self._scheduler.set_split(
            model.handle, [pool.handle for pool, _ in split], [share for _, share in split]
        )

    def default_name(self) -> str:
        """Name of the model that unnamed requests get; "" if there is none."""
        model = self._default()
        return "" if model is None else model.name

    def _default(self) -> Model | None:
        if self._settings.default_model is not None:
            return self.models.get(self._settings.default_model)
        return next(iter(self.models.values())) if len(self.models) == 1 else None

    def _add_model(self, name: str) -> Model:
        if len(self.models) >= MAX_MODELS:
            raise InvalidRequest(f"this gateway already has {MAX_MODELS} models", field="models")
        settings = self._settings.models.get(name, ModelSettings())
        salt = hash_key(name.encode())
        model = Model(name, self._scheduler.add_model(salt=salt), settings, 0, salt=salt)
        model.default_deadline_ns = self._default_deadline_ns(model)
        self._choose_split(model)
        self.models[name] = model
        return model

    def _add_pool(self, model: Model, card: types_pb2.ModelCard) -> Pool:
        if len(model.versions) >= MAX_VERSIONS:
            raise InvalidRequest(
                f"model {model.name} already has {MAX_VERSIONS} versions", field="models"
            )
        prior = card.cost_prior if card.HasField("cost_prior") else None
        handle = self._scheduler.add_pool(
            max_queued_requests=model.settings.max_queued_requests
            or self._settings.max_queued_requests,
            max_queued_units=self._settings.max_queued_units,
            prior_intercept_ns=float(duration_ns(prior.intercept))
            if prior
            else _DEFAULT_PRIOR_INTERCEPT_NS,
            prior_slope_ns=prior.slope_ns_per_unit if prior else _DEFAULT_PRIOR_SLOPE_NS,
        )
        self._policy.apply_to_pool(self._scheduler, handle)
        metrics = self._metrics.pool(model.name, card.version)
        pool = Pool(handle, model, card.version, card, UnitEstimator(card), metrics)
        model.versions[card.version] = pool
        self.pools[handle] = pool
        self._schedule(pool)
        self.apply_split(model)
        return pool

    def _unknown_model(self, name: str, still_learning: bool) -> Exception:
        if still_learning:
            return _loading("the gateway has just started and does not know its workers yet")
        known = sorted(self.models)
        if not name:
            listed = ", ".join(known[:8]) or "none yet"
            return InvalidRequest(
                f"the request names no model and there is no default one; name one of: {listed}",
                field="model",
            )
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known[:8])}"
        return ModelNotFound(
            f"model {name!r} is not served here; {hint if known else 'no model is, yet'}",
            field="model",
            metadata={"name": name[:64], "kind": "model"},
        )


def _unknown_version(model: Model, version: str, still_learning: bool) -> Exception:
    if still_learning:
        return _loading(f"version {version} of {model.name} has no worker yet")
    known = ", ".join(sorted(model.versions, key=natural)) or "none yet"
    return ModelNotFound(
        f"model {model.name} has no version {version!r}; there are: {known}",
        field="version",
        metadata={"name": f"{model.name}/{version[:64]}", "kind": "version"},
    )


def _loading(what: str) -> ModelLoading:
    return ModelLoading(f"{what}; retry in 1 s", retry_after_ns=_RETRY_NS)
