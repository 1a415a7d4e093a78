"""llama.cpp as a token model: one batch a pass, one sequence a slot."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway.engine.sampling import Logits
from headway.engine.stepper import ModelRow
from headway.errors import RuntimeFailure, StartupError

PIECE_BYTES = 256
TEMPLATE_BYTES = 4096
"""Room for what a template adds to a text."""

MARK = "the user's text"


class LlamaModel:
    """A loaded GGUF file with one context. Not thread-safe.

    llama.cpp keeps all sequences in one memory of `kv_tokens`; a slot is a sequence, and what two
    slots have in common is stored once.
    """

    def __init__(
        self, path: Path, *, num_slots: int, kv_tokens: int, threads: int, gpu_layers: int
    ) -> None:
        """Raises StartupError if the file is not one that llama.cpp loads."""
        import llama_cpp

        self._library: Any = llama_cpp
        llama_cpp.llama_backend_init()
        _silence(llama_cpp)
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = gpu_layers
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), model_params)
        if not self._model:
            raise StartupError(f"llama.cpp does not load {path}; is it a GGUF file that it knows?")
        self._context = llama_cpp.llama_init_from_model(
            self._model, self._context_params(num_slots, kv_tokens, threads)
        )
        if not self._context:
            raise StartupError(f"llama.cpp has no memory for {kv_tokens} tokens of {path}")
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._vocabulary = llama_cpp.llama_model_get_vocab(self._model)
        self._capacity = kv_tokens
        self._batch = llama_cpp.llama_batch_init(kv_tokens, 0, 1)
        self.size = int(llama_cpp.llama_vocab_n_tokens(self._vocabulary))
        self.context = int(llama_cpp.llama_model_n_ctx_train(self._model))

    def _context_params(self, num_slots: int, kv_tokens: int, threads: int) -> Any:
        params = self._library.llama_context_default_params()
        params.n_ctx = kv_tokens
        params.n_batch = kv_tokens
        params.n_ubatch = min(512, kv_tokens)
        params.n_seq_max = num_slots
        params.n_threads = params.n_threads_batch = threads
        # One memory for all sequences, so that a long one may use what others leave.
        params.kv_unified = True
        return params

    # -- the token model

    def reserve(self, slot: int, num_tokens: int, source: int, reused: int) -> None:
        """Begins a sequence, with what another one has of its beginning."""
        library, memory = self._library, self._memory
        if source == slot:
            library.llama_memory_seq_rm(memory, slot, reused, -1)
            return
        library.llama_memory_seq_rm(memory, slot, -1, -1)
        if reused:
            library.llama_memory_seq_cp(memory, source, slot, 0, reused)

    def truncate(self, slot: int, num_tokens: int) -> None:
        """Forgets drafts that were wrong."""
        self._library.llama_memory_seq_rm(self._memory, slot, num_tokens, -1)

    def release(self, slot: int) -> None:
        """Forgets a sequence."""
        self._library.llama_memory_seq_rm(self._memory, slot, -1, -1)

    def forward(self, rows: Sequence[ModelRow]) -> Sequence[Sequence[Logits]]:
        """One batch.

        Raises:
          RuntimeFailure: llama.cpp refused it.
        """
        batch, wanted, count = self._batch, [], 0
        for row in rows:
            first_wanted = len(row.tokens) - row.num_logits
            places = []
            for offset, token in enumerate(row.tokens):
                batch.token[count] = token
                batch.pos[count] = row.start + offset
                batch.n_seq_id[count] = 1
                batch.seq_id[count][0] = row.slot
                batch.logits[count] = offset >= first_wanted
                if offset >= first_wanted:
                    places.append(count)
                count += 1
            wanted.append(places)
        batch.n_tokens = count
        code = self._library.llama_decode(self._context, batch)
        if code:
            raise RuntimeFailure(f"llama_decode returned {code} for {count} tokens")
        return [[self._logits(place) for place in places] for places in wanted]

    def _logits(self, place: int) -> Logits:
        pointer = self._library.llama_get_logits_ith(self._context, place)
        view: Logits = np.ctypeslib.as_array(pointer, shape=(self.size,)).copy()
        return view

    # -- the vocabulary

    def is_end(self, token: int) -> bool:
        """Whether an output ends with it."""
        return bool(self._library.llama_vocab_is_eog(self._vocabulary, token))

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Tokens of a text; `special`: control tokens written out in it are control."""
        data = text.encode()
        room = len(data) + 16
        tokens = (self._library.llama_token * room)()
        count = self._library.llama_tokenize(
            self._vocabulary, data, len(data), tokens, room, False, special
        )
        return list(tokens[:count])

    def piece(self, token: int) -> bytes:
        """Bytes of a token."""
        buffer = ctypes.create_string_buffer(PIECE_BYTES)
        length = self._library.llama_token_to_piece(
            self._vocabulary, token, buffer, PIECE_BYTES, 0, False
        )
        return buffer.raw[: max(0, length)]

    def user_turn(self) -> tuple[str, str]:
        """What the file's template puts before and after the user's text; ("", "") without one."""
        before, found, after = self._conversation(MARK).partition(MARK)
        return (before, after) if found else ("", "")

    def _conversation(self, text: str) -> str:
        library = self._library
        template = library.llama_model_chat_template(self._model, None)
        turns = (library.llama_chat_message * 1)()
        turns[0].role, turns[0].content = b"user", text.encode()
        buffer = ctypes.create_string_buffer(len(text.encode()) + TEMPLATE_BYTES)
        length = library.llama_chat_apply_template(template, turns, 1, True, buffer, len(buffer))
        return buffer.raw[:length].decode() if length > 0 else text

    def close(self) -> None:
        """Frees everything."""
        self._library.llama_batch_free(self._batch)
        self._library.llama_free(self._context)
        self._library.llama_model_free(self._model)


def _silence(library: Any) -> None:
    """llama.cpp logs hundreds of lines to standard error as it loads."""
    ignore = library.llama_log_callback(lambda level, text, data: None)
    library.llama_log_set(ignore, ctypes.c_void_p(0))
    # The callback must outlive every call.
    library.headway_log_callback = ignore
