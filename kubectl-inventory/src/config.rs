//! The person's config file: `$KUBECTL_INVENTORY_CONFIG`, else `config.yaml` in the system's
//! config directory (`~/.config/kubectl-inventory` on Linux). It is optional.
//!
//! ```yaml
//! hub: my-hub                 # context of the hub
//! namespace: cluster-inventory
//! trustedHosts: [proxy.example.com]
//! cache:
//!   maxAge: 30m
//! ```

use std::path::PathBuf;
use std::time::Duration;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};
use credential_exec::request::DEFAULT_MAX_AGE;
use serde::Deserialize;

/// What the config file may say.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Context of the hub.
    pub hub: Option<String>,
    /// Namespace of the ClusterProfiles.
    pub namespace: Option<String>,
    /// Hosts that may be given a cluster's token though they are not OCM's user-server.
    pub trusted_hosts: Vec<String>,
    /// About the token cache.
    pub cache: CacheConfig,
}

/// About the token cache.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CacheConfig {
    /// How long a token is used before the hub is asked again, such as `30m`.
    pub max_age: Option<jiff::SignedDuration>,
}

impl Config {
    /// Reads the config file, if there is one.
    ///
    /// # Errors
    /// [`Kind::Usage`], naming the file and what in it cannot be acted on.
    pub fn load(env: &Env) -> Result<Self> {
        let Some(path) = path(env) else { return Ok(Self::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).map_err(|e| e.context(path.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(Error::new(Kind::Usage, format!("{} cannot be read: {e}", path.display()))),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text).map_err(|e| {
            let line = e.to_string().lines().next().unwrap_or_default().to_owned();
            Error::new(Kind::Usage, line)
                .remedy("known keys are hub, namespace, trustedHosts and cache.maxAge")
        })
    }

    /// How long a token is used before the hub is asked again.
    pub fn max_age(&self) -> Duration {
        self.cache.max_age.and_then(|age| Duration::try_from(age).ok()).unwrap_or(DEFAULT_MAX_AGE)
    }
}

fn path(env: &Env) -> Option<PathBuf> {
    env.path("KUBECTL_INVENTORY_CONFIG").or_else(|| {
        let dirs = directories::ProjectDirs::from("", "", "kubectl-inventory")?;
        Some(dirs.config_dir().join("config.yaml"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_this_file_is_understood() {
        let config = Config::parse(
            "hub: my-hub\nnamespace: cluster-inventory\ntrustedHosts: [proxy.example.com]\ncache:\n  maxAge: 30m\n",
        )
        .unwrap();
        assert_eq!(config.hub.as_deref(), Some("my-hub"));
        assert_eq!(config.max_age(), Duration::from_secs(1800));
        assert_eq!(config.trusted_hosts, ["proxy.example.com"]);
    }

    #[test]
    fn a_misspelt_key_is_named_and_an_empty_file_is_fine() {
        assert!(Config::parse("hubb: x").unwrap_err().cause.contains("hubb"));
        assert_eq!(Config::parse("\n").unwrap(), Config::default());
    }
}
