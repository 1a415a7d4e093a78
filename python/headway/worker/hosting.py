"""From settings to loaded models."""

from concurrent.futures import Executor

from headway.clock import Clock
from headway.rng import SeedTree
from headway.rpc.convert import duration_from_ns
from headway.runtimes.base import Runtime
from headway.runtimes.generative_settings import GenerativeSettings
from headway.runtimes.settings import SimulatedRuntimeSettings
from headway.runtimes.simulated import SimulatedRuntime
from headway.runtimes.slowed import SlowedRuntime
from headway.telemetry.worker import WorkerMetrics
from headway.worker.batch import HostedModel
from headway.worker.settings import ModelSettings

NS_PER_MS = 1_000_000


def make_runtime(
    settings: ModelSettings, *, clock: Clock, seeds: SeedTree, device_thread: Executor
) -> Runtime:
    """The runtime of one model, not loaded yet.

    `device_thread` is one thread for all runtimes of the worker: they share one device.
    """
    runtime = settings.runtime
    assert not isinstance(runtime, GenerativeSettings), "load_generator makes those"
    if isinstance(runtime, SimulatedRuntimeSettings):
        return SimulatedRuntime(runtime, clock=clock, seeds=seeds, speed=settings.speed)
    # Imported here, so that a worker without a real model needs neither onnxruntime nor tokenizers.
    from headway.runtimes.onnx import OnnxRuntime

    real = OnnxRuntime(runtime, clock=clock, device_thread=device_thread)
    return real if settings.speed == 1 else SlowedRuntime(real, speed=settings.speed, clock=clock)


def hosted(
    handle: int, settings: ModelSettings, runtime: Runtime, metrics: WorkerMetrics
) -> HostedModel:
    """A loaded model under its name. `handle`: its place in the worker's list."""
    card = runtime.card()
    card.model = settings.model
    card.version = settings.version
    if settings.default_deadline_ms is not None:
        deadline_ns = round(settings.default_deadline_ms * NS_PER_MS)
        card.default_deadline.CopyFrom(duration_from_ns(deadline_ns))
    counts = metrics.model(settings.model, settings.version)
    return HostedModel(handle, settings.label, card, runtime, counts)
