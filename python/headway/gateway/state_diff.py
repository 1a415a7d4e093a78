"""What changed between two states."""

from headway.v1 import control_pb2


def changes(
    previous: control_pb2.State, current: control_pb2.State
) -> control_pb2.WatchStateResponse | None:
    """What is new in `current`; None if nothing is. O(size of the states)."""
    message = control_pb2.WatchStateResponse()
    old_pools = {(pool.model, pool.version): pool for pool in previous.pools}
    old_replicas = {replica.replica: replica for replica in previous.replicas}
    old_splits = {split.model: split for split in previous.splits}
    message.state.pools.extend(
        pool for pool in current.pools if old_pools.get((pool.model, pool.version)) != pool
    )
    message.state.replicas.extend(
        each for each in current.replicas if not _alike(old_replicas.get(each.replica), each)
    )
    message.state.splits.extend(
        split for split in current.splits if old_splits.get(split.model) != split
    )
    old_rollouts = {rollout.rollout_id: rollout for rollout in previous.rollouts}
    message.state.rollouts.extend(
        each for each in current.rollouts if old_rollouts.get(each.rollout_id) != each
    )
    if current.gateway != previous.gateway:
        message.state.gateway.CopyFrom(current.gateway)
    present = {replica.replica for replica in current.replicas}
    message.removed_replicas.extend(name for name in old_replicas if name not in present)
    going_on = {rollout.rollout_id for rollout in current.rollouts}
    message.ended_rollouts.extend(name for name in old_rollouts if name not in going_on)
    return message if message.ByteSize() > 0 else None


def _alike(old: control_pb2.ReplicaState | None, new: control_pb2.ReplicaState) -> bool:
    """Alike but for the lease, which every heartbeat moves."""
    if old is None:
        return False
    aligned = control_pb2.ReplicaState()
    aligned.CopyFrom(new)
    aligned.lease_expires_at.CopyFrom(old.lease_expires_at)
    return aligned == old
