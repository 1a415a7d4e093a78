"""The numpy decoder as a worker's runtime."""

import asyncio
from concurrent.futures import Executor as Pool
from pathlib import Path
from typing import Any

from headway.clock import Clock
from headway.engine.executor import Executor, ExecutorLimits
from headway.engine.stepper import Stepper
from headway.engine.threaded import ThreadedExecutor
from headway.errors import StartupError
from headway.runtimes.calibration import measure
from headway.runtimes.embedded import catalogue_of, defaults_of, embedded_model
from headway.runtimes.generative import GenerationDefaults, text_card
from headway.runtimes.generative_settings import DecoderRuntimeSettings
from headway.v1 import types_pb2

BYTES_PER_TOKEN = 4.0


class DecoderRuntime:
    """Loads in the device's thread, so that the worker's event loop goes on."""

    def __init__(
        self, settings: DecoderRuntimeSettings, *, clock: Clock, device_thread: Pool
    ) -> None:
        """`device_thread`: a pool of exactly one thread."""
        self._settings = settings
        self._clock = clock
        self._thread = device_thread
        self._executor: ThreadedExecutor | None = None
        self._context = settings.context

    @property
    def defaults(self) -> GenerationDefaults:
        """By the settings."""
        return defaults_of(self._settings)

    async def load(self) -> Executor:
        """Reads and dequantises the weights, and times five passes: some 7 s for the embedded one.

        Raises:
          StartupError: the extra `decoder` or the file is missing, or of another kind.
        """
        path = embedded_model(self._settings.path)
        loop = asyncio.get_running_loop()
        transformer, vocabulary = await loop.run_in_executor(self._thread, self._read, path)
        settings = self._settings
        graphs = catalogue_of(settings.max_lanes, settings.draft_width)
        costs = await loop.run_in_executor(
            self._thread,
            lambda: measure(transformer, self._clock, num_slots=settings.max_lanes),
        )
        self._executor = ThreadedExecutor(
            Stepper(transformer, vocabulary.ends),
            catalogue=graphs,
            costs=costs,
            limits=ExecutorLimits(settings.max_lanes, settings.kv_tokens, self._context),
            vocabulary=vocabulary,
            clock=self._clock,
            loop=loop,
            device_thread=self._thread,
        )
        return self._executor

    def card(self) -> types_pb2.ModelCard:
        """Its card."""
        return text_card("decoder", self._context, bytes_per_token=BYTES_PER_TOKEN)

    async def close(self) -> None:
        """Waits for the pass in hand."""
        if self._executor is not None:
            await self._executor.close()

    def _read(self, path: Path) -> tuple[Any, Any]:
        try:
            import gguf  # noqa: F401

            from headway.runtimes.decoder.vocabulary import GgufVocabulary
        except ImportError as error:
            raise StartupError(
                f"the decoder needs {error.name}; run `pip install headway[decoder]`"
            ) from error
        from headway.runtimes.decoder.transformer import Transformer
        from headway.runtimes.decoder.weights import read

        _limit_threads(self._settings.threads)
        weights, fields = read(path)
        self._context = min(self._context, weights.shape.context)
        return Transformer(weights), GgufVocabulary(fields, chat=self._settings.chat)


def _limit_threads(threads: int) -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=threads, user_api="blas")
