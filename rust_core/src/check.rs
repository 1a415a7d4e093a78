//! Ranges that every argument is held to, so that no later arithmetic can overflow.
use crate::error::CoreError;

/// Largest magnitude of an instant or duration, ns: 2^62, 146 years either way.
pub const MAX_NS: i64 = 1 << 62;
/// Most units of one request; times the most live requests it still fits an `i64`.
pub const MAX_UNITS: i64 = 1 << 38;
/// Most rows of one request.
pub const MAX_ROWS: i64 = 1 << 31;
/// Most requests that one scheduler can hold.
pub const MAX_LIVE: i64 = 1 << 24;

/// An instant, ns.
///
/// # Errors
/// Beyond +-2^62.
pub fn instant(name: &'static str, value: i64) -> Result<i64, CoreError> {
    if (-MAX_NS..=MAX_NS).contains(&value) {
        Ok(value)
    } else {
        Err(CoreError::argument(name, value, "an instant within +-2**62 ns"))
    }
}

/// A duration, ns, >= `least`.
///
/// # Errors
/// Below `least` (0 or 1) or above 2^62.
pub fn duration(name: &'static str, value: i64, least: i64) -> Result<i64, CoreError> {
    if (least..=MAX_NS).contains(&value) {
        return Ok(value);
    }
    let expected =
        if least > 0 { "a duration of 1 to 2**62 ns" } else { "a duration of 0 to 2**62 ns" };
    Err(CoreError::argument(name, value, expected))
}

/// An integer in `[least, most]`, as `u64`; `expected` puts the range in words.
///
/// # Errors
/// Outside the range.
pub fn count(
    name: &'static str,
    value: i64,
    least: i64,
    most: i64,
    expected: &'static str,
) -> Result<u64, CoreError> {
    if value < least || value > most {
        return Err(CoreError::argument(name, value, expected));
    }
    u64::try_from(value).map_err(|_| CoreError::argument(name, value, expected))
}

/// A finite float in `[0, 1e18]`.
///
/// # Errors
/// NaN, negative, or above 1e18.
pub fn cost(name: &'static str, value: f64) -> Result<f64, CoreError> {
    if (0.0..=1e18).contains(&value) {
        Ok(value)
    } else {
        Err(CoreError::argument(name, value, "a finite number from 0 to 1e18"))
    }
}

/// A float > 0; infinity allowed.
///
/// # Errors
/// NaN, zero or negative.
pub fn positive(name: &'static str, value: f64) -> Result<f64, CoreError> {
    if value > 0.0 {
        Ok(value)
    } else {
        Err(CoreError::argument(name, value, "above 0 (inf for no limit)"))
    }
}

/// A float in `[0, 1]`.
///
/// # Errors
/// NaN or outside.
pub fn ratio(name: &'static str, value: f64) -> Result<f64, CoreError> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(CoreError::argument(name, value, "from 0 to 1"))
    }
}

/// Nanoseconds from a float, at least 0 and at most 2^62; NaN is 0.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // the clamp is the point
pub fn to_ns(value: f64) -> i64 {
    value.clamp(0.0, MAX_NS as f64) as i64
}
