"""llama.cpp as a worker's runtime."""

from concurrent.futures import Executor as Pool
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headway.clock import Clock
from headway.errors import StartupError
from headway.runtimes.generative_settings import LlamaRuntimeSettings
from headway.runtimes.token_runtime import LoadedModel, TokenRuntime

if TYPE_CHECKING:
    from headway.runtimes.llama.library import LlamaModel


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


class LlamaRuntime(TokenRuntime):
    """Frees the library's model when it closes."""

    kind: ClassVar[str] = "llama"

    def __init__(
        self, settings: LlamaRuntimeSettings, *, clock: Clock, device_thread: Pool
    ) -> None:
        """`device_thread`: a pool of exactly one thread."""
        super().__init__(settings, clock=clock, device_thread=device_thread)
        self._settings = settings
        self._model: LlamaModel | None = None

    async def close(self) -> None:
        """Waits for the pass in hand, and frees the model."""
        await super().close()
        if self._model is not None:
            self._model.close()

    def _open(self, path: Path) -> LoadedModel:
        try:
            import llama_cpp  # noqa: F401
        except ImportError as error:
            raise StartupError(
                "the llama runtime needs llama-cpp-python; run `pip install headway[llama]` (it "
                "builds from source)"
            ) from error
        from headway.runtimes.llama.library import LlamaModel

        settings = self._settings
        model = self._model = LlamaModel(
            path,
            num_slots=settings.max_lanes,
            kv_tokens=settings.kv_tokens,
            threads=settings.threads,
            gpu_layers=settings.gpu_layers,
        )
        vocabulary = LlamaVocabulary(model, chat=settings.chat)
        return LoadedModel(model, vocabulary, vocabulary.ends, model.context)
