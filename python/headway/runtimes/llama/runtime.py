"""llama.cpp as a worker's runtime."""

import asyncio
from concurrent.futures import Executor as Pool
from pathlib import Path
from typing import TYPE_CHECKING

from headway.clock import Clock
from headway.engine.executor import Executor, ExecutorLimits
from headway.engine.stepper import Stepper
from headway.engine.threaded import ThreadedExecutor
from headway.errors import StartupError
from headway.runtimes.calibration import measure
from headway.runtimes.embedded import catalogue_of, defaults_of, embedded_model
from headway.runtimes.generative import GenerationDefaults, text_card
from headway.runtimes.generative_settings import LlamaRuntimeSettings
from headway.v1 import types_pb2

if TYPE_CHECKING:
    from headway.runtimes.llama.library import LlamaModel

BYTES_PER_TOKEN = 4.0


class LlamaVocabulary:
    """The file's own tokenizer."""

    def __init__(self, model: "LlamaModel", *, chat: bool) -> None:
        self._model = model
        self._chat = chat
        self._ends = frozenset(token for token in range(model.size) if model.is_end(token))

    @property
    def size(self) -> int:
        """Number of tokens."""
        return self._model.size

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end an output."""
        return self._ends

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, as the user's turn if the runtime is for chats.

        Control tokens written out in it are text, not control: it cannot end its own turn.
        """
        written = self._model.tokenize(text, special=False)
        if not self._chat:
            return written
        before, after = self._model.user_turn()
        special = self._model.tokenize
        return [*special(before, special=True), *written, *special(after, special=True)]

    def piece(self, token: int) -> bytes:
        """Bytes of a token."""
        return self._model.piece(token)


class LlamaRuntime:
    """Loads in the device's thread, so that the worker's event loop goes on."""

    def __init__(
        self, settings: LlamaRuntimeSettings, *, clock: Clock, device_thread: Pool
    ) -> None:
        """`device_thread`: a pool of exactly one thread."""
        self._settings = settings
        self._clock = clock
        self._thread = device_thread
        self._executor: ThreadedExecutor | None = None
        self._model: LlamaModel | None = None
        self._context = settings.context

    @property
    def defaults(self) -> GenerationDefaults:
        """By the settings."""
        return defaults_of(self._settings)

    async def load(self) -> Executor:
        """Loads the file.

        Raises:
          StartupError: llama-cpp-python or the file is missing, or it does not load.
        """
        settings, loop = self._settings, asyncio.get_running_loop()
        path = embedded_model(settings.path)
        model, vocabulary = await loop.run_in_executor(self._thread, self._open, path)
        self._model = model
        self._context = min(settings.context, model.context)
        graphs = catalogue_of(settings.max_lanes, settings.draft_width)
        costs = await loop.run_in_executor(
            self._thread,
            lambda: measure(model, self._clock, num_slots=settings.max_lanes),
        )
        self._executor = ThreadedExecutor(
            Stepper(model, vocabulary.ends),
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
        return text_card("llama", self._context, bytes_per_token=BYTES_PER_TOKEN)

    async def close(self) -> None:
        """Waits for the pass in hand, and frees the model."""
        if self._executor is not None:
            await self._executor.close()
        if self._model is not None:
            self._model.close()

    def _open(self, path: Path) -> "tuple[LlamaModel, LlamaVocabulary]":
        try:
            import llama_cpp  # noqa: F401
        except ImportError as error:
            raise StartupError(
                "the llama runtime needs llama-cpp-python; run `pip install headway[llama]` (it "
                "builds from source)"
            ) from error
        from headway.runtimes.llama.library import LlamaModel

        settings = self._settings
        model = LlamaModel(
            path,
            num_slots=settings.max_lanes,
            kv_tokens=settings.kv_tokens,
            threads=settings.threads,
            gpu_layers=settings.gpu_layers,
        )
        return model, LlamaVocabulary(model, chat=settings.chat)
