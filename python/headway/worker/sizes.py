"""Keeps answers within what a session carries: a larger message would end it for everybody."""

from headway.v1 import worker_pb2

UNBOUNDED = 2_000_000_000
"""What protobuf itself can hold."""

_OK = worker_pb2.ITEM_STATUS_OK
_INVALID = worker_pb2.ITEM_STATUS_INVALID
# Room for what an answer carries beside its outputs.
_ENVELOPE_BYTES = 512


def bound(result: worker_pb2.BatchResult, *, max_message_bytes: int, max_batch_bytes: int) -> None:
    """Takes out what is too large, in place.

    A member's output beyond `max_message_bytes` becomes INVALID, with the numbers. Members beyond
    what fits into `max_batch_bytes` together are left out, which has the gateway ask again.
    """
    total = 0
    kept: list[worker_pb2.ItemResult] = []
    for item in result.items:
        size = item.output.ByteSize()
        if item.status == _OK and size > max_message_bytes - _ENVELOPE_BYTES:
            item = worker_pb2.ItemResult(
                item_id=item.item_id,
                status=_INVALID,
                message=f"its output has {size} bytes, more than worker.max_message_bytes "
                f"({max_message_bytes}) allows; ask for fewer rows at once",
            )
            size = 0
        total += size
        if not kept or total <= max_batch_bytes - _ENVELOPE_BYTES:
            kept.append(item)
    del result.items[:]
    result.items.extend(kept)
