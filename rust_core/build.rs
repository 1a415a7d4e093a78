//! Lets `cargo test` with the feature `python` find the interpreter's shared library at run time.
//! Extension modules (`PYO3_BUILD_EXTENSION_MODULE`, which maturin sets) do not link it.
fn main() {
    println!("cargo::rerun-if-env-changed=PYO3_BUILD_EXTENSION_MODULE");
    #[cfg(feature = "python")]
    if std::env::var_os("PYO3_BUILD_EXTENSION_MODULE").is_none() {
        pyo3_build_config::add_libpython_rpath_link_args();
    }
}
