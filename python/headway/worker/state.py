"""What a worker says of itself, to gateways and to probes."""

from collections.abc import Mapping

from headway import __version__
from headway.v1 import fleet_pb2
from headway.worker.batch import HostedModel
from headway.worker.device import Device
from headway.worker.generator import HostedGenerator
from headway.worker.settings import WorkerSettings


class WorkerState:
    """One worker's present state, in the words of FleetService."""

    def __init__(self, settings: WorkerSettings, instance_id: str, device: Device) -> None:
        self.address = ""
        self.models: tuple[HostedModel | HostedGenerator, ...] = ()
        self._settings = settings
        self._instance_id = instance_id
        self._device = device

    def registration(self) -> fleet_pb2.RegisterRequest:
        """What it is."""
        token = self._settings.fleet_token
        return fleet_pb2.RegisterRequest(
            worker_id=self._settings.worker_id,
            instance_id=self._instance_id,
            address=self.address,
            models=[model.card for model in self.models],
            max_outstanding_batches=self._settings.max_outstanding_batches,
            fleet_token=token.get_secret_value() if token else "",
            labels=self._settings.labels,
            software_version=__version__,
        )

    def heartbeat(self) -> fleet_pb2.HeartbeatRequest:
        """How it is."""
        draining = self._device.draining
        return fleet_pb2.HeartbeatRequest(
            state=fleet_pb2.WORKER_STATE_DRAINING if draining else fleet_pb2.WORKER_STATE_READY,
            outstanding_batches=self._device.num_batches,
            outstanding_units=self._device.count_units(),
            models=[
                fleet_pb2.ModelStatus(
                    model=model.card.model, version=model.card.version, ready=not draining
                )
                for model in self.models
            ],
        )

    def readiness(self) -> tuple[bool, Mapping[str, object]]:
        """Whether a batch would be executed, and why, for /readyz."""
        ready = bool(self.models) and not self._device.draining
        details = {
            "worker": self._settings.worker_id,
            "draining": self._device.draining,
            "outstanding_batches": self._device.num_batches,
            "models": {model.label: ready for model in self.models},
        }
        return ready, details
