//! `cache clear [NAME]`: the tokens kept on this machine go.

use std::io::Write;

use credential_exec::cache::Cache;
use credential_exec::env::Env;
use credential_exec::error::Result;

/// Removes what is kept for one cluster, or for all, and says how much it was.
///
/// # Errors
/// A file that cannot be removed is named.
pub fn clear(name: Option<&str>, env: &Env, out: &mut dyn Write) -> Result<()> {
    let removed = Cache::of(env).clear(name)?;
    let tokens = if removed == 1 { "token" } else { "tokens" };
    let _ = writeln!(out, "removed {removed} {tokens}");
    Ok(())
}
