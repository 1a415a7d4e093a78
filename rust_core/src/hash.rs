//! Sticky hashing: which version of a model serves a key.
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// 64-bit hash of a key: XXH3-64 with `salt` as seed. O(len).
#[must_use]
pub fn hash_key(key: &[u8], salt: u64) -> u64 {
    xxh3_64_with_seed(key, salt)
}

/// Point in [0, 1) at which a hashed key falls in a traffic split; independent between salts.
///
/// The top 53 bits of XXH3-64 over the hash's little-endian bytes, seeded by `salt`.
#[must_use]
pub fn split_point(key_hash: u64, salt: u64) -> f64 {
    let mixed = xxh3_64_with_seed(&key_hash.to_le_bytes(), salt);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}
