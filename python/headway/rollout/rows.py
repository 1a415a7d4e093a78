"""Arrays with one row a rollout: kept, dropped, stored and restored together.

A gateway has one row; a simulation has thousands. Both run the same lines.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Rows:
    """Base of objects whose state is arrays with a row for each rollout, and parts alike."""

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {k: v for k, v in vars(self).items() if isinstance(v, np.ndarray) and k[0] != "_"}

    def _parts(self) -> dict[str, "Rows"]:
        return {k: v for k, v in vars(self).items() if isinstance(v, Rows)}

    def keep(self, rows: Mask) -> None:
        """Drops all other rows."""
        for name, array in self._arrays().items():
            setattr(self, name, array[rows])
        for part in self._parts().values():
            part.keep(rows)

    def to_plain(self) -> dict[str, Any]:
        """The whole state as JSON has it, exact to the last bit."""
        plain: dict[str, Any] = {name: _encode(array) for name, array in self._arrays().items()}
        for name, part in self._parts().items():
            plain[name] = part.to_plain()
        return plain

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Takes back what `to_plain` gave.

        Raises:
          ValueError: it is not the state of such an object.
        """
        for name, array in self._arrays().items():
            found = _decode(plain.get(name))
            if found is None or found.shape != array.shape or found.dtype != array.dtype:
                raise ValueError(f"stored rollout state: {name} is missing or of another shape")
            setattr(self, name, found)
        for name, part in self._parts().items():
            part.restore(plain.get(name) or {})


def _encode(array: npt.NDArray[Any]) -> dict[str, Any]:
    packed = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"type": array.dtype.str, "shape": list(array.shape), "bytes": packed}


def _decode(plain: Any) -> npt.NDArray[Any] | None:
    if not isinstance(plain, Mapping):
        return None
    flat = np.frombuffer(base64.b64decode(plain["bytes"]), dtype=np.dtype(plain["type"]))
    return flat.reshape(plain["shape"]).copy()
