//! Seeded randomness.

/// `SplitMix64`, used to spread a seed over a generator's state.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// xoshiro256++ seeded by `SplitMix64`. Period 2^256 - 1.
///
/// Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators",
/// ACM TOMS 47(4), 2021.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Any seed will do; `SplitMix64` never yields the all-zero state.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut spread = SplitMix64::new(seed);
        Self::from_state(std::array::from_fn(|_| spread.next_u64()))
    }

    /// Starts from a state; not all zero.
    #[must_use]
    pub fn from_state(state: [u64; 4]) -> Self {
        Self { state }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let result = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let (s2, s3) = (s2 ^ s0, s3 ^ s1);
        self.state = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17), s3.rotate_left(45)];
        result
    }

    /// In [0, 1), 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// In [0, bound), unbiased; 0 for a bound of 0.
    ///
    /// Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019.
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut product = self.scaled(bound);
        if low(product) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while low(product) < threshold {
                product = self.scaled(bound);
            }
        }
        high(product)
    }

    fn scaled(&mut self, bound: u64) -> u128 {
        u128::from(self.next_u64()) * u128::from(bound)
    }
}

#[allow(clippy::cast_possible_truncation)] // the low half is what is asked for
fn low(product: u128) -> u64 {
    product as u64
}

#[allow(clippy::cast_possible_truncation)] // 64 bits are left after the shift
fn high(product: u128) -> u64 {
    (product >> 64) as u64
}
