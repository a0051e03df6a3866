//! The person's file of access providers: `--clusterprofile-provider-file`,
//! `$KUBECTL_INVENTORY_PROVIDER_FILE`, else the config file's `providerFile`. It is optional.

use std::path::{Path, PathBuf};

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};

use crate::access::provider_file::{self, FileProvider};
use crate::config::Config;

/// Reads it; none of them named means no providers but those built in.
///
/// # Errors
/// [`Kind::Usage`], naming the file and what is wrong with it.
pub fn load(flag: Option<&Path>, config: &Config, env: &Env) -> Result<Vec<FileProvider>> {
    let Some(path) = path(flag, config, env) else { return Ok(Vec::new()) };
    let failed = |error: std::io::Error| {
        Error::new(Kind::Usage, format!("the provider file {} cannot be read: {error}", path.display())).remedy(
            "name another with --clusterprofile-provider-file, or correct KUBECTL_INVENTORY_PROVIDER_FILE or `providerFile` in the config file",
        )
    };
    let absolute = std::path::absolute(&path).map_err(failed)?;
    let text = std::fs::read_to_string(&absolute).map_err(failed)?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    provider_file::parse(&text, folder)
        .map_err(|error| error.context(format_args!("provider file {}", absolute.display())))
}

fn path(flag: Option<&Path>, config: &Config, env: &Env) -> Option<PathBuf> {
    flag.map(Path::to_owned)
        .or_else(|| env.path("KUBECTL_INVENTORY_PROVIDER_FILE"))
        .or_else(|| config.provider_file.clone())
}
