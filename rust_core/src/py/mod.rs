//! The Python faces: ints, floats, flat lists and frozen classes cross, nothing else.
use pyo3::prelude::*;

mod engine;

#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    engine::register(module)
}
