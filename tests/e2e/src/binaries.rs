//! The two binaries and a real kubectl, found or built once a process.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The folder that holds `kubectl-inventory` and `credential-exec`, built from this work tree in the
/// profile of the test itself.
pub fn binaries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let folder = test.ancestors().find(|dir| dir.join("deps").is_dir()).expect("target folder").to_owned();
    let target = folder.parent().expect("target folder");
    let profile = if folder.ends_with("debug") { "dev" } else { "release" };
    let mut cargo = Command::new(env!("CARGO"));
    // What cargo told this test of its own package would make build scripts run again.
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
            cargo.env_remove(name);
        }
    }
    let status = cargo
        .args(["build", "--quiet", "--locked", "--profile", profile])
        .args(["-p", "kubectl-inventory", "-p", "credential-exec", "-p", "fleet"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .stdin(Stdio::null())
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the binaries cannot be built");
    folder
}

/// Real kubectls: those of `$KUBECTLS` (a list like PATH), else the one on PATH. Empty where there
/// is none: this was said then, and is a failure under `CI_NO_SKIP=1`.
pub fn kubectls() -> Vec<PathBuf> {
    if let Some(list) = env::var_os("KUBECTLS") {
        return env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
    }
    let name = format!("kubectl{}", env::consts::EXE_SUFFIX);
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join(&name)).find(|file| file.is_file());
    if found.is_none() {
        skip("no kubectl on PATH");
    }
    found.into_iter().collect()
}

/// The newest of [`kubectls`].
pub fn kubectl() -> Option<PathBuf> {
    kubectls().pop()
}

/// Says that the test at hand does nothing here, and why.
///
/// # Panics
/// Under `CI_NO_SKIP=1`.
pub fn skip(why: &str) {
    use std::io::Write;
    assert!(env::var_os("CI_NO_SKIP").is_none(), "a skip where none is allowed: {why}");
    // Past the capture of the test harness, so that it is seen.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
