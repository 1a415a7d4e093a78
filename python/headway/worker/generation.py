"""A generative model on a worker: from the session's messages to the engine's lanes."""

import asyncio
from collections.abc import Callable, Sequence

from headway._core import hash_key
from headway.clock import Clock
from headway.engine.engine import Engine
from headway.engine.executor import Vocabulary
from headway.engine.request import GenerationRequest, Targets
from headway.engine.sampling import MOST_LOGPROBS, Sampling
from headway.errors import RuntimeInputError
from headway.runtimes.generative import GenerationDefaults
from headway.v1 import worker_pb2
from headway.worker.stream import PendingStream

INVALID = worker_pb2.ITEM_STATUS_INVALID
CANCELLED = worker_pb2.ITEM_STATUS_CANCELLED


class Generation:
    """Gives streams lanes as they come, or says busy: what waits here could go elsewhere."""

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        defaults: GenerationDefaults,
        clock: Clock,
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` is called when there is more or less room than there was."""
        self.draining = False
        self._engine = engine
        self._vocabulary = vocabulary
        self._defaults = defaults
        self._clock = clock
        self._changed = changed
        self._idle_waiters: list[asyncio.Future[None]] = []

    def submit(self, stream: PendingStream) -> None:
        """Begins an output, or answers why not."""
        now_ns = self._clock.now_ns()
        try:
            request = self._request(stream, now_ns)
            if self.draining or not self._begin(stream, request):
                wait_ns = 0 if self.draining else self._engine.predicted_first_token_ns()
                stream.answer_busy(wait_ns, self.draining)
        except RuntimeInputError as error:
            stream.refuse(INVALID, str(error))

    def cancel(self, stream: PendingStream, item_ids: Sequence[int] = ()) -> None:
        """Takes an output back, and says so."""
        if not item_ids or stream.item.item_id in item_ids:
            self._stop(stream)
            stream.refuse(CANCELLED, "")

    def abandon(self, stream: PendingStream) -> None:
        """Takes back an output whose session is lost."""
        stream.abandon()
        self._stop(stream)

    def capacity(self, handle: int) -> worker_pb2.ModelCapacity:
        """What can be taken now, for the model of this handle."""
        engine = self._engine
        return worker_pb2.ModelCapacity(
            handle=handle,
            free_lanes=0 if self.draining else engine.free_lanes,
            free_kv_units=engine.free_tokens,
            first_token_wait_ns=engine.predicted_first_token_ns(),
            total_lanes=engine.limits.num_slots,
            total_kv_units=engine.limits.kv_tokens,
        )

    def on_freed(self) -> None:
        """The engine freed a lane."""
        self._changed()
        if not self._engine.num_lanes:
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def until_idle(self) -> None:
        """Returns once no output is under way."""
        while self._engine.num_lanes:
            waiter = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    def _begin(self, stream: PendingStream, request: GenerationRequest) -> bool:
        lane = self._engine.admit(request, stream)
        if lane is None:
            return False
        stream.lane = lane
        stream.set_held = lambda held: self._engine.hold(lane, held)
        self._changed()
        return True

    def _stop(self, stream: PendingStream) -> None:
        if stream.lane is not None:
            self._engine.cancel(stream.lane)

    def _request(self, stream: PendingStream, now_ns: int) -> GenerationRequest:
        item, defaults = stream.item, self._defaults
        prompt = self._prompt(item)
        wanted = item.max_output_units or defaults.output_tokens
        return GenerationRequest(
            prompt=prompt,
            output_limit=self._engine.check(len(prompt), wanted),
            sampling=_sampling(item),
            stops=tuple(item.sampling.stop),
            targets=self._targets(stream, now_ns),
            arrived_at_ns=stream.received_at,
            request_id=item.request_id,
        )

    def _targets(self, stream: PendingStream, now_ns: int) -> Targets:
        """The request's own, else the model's."""
        item, defaults, received_at = stream.item, self._defaults, stream.received_at
        asked = item.targets
        first_at = None if defaults.first_token_ns is None else now_ns + defaults.first_token_ns
        if asked.HasField("first_token_remaining_ns"):
            first_at = received_at + asked.first_token_remaining_ns
        wanted_by = None
        if asked.HasField("completion_remaining_ns"):
            wanted_by = received_at + asked.completion_remaining_ns
        return Targets(
            first_token_at_ns=first_at,
            completion_at_ns=received_at + item.remaining_ns,
            gap_ns=asked.gap_ns if asked.gap_ns > 0 else defaults.gap_ns,
            wanted_by_ns=wanted_by,
        )

    def _prompt(self, item: worker_pb2.BatchItem) -> tuple[int, ...]:
        kind = item.input.WhichOneof("kind")
        if kind == "text":
            return tuple(self._vocabulary.encode(item.input.text))
        if kind != "token_ids":
            raise RuntimeInputError(f"input.{kind} is not what the model takes; send a text")
        prompt = tuple(item.input.token_ids.ids)
        largest = max(prompt, default=0)
        if largest >= self._vocabulary.size:
            raise RuntimeInputError(
                f"input.token_ids.ids has {largest}; the vocabulary ends at "
                f"{self._vocabulary.size - 1}"
            )
        return prompt


def _sampling(item: worker_pb2.BatchItem) -> Sampling:
    asked = item.sampling
    if not 0 <= asked.logprobs <= MOST_LOGPROBS:
        raise RuntimeInputError(
            f"sampling.logprobs is {asked.logprobs}; it must be in [0, {MOST_LOGPROBS}]"
        )
    if asked.HasField("top_k") and asked.top_k < 1:
        raise RuntimeInputError(f"sampling.top_k is {asked.top_k}; it must be at least 1")
    seed = asked.seed if asked.HasField("seed") else hash_key(item.request_id.encode())
    return Sampling(
        temperature=asked.temperature,
        top_p=asked.top_p if asked.HasField("top_p") else 1.0,
        top_k=asked.top_k,
        seed=seed,
        logprobs=asked.logprobs > 0,
    )
