//! The two binaries, built once a process.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folder that holds `kubectl-inventory` and `credential-exec`, built from this work tree in the
/// profile of the test itself.
pub fn binaries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let (mut cargo, folder) = fleet::machine::cargo_build().expect("a target folder");
        let status = cargo.arg("--quiet").status().expect("cargo runs");
        assert!(status.success(), "the binaries cannot be built");
        folder
    })
}
