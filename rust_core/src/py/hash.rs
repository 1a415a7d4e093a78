//! Sticky hashing.
use pyo3::prelude::*;

use super::argument::Word;

/// 64-bit hash of a sticky key (XXH3-64 with `salt` as seed).
#[pyfunction]
#[pyo3(signature = (key, salt = Word::new(0)), text_signature = "(key, salt=0)")]
pub fn hash_key(key: &[u8], salt: Word) -> PyResult<u64> {
    Ok(crate::hash::hash_key(key, salt.get("salt")?))
}

/// Point in [0, 1) at which a key falls in a traffic split.
#[pyfunction]
pub fn split_point(key_hash: Word, salt: Word) -> PyResult<f64> {
    Ok(crate::hash::split_point(key_hash.get("key_hash")?, salt.get("salt")?))
}
