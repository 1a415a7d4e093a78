"""Which replica has seen the beginning of a prompt."""

from collections import OrderedDict

from headway._core import hash_key
from headway.v1 import types_pb2

BLOCK_BYTES = 64
LONGEST_BYTES = 4096
MOST_BLOCKS = 16_384


class PrefixAffinity:
    """Beginnings of prompts, block by block, and where they were sent last.

    A chain of hashes: a block's name holds all that is before it. The least recently used block
    goes first.
    """

    def __init__(self) -> None:
        self._replica_of: OrderedDict[int, int] = OrderedDict()

    def find(self, blocks: list[int]) -> tuple[int, int]:
        """(replica, bytes in common) of the longest known beginning; (-1, 0) if none is."""
        for number in range(len(blocks), 0, -1):
            replica = self._replica_of.get(blocks[number - 1])
            if replica is not None:
                return replica, number * BLOCK_BYTES
        return -1, 0

    def note(self, blocks: list[int], replica: int) -> None:
        """The prompt of these blocks went to a replica."""
        for block in blocks:
            self._replica_of[block] = replica
            self._replica_of.move_to_end(block)
        while len(self._replica_of) > MOST_BLOCKS:
            self._replica_of.popitem(last=False)


def blocks_of(value: types_pb2.Input) -> list[int]:
    """Names of the whole blocks that an input begins with."""
    kind = value.WhichOneof("kind")
    if kind == "text":
        data = value.text.encode()[:LONGEST_BYTES]
    elif kind == "token_ids":
        ids = value.token_ids.ids[: LONGEST_BYTES // 4]
        data = b"".join(token.to_bytes(4, "little") for token in ids)
    else:
        return []
    blocks, name = [], 0
    for start in range(0, len(data) - BLOCK_BYTES + 1, BLOCK_BYTES):
        name = hash_key(data[start : start + BLOCK_BYTES], name)
        blocks.append(name)
    return blocks
