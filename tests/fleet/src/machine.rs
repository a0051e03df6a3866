//! What the demo and the tests take from the machine: the binaries of this work tree, real kubectls,
//! and a plain word where something is not there.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command that builds `kubectl-inventory`, `credential-exec` and the demo where the program that
/// asks was built, in the same profile; and the folder that holds them then.
///
/// # Errors
/// Where this program is not in a folder of cargo's.
pub fn cargo_build() -> io::Result<(Command, PathBuf)> {
    let program = env::current_exe()?;
    let folder = program.ancestors().find(|dir| dir.join("deps").is_dir());
    let (folder, target) = folder
        .and_then(|folder| Some((folder, folder.parent()?)))
        .ok_or_else(|| io::Error::other(format!("{} is in no target folder", program.display())))?;
    let profile = match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo told this program of its own package would make build scripts run again.
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
            cargo.env_remove(name);
        }
    }
    cargo
        .args(["build", "--locked", "--profile", profile])
        .args(["-p", "kubectl-inventory", "-p", "credential-exec", "-p", "fleet", "--manifest-path"])
        .arg(Path::new(&package).join("../../Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .stdin(Stdio::null());
    Ok((cargo, folder.to_owned()))
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
    assert!(env::var_os("CI_NO_SKIP").is_none_or(|value| value != "1"), "no skip is allowed: {why}");
    say(&format!("skipped: {why}"));
}

/// One line on stderr, past the test harness, which would keep it to itself.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
