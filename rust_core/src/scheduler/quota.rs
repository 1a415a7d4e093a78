//! Quotas of work that does not pass through the queues: outputs that are streamed.
use crate::bucket::{Quota, TokenBucket};
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
        Ok(match self.bucket(tenant)?.take(now_ns, units) {
            Quota::Enough => 0,
            Quota::After(wait_ns) => wait_ns,
            Quota::Never => -1,
        })
    }

    /// Gives back what was charged and not used.
    ///
    /// # Errors
    /// An unknown tenant, or units out of range.
    pub fn refund(&mut self, now_ns: i64, tenant: i64, units: i64) -> Result<(), CoreError> {
        let (now_ns, units) = (self.advance(now_ns)?, count(units)?);
        self.bucket(tenant)?.put_back(now_ns, units);
        Ok(())
    }

    fn bucket(&mut self, tenant: i64) -> Result<&mut TokenBucket, CoreError> {
        let bucket = usize::try_from(tenant).ok().and_then(|index| self.tenants.get_mut(index));
        bucket.ok_or(CoreError::UnknownHandle { kind: "tenant", handle: tenant })
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
