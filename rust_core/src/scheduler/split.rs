//! Which version of its model a request goes to.
use crate::error::CoreError;
use crate::hash::split_point;

use super::offer::Offer;
use super::pool::Pool;
use super::Scheduler;

impl Scheduler {
    /// The pinned pool, or the split's; the split's first pool stands in for one without replicas.
    pub(super) fn choose_pool(&self, offer: &Offer) -> Result<Option<u64>, CoreError> {
        let unknown = CoreError::UnknownHandle { kind: "model", handle: offer.model };
        let index = usize::try_from(offer.model).map_err(|_| unknown.clone())?;
        let model = self.models.get(index).ok_or(unknown)?;
        if offer.pool != -1 {
            self.pool_slot(offer.pool)?;
            return Ok(Some(offer.pool.unsigned_abs()));
        }
        let point = split_point(offer.key_hash, model.salt);
        // Shares may add up to a hair below 1; the last version that has any takes the rest.
        let at = model.split.partition_point(|&(end, _)| end <= point);
        let drawn = model.split.get(at).or_else(|| last_with_share(&model.split));
        let has_capacity = |key: u64| {
            let slot = self.pools.slot(key);
            slot.and_then(|slot| self.pools.at(slot)).is_some_and(Pool::has_capacity)
        };
        let first = model.split.first().map(|&(_, key)| key);
        Ok(drawn.map(|&(_, key)| key).filter(|&key| has_capacity(key)).or(first))
    }
}

/// The last entry of a split whose interval is not empty.
fn last_with_share(split: &[(f64, u64)]) -> Option<&(f64, u64)> {
    let end = split.last()?.0;
    split.iter().find(|entry| entry.0 >= end)
}
