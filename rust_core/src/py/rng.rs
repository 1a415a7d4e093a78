//! Seeded randomness.
use pyo3::prelude::*;

use super::argument::Word;
use super::lock::Lock;
use crate::error::CoreError;
use crate::rng;

/// xoshiro256++ seeded by `SplitMix64`.
#[pyclass(frozen, module = "headway._core")]
pub struct Rng(Lock<rng::Rng>);

#[pymethods]
impl Rng {
    #[new]
    fn new(seed: Word) -> PyResult<Self> {
        Ok(Self(Lock::new(rng::Rng::new(seed.get("seed")?))))
    }

    fn next_u64(&self) -> u64 {
        self.0.hold().next_u64()
    }

    fn uniform(&self) -> f64 {
        self.0.hold().uniform()
    }

    fn below(&self, bound: Word) -> PyResult<u64> {
        match bound.get("bound")? {
            0 => Err(CoreError::argument("bound", 0, "at least 1").into()),
            bound => Ok(self.0.hold().below(bound)),
        }
    }
}
