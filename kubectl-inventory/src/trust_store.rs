//! What the person agreed to about servers, kept in `trusted-servers.json` of the data directory.

use std::io::Write;
use std::path::PathBuf;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};

use crate::access::trust::Remembered;
use crate::hub::data_dir;

const FILE: &str = "trusted-servers.json";

/// Everything agreed to so far; an unreadable file counts as nothing.
///
/// # Errors
/// Those of the data directory.
pub fn load(env: &Env) -> Result<Vec<Remembered>> {
    let path = path(env)?;
    Ok(std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default())
}

/// Remembers one agreement.
///
/// # Errors
/// [`Kind::Failed`], naming the file.
pub fn remember(env: &Env, agreed: &Remembered) -> Result<()> {
    let mut all = load(env)?;
    if all.contains(agreed) {
        return Ok(());
    }
    all.push(agreed.clone());
    let path = path(env)?;
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(&path))?;
        serde_json::to_writer_pretty(&mut file, &all)?;
        file.write_all(b"\n")?;
        file.persist(&path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|e| Error::new(Kind::Failed, format!("{} cannot be written: {e}", path.display())))
}

fn path(env: &Env) -> Result<PathBuf> {
    Ok(data_dir(env)?.join(FILE))
}
