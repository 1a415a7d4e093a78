"""The numpy decoder as a worker's runtime."""

from concurrent.futures import Executor as Pool
from pathlib import Path
from typing import ClassVar

from headway.clock import Clock
from headway.errors import StartupError
from headway.runtimes.generative_settings import DecoderRuntimeSettings
from headway.runtimes.token_runtime import LoadedModel, TokenRuntime


class DecoderRuntime(TokenRuntime):
    """Reads and dequantises the weights as it loads: some 7 s for the embedded model."""

    kind: ClassVar[str] = "decoder"

    def __init__(
        self, settings: DecoderRuntimeSettings, *, clock: Clock, device_thread: Pool
    ) -> None:
        """`device_thread`: a pool of exactly one thread."""
        super().__init__(settings, clock=clock, device_thread=device_thread)
        self._settings = settings

    def _open(self, path: Path) -> LoadedModel:
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
        vocabulary = GgufVocabulary(fields, chat=self._settings.chat)
        return LoadedModel(Transformer(weights), vocabulary, vocabulary.ends, weights.shape.context)


def _limit_threads(threads: int) -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=threads, user_api="blas")
