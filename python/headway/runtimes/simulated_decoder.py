"""A generative runtime without a model, on the worker's clock."""

import math

from headway._core import Rng, hash_key
from headway.clock import Clock
from headway.engine.executor import Executor, ExecutorLimits, LaneOpening
from headway.engine.simulated import Disturbance, SimulatedExecutor, SimulatedOutput
from headway.engine.surface import CpuLikeSurface, GpuLikeSurface
from headway.engine.timeline import ClockTimeline
from headway.rng import SeedTree
from headway.runtimes.embedded import defaults_of
from headway.runtimes.generative import GenerationDefaults, text_card
from headway.runtimes.generative_settings import SimulatedDecoderSettings
from headway.v1 import types_pb2

WIDTHS = (1, 2, 4, 8)


class SimulatedDecoderRuntime:
    """The simulated executor behind the runtime protocol."""

    def __init__(self, settings: SimulatedDecoderSettings, clock: Clock, seeds: SeedTree) -> None:
        self._settings = settings
        self._timeline = ClockTimeline(clock)
        self._seeds = seeds

    @property
    def defaults(self) -> GenerationDefaults:
        """By the settings."""
        return defaults_of(self._settings)

    async def load(self) -> Executor:
        """There is nothing to load."""
        settings = self._settings
        widths = tuple(width for width in WIDTHS if width <= settings.draft_width)
        surface = (
            CpuLikeSurface(widths=widths)
            if settings.surface == "cpu"
            else GpuLikeSurface(widths=widths)
        )
        return SimulatedExecutor(
            surface,
            self._timeline,
            self._seeds.stream("device"),
            limits=ExecutorLimits(settings.max_lanes, settings.kv_tokens, settings.context),
            output_of=self._output_of,
            disturbance=Disturbance(noise=settings.noise),
        )

    def card(self) -> types_pb2.ModelCard:
        """Its card."""
        return text_card("simulated-decoder", self._settings.context, bytes_per_token=4)

    async def close(self) -> None:
        """Forgets what was to come."""
        self._timeline.cancel()

    def _output_of(self, lane: LaneOpening) -> SimulatedOutput:
        # By the prompt, so that the same request gets the same output wherever it runs.
        prompt = b"".join(token.to_bytes(4, "little") for token in lane.prompt)
        point = Rng(hash_key(prompt)).uniform()
        length = 1 + int(-math.log(1 - point) * self._settings.mean_output_tokens)
        return SimulatedOutput(length, self._settings.acceptance)
