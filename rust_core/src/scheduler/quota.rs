//! Quotas of work that passes through no queue.
use crate::bucket::Quota;
use crate::check;
use crate::error::CoreError;

use super::Scheduler;

impl Scheduler {
    /// Takes units from a tenant's bucket: 0 if taken, else nanoseconds until there are enough,
    /// or -1 if they are more than its burst.
    ///
    /// # Errors
    /// An unknown tenant, or units out of range.
    pub fn charge(&mut self, now_ns: i64, tenant: i64, units: i64) -> Result<i64, CoreError> {
        let (now_ns, units) = (self.advance(now_ns)?, count(units)?);
        let slot = self.tenant_slot(tenant)?;
        self.tenants.touch(now_ns, slot);
        let taken = self.tenants.bucket_mut(slot).map(|bucket| bucket.take(now_ns, units));
        Ok(match taken {
            Some(Quota::After(wait_ns)) => wait_ns,
            Some(Quota::Never) => -1,
            Some(Quota::Enough) | None => 0,
        })
    }

    /// Gives back what was charged and not used.
    ///
    /// # Errors
    /// An unknown tenant, or units out of range.
    pub fn refund(&mut self, now_ns: i64, tenant: i64, units: i64) -> Result<(), CoreError> {
        let (now_ns, units) = (self.advance(now_ns)?, count(units)?);
        let slot = self.tenant_slot(tenant)?;
        if let Some(bucket) = self.tenants.bucket_mut(slot) {
            bucket.put_back(now_ns, units);
        }
        Ok(())
    }
}

fn count(units: i64) -> Result<u64, CoreError> {
    check::count("units", units, 0, check::MAX_UNITS, "from 0 to 2**38")
}

#[cfg(test)]
mod tests {
    use crate::scheduler::Scheduler;

    #[test]
    fn a_charge_waits_for_what_the_bucket_lacks() {
        let mut scheduler = Scheduler::new(1, 8, 1).unwrap_or_else(|error| panic!("{error}"));
        let tenant = scheduler.add_tenant(0, 10.0, 100.0).unwrap_or(-1);
        assert_eq!(scheduler.charge(0, tenant, 90), Ok(0));
        assert_eq!(scheduler.charge(0, tenant, 20), Ok(1_000_000_000));
        assert_eq!(scheduler.charge(0, tenant, 101), Ok(-1));
        assert_eq!(scheduler.refund(0, tenant, 90), Ok(()));
        assert_eq!(scheduler.charge(0, tenant, 100), Ok(0));
    }
}
