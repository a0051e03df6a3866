//! `version`: both binaries, and where they are.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};

/// The companion's file name.
const COMPANION: &str = if cfg!(windows) { "credential-exec.exe" } else { "credential-exec" };

/// Prints both versions and paths.
///
/// # Errors
/// That of a missing companion, after our own version was printed.
pub fn run(env: &Env, out: &mut dyn Write) -> Result<()> {
    let this = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    let _ = writeln!(out, "kubectl-inventory {} {this}", env!("CARGO_PKG_VERSION"));
    let companion = companion(env)?;
    let version = Command::new(&companion).arg("--version").output();
    let version = version.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default();
    let _ = writeln!(out, "{version} {}", companion.display());
    Ok(())
}

/// The credential-exec that contexts are made with: the one beside this binary, else the one on PATH.
///
/// # Errors
/// [`Kind::NotFound`], naming both places.
pub fn companion(env: &Env) -> Result<PathBuf> {
    let this = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let beside = this.as_deref().and_then(Path::parent).map(|folder| folder.join(COMPANION));
    if let Some(found) = beside.as_ref().filter(|path| path.is_file()) {
        return Ok(found.clone());
    }
    let path = env.os("PATH").unwrap_or_default();
    let mut on_path =
        std::env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|f| f.join(COMPANION));
    on_path.find(|path| path.is_file()).ok_or_else(|| {
        let beside = beside.map(|path| path.display().to_string()).unwrap_or_default();
        Error::new(Kind::NotFound, format!("credential-exec is neither at {beside} nor on PATH"))
            .remedy("install it beside kubectl-inventory, or name it with --exec-command PATH")
    })
}
