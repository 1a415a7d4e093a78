"""The sessions of all gateways: who may open one, and what all of them are told."""

from headway.clock import Clock
from headway.errors import Draining, InvalidRequest, ModelLoading, Overloaded
from headway.worker.batch import HostedModel
from headway.worker.device import Device
from headway.worker.generator import HostedGenerator
from headway.worker.session import GatewaySession
from headway.worker.settings import WorkerSettings

NS_PER_S = 1_000_000_000
RETRY_LOADING_NS = NS_PER_S
# A session that has not greeted for so long makes room for another.
GREETING_PATIENCE_NS = 10 * NS_PER_S


class Sessions:
    """At most `max_sessions` at once."""

    def __init__(
        self, settings: WorkerSettings, instance_id: str, device: Device, clock: Clock
    ) -> None:
        """`models` is empty until they are loaded; no session opens before."""
        self.models: tuple[HostedModel | HostedGenerator, ...] = ()
        self._settings = settings
        self._instance_id = instance_id
        self._device = device
        self._clock = clock
        self._open: list[GatewaySession] = []

    def __len__(self) -> int:
        return len(self._open)

    def open(self) -> GatewaySession:
        """A session for a new stream.

        Raises:
          ModelLoading: not ready yet.
          Draining: no more.
          Overloaded: there are `max_sessions`.
        """
        if not self.models:
            raise ModelLoading("the worker loads its models", retry_after_ns=RETRY_LOADING_NS)
        if self._device.draining:
            raise Draining("the worker drains; use another")
        if len(self._open) >= self._settings.max_sessions:
            self._drop_silent()
        if len(self._open) >= self._settings.max_sessions:
            raise Overloaded(
                f"the worker has {len(self._open)} sessions already; raise worker.max_sessions"
            )
        token = self._settings.fleet_token
        session = GatewaySession(
            device=self._device,
            models=self.models,
            clock=self._clock,
            worker_id=self._settings.worker_id,
            instance_id=self._instance_id,
            fleet_token=token.get_secret_value() if token else None,
            max_message_bytes=self._settings.max_message_bytes,
            max_batch_bytes=self._settings.max_batch_bytes,
        )
        self._open.append(session)
        return session

    def close(self, session: GatewaySession) -> None:
        """The stream ended: its work is taken back. Repeating it changes nothing."""
        if session in self._open:
            self._open.remove(session)
            session.lose()

    def tell_capacity(self) -> None:
        """Everybody hears what can be taken now."""
        for session in self._open:
            session.tell_capacity()

    def finish(self) -> None:
        """Ends all streams once what is unsent on them has been sent."""
        for session in self._open:
            session.outbox.close()

    def _drop_silent(self) -> None:
        silent_since = self._clock.now_ns() - GREETING_PATIENCE_NS
        for session in list(self._open):
            if not session.greeted and session.opened_at <= silent_since:
                session.outbox.close(InvalidRequest("no greeting came; send it first"))
                self.close(session)
