"""What changed between two states."""

from headway.v1 import control_pb2


def changes(
    previous: control_pb2.State, current: control_pb2.State
) -> control_pb2.WatchStateResponse | None:
    """What is new in `current`; None if nothing is. O(size of the states)."""
    fresh = control_pb2.State()
    old_pools = {(pool.model, pool.version): pool for pool in previous.pools}
    old_replicas = {replica.replica: replica for replica in previous.replicas}
    old_splits = {split.model: split for split in previous.splits}
    fresh.pools.extend(
        pool for pool in current.pools if old_pools.get((pool.model, pool.version)) != pool
    )
    fresh.replicas.extend(
        each for each in current.replicas if not _alike(old_replicas.get(each.replica), each)
    )
    fresh.splits.extend(split for split in current.splits if old_splits.get(split.model) != split)
    old_rollouts = {rollout.rollout_id: rollout for rollout in previous.rollouts}
    fresh.rollouts.extend(
        each for each in current.rollouts if old_rollouts.get(each.rollout_id) != each
    )
    if current.gateway != previous.gateway:
        fresh.gateway.CopyFrom(current.gateway)
    present = {replica.replica for replica in current.replicas}
    removed = [name for name in old_replicas if name not in present]
    going_on = {rollout.rollout_id for rollout in current.rollouts}
    over = [name for name in old_rollouts if name not in going_on]
    if not removed and not over and fresh.ByteSize() == 0:
        return None
    return control_pb2.WatchStateResponse(
        state=fresh, removed_replicas=removed, ended_rollouts=over
    )


def _alike(old: control_pb2.ReplicaState | None, new: control_pb2.ReplicaState) -> bool:
    """Alike but for the lease, which every heartbeat moves."""
    if old is None:
        return False
    aligned = control_pb2.ReplicaState()
    aligned.CopyFrom(new)
    aligned.lease_expires_at.CopyFrom(old.lease_expires_at)
    return aligned == old
