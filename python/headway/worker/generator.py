"""From settings to a loaded generative model, ready for sessions."""

import json
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from dataclasses import dataclass
from pathlib import Path

from headway.clock import Clock
from headway.engine.engine import Engine
from headway.engine.scheduling import make_selector
from headway.engine.sharing import DeviceShare
from headway.engine.timeline import ClockTimeline
from headway.engine.trace import StepRecord, Trace
from headway.rng import SeedTree
from headway.rpc.convert import duration_from_ns
from headway.runtimes.generative import GenerativeRuntime
from headway.runtimes.generative_settings import (
    DecoderRuntimeSettings,
    GenerativeSettings,
    LlamaRuntimeSettings,
    SimulatedDecoderSettings,
)
from headway.telemetry.worker import LaneGauges, ModelMetrics, WorkerMetrics
from headway.v1 import types_pb2
from headway.worker.generation import Generation
from headway.worker.settings import ModelSettings

NS_PER_MS = 1_000_000
TRACE_FILE_BYTES = 16 << 20
# Generative calls are long: a gateway's default deadline for one-shot models would cut them.
DEFAULT_DEADLINE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class HostedGenerator:
    """A generative model version that this worker serves.

    Attributes:
      handle: names it on sessions; its place in the worker's list.
      label: model/version, as the health service and logs have it.
      card: what gateways are told of it.
      trace: its last steps.
    """

    handle: int
    label: str
    card: types_pb2.ModelCard
    metrics: ModelMetrics
    generation: Generation
    trace: Trace
    runtime: GenerativeRuntime

    def lanes(self) -> LaneGauges:
        """Its lanes and memory, for a scrape."""
        now = self.generation.capacity(self.handle)
        return LaneGauges(
            self.card.model, self.card.version, now.free_lanes, now.total_lanes,
            now.free_kv_units, now.total_kv_units,
        )  # fmt: skip

    async def close(self) -> None:
        """Frees what the runtime holds."""
        await self.runtime.close()


async def load_generator(
    handle: int,
    settings: ModelSettings,
    *,
    clock: Clock,
    seeds: SeedTree,
    device_thread: Pool,
    share: DeviceShare | None,
    metrics: WorkerMetrics,
    changed: Callable[[], None],
) -> HostedGenerator:
    """Loads a generative model.

    Args:
      device_thread: a pool of exactly one thread.
      share: the device, where other models that write are on it too.
      changed: called when there is more or less room than there was.

    Raises:
      StartupError: as the runtime's `load`.
    """
    given = settings.runtime
    assert isinstance(given, GenerativeSettings)
    runtime = _make(given, clock=clock, seeds=seeds, device_thread=device_thread)
    executor = await runtime.load()
    if share is not None:
        executor = share.join(executor)
    trace = Trace(None if given.trace_file is None else TraceFile(given.trace_file).write)
    selector = make_selector(executor.catalogue, max_lanes=2 * given.max_lanes)
    engine = Engine(
        executor, selector, ClockTimeline(clock), trace=trace, reuse=given.reuse_prefixes
    )
    generation = Generation(engine, executor.vocabulary, runtime.defaults, clock, changed=changed)
    engine.on_freed = generation.on_freed
    card = runtime.card()
    card.model, card.version = settings.model, settings.version
    deadline_ms = settings.default_deadline_ms
    deadline_ns = DEFAULT_DEADLINE_NS if deadline_ms is None else round(deadline_ms * NS_PER_MS)
    card.default_deadline.CopyFrom(duration_from_ns(deadline_ns))
    counts = metrics.model(settings.model, settings.version)
    return HostedGenerator(handle, settings.label, card, counts, generation, trace, runtime)


def _make(
    settings: GenerativeSettings, *, clock: Clock, seeds: SeedTree, device_thread: Pool
) -> GenerativeRuntime:
    # Imported here, so that a worker needs only the extras of what it hosts.
    if isinstance(settings, SimulatedDecoderSettings):
        from headway.runtimes.simulated_decoder import SimulatedDecoderRuntime

        return SimulatedDecoderRuntime(settings, clock, seeds)
    if isinstance(settings, LlamaRuntimeSettings):
        from headway.runtimes.llama.runtime import LlamaRuntime

        return LlamaRuntime(settings, clock=clock, device_thread=device_thread)
    assert isinstance(settings, DecoderRuntimeSettings)
    from headway.runtimes.decoder.runtime import DecoderRuntime

    return DecoderRuntime(settings, clock=clock, device_thread=device_thread)


class TraceFile:
    """A file of steps, a line of JSON each; started anew when it has grown large."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", buffering=1)

    def write(self, record: StepRecord) -> None:
        """Appends a step."""
        if self._file.tell() > TRACE_FILE_BYTES:
            self._file.seek(0)
            self._file.truncate()
        self._file.write(json.dumps(record.as_json(), separators=(",", ":")) + "\n")
