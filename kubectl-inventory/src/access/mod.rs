//! The ways into a cluster: from what a profile publishes to the one that is used. Pure.

pub mod endpoint;
pub mod kubeconfig;
pub mod reach;
pub mod stale;
pub mod trust;

use credential_exec::error::{Error, Kind, Result};

use crate::inventory::ClusterProfile;
use crate::inventory::cluster_profile::ProviderCluster;

/// A kind of access that this build can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Open Cluster Management: a managed service account's token, kept on the hub.
    OpenClusterManagement,
}

/// What is built in, in order of preference.
pub const BUILT_IN: &[Provider] = &[Provider::OpenClusterManagement];

impl Provider {
    /// The name under which profiles publish it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenClusterManagement => "open-cluster-management",
        }
    }
}

/// The way in that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access<'a> {
    /// Its kind.
    pub provider: Provider,
    /// Where the profile says the cluster is.
    pub cluster: &'a ProviderCluster,
}

/// Chooses the way into a cluster: the first of `providers` that the profile publishes.
///
/// # Errors
/// [`Kind::NotFound`], naming what the profile publishes and what could be used.
pub fn resolve<'a>(profile: &'a ClusterProfile, providers: &[Provider]) -> Result<Access<'a>> {
    let published = profile.access_providers().providers;
    let chosen = providers
        .iter()
        .find_map(|&provider| Some((provider, published.iter().find(|p| p.name == provider.name())?)));
    if let Some((provider, published)) = chosen {
        return Ok(Access { provider, cluster: &published.cluster });
    }
    let name = &profile.metadata.name;
    let usable: Vec<_> = providers.iter().map(|p| p.name()).collect();
    if published.is_empty() {
        return Err(Error::new(Kind::NotFound, format!("{name} publishes no access provider")).remedy(
            "on OCM, install cluster-proxy with its ClusterProfile feature gate (docs/hub-setup.md)",
        ));
    }
    let offered: Vec<_> = published.iter().map(|p| p.name.as_str()).collect();
    Err(Error::new(
        Kind::NotFound,
        format!("none of the access providers of {name} can be used: {}", offered.join(", ")),
    )
    .remedy(format!("this version can use {}", usable.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(providers: serde_json::Value) -> ClusterProfile {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "c1"}, "status": {"accessProviders": providers},
        }))
        .unwrap()
    }

    #[test]
    fn the_first_usable_provider_wins_wherever_the_profile_lists_it() {
        let profile = profile(serde_json::json!([
            {"name": "google", "cluster": {"server": "https://a"}},
            {"name": "open-cluster-management", "cluster": {"server": "https://b"}},
        ]));
        assert_eq!(resolve(&profile, BUILT_IN).unwrap().cluster.server, "https://b");
    }

    #[test]
    fn what_is_published_and_what_could_be_used_are_both_named() {
        let error = resolve(&profile(serde_json::json!([{"name": "google"}])), BUILT_IN).unwrap_err();
        assert!(
            error.cause.contains("google") && error.remedy.contains("open-cluster-management"),
            "{error}"
        );
        let error = resolve(&profile(serde_json::json!([])), BUILT_IN).unwrap_err();
        assert!(error.cause.contains("no access provider"), "{error}");
    }
}
