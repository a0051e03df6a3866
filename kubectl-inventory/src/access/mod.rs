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
    use proptest::prelude::*;

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

    /// What a profile becomes for kubectl with plugins of a file, or why not: cluster and user entry.
    fn outcome(profile: &ClusterProfile, file: &[FileProvider]) -> Result<serde_json::Value> {
        let access = resolve(profile, &Providers { file, built_in: &[] }, None)?;
        let Way::File(provider) = access.way else { unreachable!("nothing else is there") };
        let cluster = endpoint::check(&profile.metadata.name, access.cluster, false)?;
        let exec = policy::merge(&provider.exec, &provider.policy, access.cluster)?.exec;
        Ok(kubeconfig::file(&[(profile.metadata.name.clone(), &cluster, &exec)]))
    }

    fn file() -> Vec<FileProvider> {
        let text = r#"{"providers": [
            {"name": "all", "execConfig": {"command": "plug-all", "args": ["login"],
                "env": [{"name": "A", "value": "file"}]},
             "profileSourcedCLIArgsPolicy": "Append", "profileSourcedEnvVarsPolicy": "Replace"},
            {"name": "some", "execConfig": {"command": "plug-some", "env": [{"name": "A", "value": "file"}]},
             "profileSourcedEnvVarsPolicy": "AppendIfNotExists", "allowedProfileEnvVars": ["REGION"]},
            {"name": "none", "execConfig": {"command": "plug-none", "args": ["login"]}}]}"#;
        provider_file::parse(text, std::path::Path::new("/")).unwrap()
    }

    /// Text as a hostile or a careless person might publish it.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z-]{0,8}",
            "\\PC{0,8}",
            "(?s).{0,8}",
            Just("../../x".to_owned()),
            Just("--no-cache".to_owned())
        ]
    }

    fn published() -> impl Strategy<Value = serde_json::Value> {
        let name = prop_oneof![Just("all"), Just("some"), Just("none"), Just("foreign")];
        let variable = prop_oneof![
            Just("A".to_owned()),
            Just("REGION".to_owned()),
            Just("PATH".to_owned()),
            Just("LD_PRELOAD".to_owned()),
            Just("KUBECONFIG".to_owned()),
            text()
        ];
        let server = prop_oneof![3 => Just("https://a.example/c".to_owned()), 1 => text()];
        let args = prop::collection::vec(text(), 0..3);
        let envs = prop::collection::btree_map(variable, text(), 0..3);
        (name, server, args, envs).prop_map(|(name, server, args, envs)| {
            serde_json::json!({"name": name, "cluster": {"server": server, "extensions": [
                {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": args},
                {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs", "extension": envs},
                {"name": "command", "extension": "evil"}]}})
        })
    }

    fn fleet() -> impl Strategy<Value = Vec<ClusterProfile>> {
        let one = prop::collection::vec(published(), 0..3);
        prop::collection::vec(one, 1..5).prop_map(|fleet| {
            let named = fleet.into_iter().enumerate().map(|(number, providers)| {
                let mut profile = profile(serde_json::Value::Array(providers));
                profile.metadata.name = format!("c{number}");
                profile
            });
            named.collect()
        })
    }

    proptest! {
        #[test]
        fn what_one_profile_becomes_is_the_same_whatever_came_before_it(
            (fleet, order) in fleet().prop_flat_map(|fleet| {
                let order: Vec<usize> = (0..fleet.len()).collect();
                (Just(fleet), Just(order).prop_shuffle())
            }),
        ) {
            let shared = file();
            for number in order {
                let alone = outcome(&fleet[number], &file());
                prop_assert_eq!(outcome(&fleet[number], &shared), alone);
            }
        }

        #[test]
        fn a_hostile_profile_changes_no_command_and_adds_only_what_the_file_lets_it(fleet in fleet()) {
            for profile in fleet {
                let Ok(written) = outcome(&profile, &file()) else { continue };
                let exec = &written["users"][0]["user"]["exec"];
                let envs: std::collections::BTreeMap<&str, &str> = exec["env"].as_array().into_iter().flatten()
                    .map(|pair| (pair["name"].as_str().unwrap(), pair["value"].as_str().unwrap())).collect();
                for name in ["PATH", "LD_PRELOAD", "KUBECONFIG"] {
                    prop_assert!(!envs.contains_key(name), "{written}");
                }
                match exec["command"].as_str().unwrap() {
                    "plug-all" => prop_assert_eq!(&exec["args"][0], "login"),
                    "plug-some" => {
                        prop_assert_eq!(&exec["args"], &serde_json::Value::Null);
                        prop_assert_eq!(envs.get("A"), Some(&"file"));
                        prop_assert!(envs.keys().all(|name| ["A", "REGION"].contains(name)), "{}", written);
                    }
                    "plug-none" => {
                        prop_assert_eq!(&exec["args"], &serde_json::json!(["login"]));
                        prop_assert!(envs.is_empty());
                    }
                    other => prop_assert!(false, "{} is of nobody's file", other),
                }
                let server = written["clusters"][0]["cluster"]["server"].as_str().unwrap();
                prop_assert!(server.starts_with("https://"), "{}", server);
            }
        }
    }
}
