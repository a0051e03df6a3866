//! Builds the two binaries where this one was built, in the same profile.

use std::io;
use std::path::PathBuf;

use tokio::process::Command;

use crate::say;

/// The directory that holds `kubectl-inventory` and `credential-exec`, freshly built.
pub(crate) async fn binaries() -> io::Result<PathBuf> {
    say("building kubectl-inventory and credential-exec\n")?;
    let (cargo, folder) = fleet::machine::cargo_build()?;
    let status = Command::from(cargo).kill_on_drop(true).status().await?;
    if !status.success() {
        return Err(io::Error::other("the build failed; its messages are above"));
    }
    Ok(folder)
}
