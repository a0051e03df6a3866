//! The person's config file: `$KUBECTL_INVENTORY_CONFIG`, else `config.yaml` in the system's
//! config directory (`~/.config/kubectl-inventory` on Linux). It is optional.
//!
//! ```yaml
//! hub: my-hub                 # context of the hub
//! namespace: cluster-inventory
//! trustedHosts: [proxy.example.com]
//! cache:
//!   maxAge: 30m
//! tunnel:
//!   idle: 15m                 # a tunnel that nobody uses ends after this
//! providerFile: providers.json # plugins for access providers; beside this file
//! reach:                      # where a published address is reached; its TLS name is kept
//! - from: https://cluster-proxy-addon-user.open-cluster-management-addon:9092
//!   to: https://proxy.example.com
//! protect: [env=prod, "clusterset in (payments, core)"] # foreach asks before it changes such a cluster
//! clusterProxy:
//!   certificateAuthority: user-server.crt # of OCM's user-server, for a hub without ClusterProfiles
//! ```

use std::path::PathBuf;
use std::time::Duration;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};
use credential_exec::request::{DEFAULT_IDLE, DEFAULT_MAX_AGE};
use serde::Deserialize;

use crate::access::reach::Rule;
use crate::inventory::Cluster;
use crate::selector::Selector;

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
    /// About tunnels.
    pub tunnel: TunnelConfig,
    /// By which address a published one is reached; the first that fits.
    pub reach: Vec<Rule>,
    /// The file of access providers; a relative path starts at the config file.
    pub provider_file: Option<PathBuf>,
    /// Clusters that nothing is changed on without asking: those that one of these selects.
    #[serde(deserialize_with = "one_or_many")]
    pub protect: Vec<Selector>,
    /// About OCM's cluster-proxy.
    pub cluster_proxy: ClusterProxyConfig,
}

/// About OCM's cluster-proxy, where no ClusterProfile publishes it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterProxyConfig {
    /// The file of its user-server's CA, PEM; a relative path starts at the config file.
    pub certificate_authority: Option<PathBuf>,
}

/// About tunnels.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TunnelConfig {
    /// How long a tunnel lives without being used, such as `15m`.
    pub idle: Option<jiff::SignedDuration>,
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
            Ok(text) => {
                let mut config = Self::parse(&text).map_err(|e| e.context(path.display()))?;
                let folder = path.parent().unwrap_or(&path);
                let authority = &mut config.cluster_proxy.certificate_authority;
                for file in [&mut config.provider_file, authority].into_iter().flatten() {
                    *file = folder.join(&*file);
                }
                Ok(config)
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(Error::new(Kind::Usage, format!("{} cannot be read: {e}", path.display()))),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let config: Self = serde_saphyr::from_str(text).map_err(|e| {
            let line = e.to_string().lines().next().unwrap_or_default().to_owned();
            Error::new(Kind::Usage, line)
                .remedy("known keys are hub, namespace, trustedHosts, cache.maxAge, tunnel.idle, reach, providerFile, protect and clusterProxy")
        })?;
        config.reach.iter().try_for_each(Rule::check)?;
        Ok(config)
    }

    /// The rule that protects a cluster.
    pub fn protection(&self, cluster: &Cluster) -> Option<&Selector> {
        self.protect.iter().find(|selector| selector.matches(cluster))
    }

    /// How long a tunnel lives without being used; at least a second.
    pub fn tunnel_idle(&self) -> Duration {
        let idle = self.tunnel.idle.and_then(|idle| Duration::try_from(idle).ok());
        idle.map_or(DEFAULT_IDLE, |idle| idle.max(Duration::from_secs(1)))
    }

    /// How long a token is used before the hub is asked again.
    pub fn max_age(&self) -> Duration {
        self.cache.max_age.and_then(|age| Duration::try_from(age).ok()).unwrap_or(DEFAULT_MAX_AGE)
    }
}

/// A selector, or a list of them.
fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Vec<Selector>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    let texts = match OneOrMany::deserialize(from)? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    };
    let parsed = texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom));
    parsed.collect()
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
            "hub: my-hub\nnamespace: cluster-inventory\ntrustedHosts: [proxy.example.com]\ncache:\n  maxAge: 30m\n\
             tunnel:\n  idle: 15m\nreach:\n- from: https://a:9092\n  to: https://b\n",
        )
        .unwrap();
        assert_eq!(config.tunnel_idle(), Duration::from_secs(900));
        assert_eq!(config.reach, [Rule { from: "https://a:9092".into(), to: "https://b".into() }]);
        assert_eq!(config.hub.as_deref(), Some("my-hub"));
        assert_eq!(config.max_age(), Duration::from_secs(1800));
        assert_eq!(config.trusted_hosts, ["proxy.example.com"]);
    }

    #[test]
    fn a_misspelt_key_is_named_and_an_empty_file_is_fine() {
        assert!(Config::parse("hubb: x").unwrap_err().cause.contains("hubb"));
        let error = Config::parse("reach: [{from: a, to: https://b}]").unwrap_err();
        assert!(error.cause.contains("\"a\""), "{error}");
        assert_eq!(Config::parse("\n").unwrap(), Config::default());
    }
}
