//! Builds the two binaries where this one was built, in the same profile.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use crate::say;

/// The directory that holds `kubectl-inventory` and `credential-exec`, freshly built.
pub(crate) async fn binaries() -> io::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let binaries = here.parent().ok_or_else(|| io::Error::other("this program has no directory"))?;
    let profile = match binaries.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let workspace = PathBuf::from(manifest).join("../../Cargo.toml");
    say("building kubectl-inventory and credential-exec\n")?;
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo told this program of its own package would make build scripts run again.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
            build.env_remove(name);
        }
    }
    build.args(["build", "--locked", "--profile", profile, "--manifest-path"]).arg(workspace);
    if let Some(target) = binaries.parent() {
        build.arg("--target-dir").arg(target);
    }
    build.args(["-p", "kubectl-inventory", "-p", "credential-exec", "-p", "fleet"]);
    let status = build.stdin(Stdio::null()).kill_on_drop(true).status().await?;
    if !status.success() {
        return Err(io::Error::other("the build failed; its messages are above"));
    }
    Ok(binaries.to_owned())
}
