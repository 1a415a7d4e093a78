"""What runtimes that load a file of weights and step it in the device's thread share."""

import asyncio
from abc import ABC, abstractmethod
from concurrent.futures import Executor as Pool
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headway.clock import Clock
from headway.engine.executor import Executor, ExecutorLimits, Vocabulary
from headway.engine.stepper import Stepper, TokenModel
from headway.engine.threaded import ThreadedExecutor
from headway.runtimes.calibration import measure
from headway.runtimes.embedded import catalogue_of, defaults_of, embedded_model
from headway.runtimes.generative import GenerationDefaults, text_card
from headway.runtimes.generative_settings import FileRuntimeSettings
from headway.v1 import types_pb2

BYTES_PER_TOKEN = 4.0


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A file that was opened.

    Attributes:
      ends: tokens that end an output.
      context: longest prompt and output together that it knows, in tokens.
    """

    model: TokenModel
    vocabulary: Vocabulary
    ends: frozenset[int]
    context: int


class TokenRuntime(ABC):
    """Loads in the device's thread, so that the worker's event loop goes on.

    A kind of it says how a file is opened, and what its cards are called.
    """

    kind: ClassVar[str]

    def __init__(self, settings: FileRuntimeSettings, *, clock: Clock, device_thread: Pool) -> None:
        """`device_thread`: a pool of exactly one thread."""
        self._base = settings
        self._clock = clock
        self._thread = device_thread
        self._executor: ThreadedExecutor | None = None
        self._context = settings.context

    @property
    def defaults(self) -> GenerationDefaults:
        """By the settings."""
        return defaults_of(self._base)

    async def load(self) -> Executor:
        """Opens the file, and times five passes of it.

        Raises:
          StartupError: the runtime's extra or the file is missing, or of another kind.
        """
        settings, loop = self._base, asyncio.get_running_loop()
        path = embedded_model(settings.path)
        loaded = await loop.run_in_executor(self._thread, self._open, path)
        self._context = min(settings.context, loaded.context)
        graphs = catalogue_of(settings.max_lanes, settings.draft_width)
        costs = await loop.run_in_executor(
            self._thread,
            lambda: measure(loaded.model, self._clock, num_slots=settings.max_lanes),
        )
        self._executor = ThreadedExecutor(
            Stepper(loaded.model, loaded.ends),
            catalogue=graphs,
            costs=costs,
            limits=ExecutorLimits(settings.max_lanes, settings.kv_tokens, self._context),
            vocabulary=loaded.vocabulary,
            clock=self._clock,
            loop=loop,
            device_thread=self._thread,
        )
        return self._executor

    def card(self) -> types_pb2.ModelCard:
        """Its card."""
        return text_card(self.kind, self._context, bytes_per_token=BYTES_PER_TOKEN)

    async def close(self) -> None:
        """Waits for the pass in hand."""
        if self._executor is not None:
            await self._executor.close()

    @abstractmethod
    def _open(self, path: Path) -> LoadedModel:
        """Opens the file, in the device's thread."""
