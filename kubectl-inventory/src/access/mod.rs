//! The ways into a cluster: from what a profile publishes to the one that is used. Pure.

pub mod consumer;
pub mod endpoint;
pub mod gateway;
pub mod kubeconfig;
pub mod policy;
pub mod provider_file;
pub mod reach;
pub mod stale;
pub mod trust;

use credential_exec::error::{Error, Kind, Result};

use crate::access::provider_file::FileProvider;
use crate::inventory::ClusterProfile;
use crate::inventory::cluster_profile::ProviderCluster;

/// A kind of access that this build can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Open Cluster Management: a managed service account's token, kept on the hub.
    OpenClusterManagement,
    /// The Cluster Inventory API's `secretreader`: a token in a Secret of the cluster's name.
    SecretReader,
    /// The Cluster Inventory API's `kubeconfig-secretreader`: a kubeconfig in a Secret.
    KubeconfigSecretReader,
}

/// What is built in, in order of preference.
pub const BUILT_IN: &[Provider] =
    &[Provider::OpenClusterManagement, Provider::SecretReader, Provider::KubeconfigSecretReader];

impl Provider {
    /// The name under which profiles publish it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenClusterManagement => "open-cluster-management",
            Self::SecretReader => "secretreader",
            Self::KubeconfigSecretReader => "kubeconfig-secretreader",
        }
    }
}

/// Who answers for an access provider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way<'a> {
    /// We do.
    BuiltIn(Provider),
    /// A plugin of the person's provider file.
    File(&'a FileProvider),
}

impl Way<'_> {
    /// The provider's name.
    pub fn name(&self) -> &str {
        match self {
            Self::BuiltIn(provider) => provider.name(),
            Self::File(provider) => &provider.name,
        }
    }
}

/// What this machine can use, in order of preference.
#[derive(Clone, Copy, Debug)]
pub struct Providers<'a> {
    /// Those of the provider file, in its order.
    pub file: &'a [FileProvider],
    /// What is built in.
    pub built_in: &'a [Provider],
}

impl<'a> Providers<'a> {
    /// All of them, in order.
    pub fn ways(&self) -> impl Iterator<Item = Way<'a>> {
        let file = self.file.iter().map(Way::File);
        file.chain(self.built_in.iter().map(|provider| Way::BuiltIn(*provider)))
    }
}

/// The way in that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access<'a> {
    /// Who answers for it.
    pub way: Way<'a>,
    /// Where the profile says the cluster is.
    pub cluster: &'a ProviderCluster,
}

/// Chooses the way into a cluster: the first of `providers` that the profile publishes, among those named
/// `wanted` where one is.
///
/// # Errors
/// [`Kind::NotFound`], naming what the profile publishes and what could be used.
pub fn resolve<'a>(
    profile: &'a ClusterProfile,
    providers: &Providers<'a>,
    wanted: Option<&str>,
) -> Result<Access<'a>> {
    let published = profile.access_providers().providers;
    let chosen = providers
        .ways()
        .filter(|way| wanted.is_none_or(|wanted| way.name() == wanted))
        .find_map(|way| Some((way, published.iter().find(|published| published.name == way.name())?)));
    if let Some((way, published)) = chosen {
        return Ok(Access { way, cluster: &published.cluster });
    }
    let name = &profile.metadata.name;
    if published.is_empty() {
        return Err(Error::new(Kind::NotFound, format!("{name} publishes no access provider")).remedy(
            "on OCM, install cluster-proxy with its ClusterProfile feature gate (docs/hub-setup.md)",
        ));
    }
    let offered = published.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(wanted) = wanted.filter(|wanted| !published.iter().any(|p| p.name == *wanted)) {
        return Err(Error::new(Kind::NotFound, format!("{name} publishes no access provider {wanted:?}"))
            .remedy(format!("it publishes {offered}")));
    }
    let mut usable: Vec<_> = providers.ways().map(|way| way.name().to_owned()).collect();
    usable.dedup();
    let cause = match wanted {
        Some(wanted) => format!("nothing on this machine answers for access provider {wanted:?}"),
        None => format!("none of the access providers of {name} can be used: {offered}"),
    };
    Err(Error::new(Kind::NotFound, cause).remedy(format!(
        "name a plugin for it in a provider file (docs/providers.md); usable now: {}",
        usable.join(", ")
    )))
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
        let providers = Providers { file: &[], built_in: BUILT_IN };
        assert_eq!(resolve(&profile, &providers, None).unwrap().cluster.server, "https://b");
    }

    #[test]
    fn the_files_order_goes_before_what_is_built_in_unless_one_is_wanted() {
        let profile = profile(serde_json::json!([
            {"name": "open-cluster-management", "cluster": {"server": "https://ocm"}},
            {"name": "b", "cluster": {"server": "https://b"}},
            {"name": "a", "cluster": {"server": "https://a"}},
        ]));
        let text = r#"{"providers": [{"name": "other", "execConfig": {"command": "x"}},
            {"name": "a", "execConfig": {"command": "x"}}, {"name": "b", "execConfig": {"command": "x"}}]}"#;
        let file = provider_file::parse(text, std::path::Path::new("/")).unwrap();
        let providers = Providers { file: &file, built_in: BUILT_IN };
        let server =
            |wanted| resolve(&profile, &providers, wanted).map(|access| access.cluster.server.as_str());
        assert_eq!(server(None).unwrap(), "https://a");
        assert_eq!(server(Some("b")).unwrap(), "https://b");
        assert_eq!(server(Some("open-cluster-management")).unwrap(), "https://ocm");
        let error = server(Some("other")).unwrap_err();
        assert!(error.cause.contains("other") && error.remedy.contains("a"), "{error}");
        let empty = Providers { file: &[], built_in: BUILT_IN };
        let error = resolve(&profile, &empty, Some("a")).unwrap_err();
        assert!(error.remedy.contains("provider file"), "{error}");
    }

    #[test]
    fn what_is_published_and_what_could_be_used_are_both_named() {
        let providers = Providers { file: &[], built_in: BUILT_IN };
        let error = resolve(&profile(serde_json::json!([{"name": "google"}])), &providers, None).unwrap_err();
        assert!(
            error.cause.contains("google") && error.remedy.contains("open-cluster-management"),
            "{error}"
        );
        let error = resolve(&profile(serde_json::json!([])), &providers, None).unwrap_err();
        assert!(error.cause.contains("no access provider"), "{error}");
    }
}
