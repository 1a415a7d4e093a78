"""Whatever the settings and the wire accept, the core accepts: no number is refused halfway."""

import contextlib
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headway._core import Scheduler
from headway.admission.policy import AdmissionPolicy
from headway.errors import InvalidRequest
from headway.gateway.catalog import Catalog
from headway.gateway.messages import tenant_record
from headway.gateway.registration import check
from headway.gateway.settings import GatewaySettings
from headway.gateway.wiring import set_resilience
from headway.telemetry.gateway import GatewayMetrics, Gauges
from headway.v1 import control_pb2, fleet_pb2, types_pb2

EDGES = (
    0.0, -0.0, -1.0, 5e-324, 1e-300, 1e-9, 9.999e-7, 1e-6, 1 / 64, 0.05, 0.5, 0.95, 1.0,
    1 + 1e-9, 2.0, 1000.0, 1000.0001, 1e6, 1e18, 1e300, math.inf, math.nan,
)  # fmt: skip
numbers = st.sampled_from(EDGES) | st.floats()
counts = st.sampled_from((0, 1, 2, 1 << 24, 1 << 38, 1 << 62, (1 << 62) + 1, 1 << 63, 1 << 80))
counts |= st.integers(-1, 1 << 70)
wide = st.sampled_from((0, 1, 1 << 38, 1 << 62, (1 << 62) + 1, (1 << 63) - 1))
wide |= st.integers(-1, (1 << 63) - 1)
narrow = st.integers(-1, (1 << 31) - 1)
gateways = st.sampled_from((1, 2, 7, 1000))


def some(**choices: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A table in which every entry may be left out."""
    return st.fixed_dictionaries({}, optional=choices)


tenants = some(units_per_second=numbers, burst_units=numbers, weight=numbers)
scheduling = some(
    alpha=numbers,
    large_share=numbers,
    bulk_share=numbers,
    priority_weights=some(critical=numbers, standard=numbers, sheddable=numbers),
)
models = some(
    max_queued_requests=counts,
    default_deadline_ms=numbers,
    scheduling=scheduling,
    split=st.fixed_dictionaries({"v1": numbers, "v2": numbers})
    | st.floats(0, 1).map(lambda share: {"v1": share, "v2": 1 - share}),
)
admission = some(
    limit=some(initial=counts, min=counts, max=counts),
    reserved=some(critical=numbers, standard=numbers),
    fair_share_seconds=numbers,
    max_queued_requests_per_tenant=counts,
    max_queued_units_per_tenant=counts,
)
resilience = some(max_ejected_share=numbers, retry_share=numbers, hedge_share=numbers)
# One table at a time: a whole configuration of such values is refused nearly always.
configurations = st.one_of(
    st.fixed_dictionaries({"tenants": st.fixed_dictionaries({"acme": tenants})}),
    st.fixed_dictionaries({"scheduling": scheduling}),
    st.fixed_dictionaries({"models": st.fixed_dictionaries({"sim": models})}),
    st.fixed_dictionaries({"admission": admission}),
    st.fixed_dictionaries({"resilience": resilience}),
    some(max_queued_requests=counts, max_queued_units=counts, max_attempts=counts),
)


rates = st.floats(0, 1e12) | numbers
# One part at a time: a whole card of such values is refused nearly always.
cards = st.one_of(
    st.fixed_dictionaries(
        {"batch_limits": some(max_requests=narrow, max_rows=narrow, max_units=wide)}
    ),
    st.fixed_dictionaries(
        {
            "unit_estimate": some(
                units_per_row=rates,
                units_per_byte=rates,
                units_per_element=rates,
                max_units_per_row=wide,
                refuse_longer=st.booleans(),
            )
        }
    ),
    st.fixed_dictionaries({"cost_prior": some(slope_ns_per_unit=rates)}),
)


def live(settings: GatewaySettings, num_gateways: int) -> None:
    """Hands all of it to a core, as a gateway does."""
    scheduler = Scheduler(seed=1, max_live=8, max_attempts=settings.max_attempts, max_tenants=8)
    set_resilience(scheduler, settings.resilience)
    catalog = Catalog(settings, scheduler, GatewayMetrics(Gauges))
    for version in ("v1", "v2"):
        catalog.host(types_pb2.ModelCard(model="sim", version=version))
    policy = AdmissionPolicy(settings.admission, num_gateways)
    for tenant in settings.tenants.values():
        terms = policy.terms(tenant.units_per_second, tenant.burst_units, tenant.weight)
        handle = scheduler.add_tenant(0, **terms)
        scheduler.set_tenant_quota(1, handle, **terms)
        assert scheduler.charge(2, handle, 0) == 0


@given(configurations, gateways)
def test_of_settings(configuration: dict[str, Any], num_gateways: int) -> None:
    with contextlib.suppress(ValidationError):
        settings = GatewaySettings(insecure_no_auth=True, **configuration)
        live(settings, num_gateways)


@given(cards, st.integers(-1, 2048), st.integers(1, 1 << 20))
def test_of_registrations(card: dict[str, Any], outstanding: int, length: int) -> None:
    hosted = types_pb2.ModelCard(model="sim", version="v1", **card)
    request = fleet_pb2.RegisterRequest(
        worker_id="w1",
        instance_id="1",
        address="127.0.0.1:9",
        models=[hosted],
        max_outstanding_batches=outstanding,
    )
    with contextlib.suppress(InvalidRequest):
        check(request)
        scheduler = Scheduler(seed=1, max_live=8)
        catalog = Catalog(GatewaySettings(insecure_no_auth=True), scheduler, GatewayMetrics(Gauges))
        pool = catalog.host(hosted)
        limits = hosted.batch_limits
        scheduler.add_replica(
            0,
            pool.handle,
            max_outstanding=max(1, outstanding),
            max_requests=limits.max_requests,
            max_rows=limits.max_rows,
            max_units=limits.max_units,
        )
        units, rows = pool.estimator.estimate(types_pb2.Input(text="x" * length))
        tenant = scheduler.add_tenant(0, units_per_s=math.inf, burst_units=math.inf)
        scheduler.admit(0, tenant, pool.model.handle, -1, 0, units, rows, 10**9, 2, 1, 1.0)


@given(tenants, gateways)
def test_of_the_wire(terms: dict[str, Any], num_gateways: int) -> None:
    with contextlib.suppress(InvalidRequest):
        record = tenant_record(control_pb2.Tenant(tenant="acme", **terms))
        taken = AdmissionPolicy(num_gateways=num_gateways).terms(
            record.units_per_second, record.burst_units, record.weight
        )
        Scheduler(seed=1).add_tenant(0, **taken)


@given(numbers.filter(lambda weight: weight > 0), gateways)
def test_of_a_store_from_before_there_was_a_range(weight: float, num_gateways: int) -> None:
    taken = AdmissionPolicy(num_gateways=num_gateways).terms(5e-324, 5e-324, weight)
    Scheduler(seed=1).add_tenant(0, **taken)


@given(st.sampled_from((1e-6, 1000.0)) | st.floats(1e-6, 1000.0))
def test_every_weight_of_the_range_is_taken(weight: float) -> None:
    settings = GatewaySettings(insecure_no_auth=True, tenants={"acme": {"weight": weight}})  # type: ignore[dict-item]  # read from TOML
    live(settings, 1)
    assert tenant_record(control_pb2.Tenant(tenant="acme", weight=weight)).weight == weight
