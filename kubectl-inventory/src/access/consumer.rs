//! What others who get into clusters by exec plugins are configured with, so that credential-exec is their
//! plugin: consumers of the Cluster Inventory API, MultiKueue, Argo CD, and whatever takes a kubeconfig. They
//! run on the hub, in a Pod that has its own rights there. Pure.
//!
//! Sources: the access-provider file of the Cluster Inventory API; `config.kueue.x-k8s.io/v1beta2`; the
//! cluster Secrets of Argo CD (`execProviderConfig`).

use credential_exec::error::{Error, Kind, Result};
use credential_exec::request::hub_name;
use serde_json::{Map, Value, json};

use super::kubeconfig::{self, ClusterEntry, ExecEntry, InteractiveMode, exec_value};
use super::{Access, BUILT_IN, Provider, Providers, Way, endpoint, policy, resolve};
use crate::inventory::ClusterProfile;

/// credential-exec as another program's plugin.
#[derive(Clone, Copy, Debug)]
pub struct Plugin<'a> {
    /// Its path there.
    pub command: &'a str,
    /// The managed service account whose token it fetches on OCM's way in.
    pub account: Option<&'a str>,
}

impl Plugin<'_> {
    fn exec(&self, args: Vec<String>) -> ExecEntry {
        ExecEntry {
            command: self.command.to_owned(),
            args,
            interactive_mode: InteractiveMode::Never,
            provide_cluster_info: true,
            ..ExecEntry::default()
        }
    }

    /// The providers that it answers for, each with how it is run by a program that tells it the cluster:
    /// OCM's only where an account is named.
    fn providers(&self) -> Value {
        let exec = |provider: &Provider| match (provider, self.account) {
            (Provider::OpenClusterManagement, None) => None,
            (Provider::OpenClusterManagement, Some(account)) => {
                Some(self.exec(vec![format!("--managed-serviceaccount={account}")]))
            }
            (Provider::SecretReader | Provider::KubeconfigSecretReader, _) => Some(self.exec(Vec::new())),
        };
        let entry = |provider: &Provider| {
            Some(json!({"name": provider.name(), "execConfig": exec_value(&exec(provider)?)}))
        };
        BUILT_IN.iter().filter_map(entry).collect()
    }

    /// The access-provider file (`--clusterprofile-provider-file`).
    pub fn provider_file(&self) -> Value {
        json!({"providers": self.providers()})
    }

    /// The part of Kueue's configuration that lets MultiKueue use ClusterProfiles.
    pub fn multikueue(&self) -> Value {
        json!({
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "featureGates": {"MultiKueueClusterProfile": true},
            "multiKueue": {"clusterProfile": {"credentialsProviders": self.providers()}},
        })
    }
}

/// A cluster as another program gets into it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// Where it is.
    pub cluster: ClusterEntry,
    /// What logs in.
    pub exec: ExecEntry,
    /// What the person should know, a line each.
    pub notes: Vec<String>,
}

/// The way into a profile's cluster for a program that tells its plugin about the cluster if `told`, and else
/// nothing: the arguments must then say it all.
///
/// # Errors
/// Those of [`resolve`]; [`Kind::Usage`] for a way that wants an account, or more than arguments can say.
pub fn reach(
    profile: &ClusterProfile,
    providers: &Providers<'_>,
    wanted: Option<&str>,
    plugin: &Plugin<'_>,
    told: bool,
) -> Result<Reached> {
    let name = &profile.metadata.name;
    let Access { way, cluster: published } = resolve(profile, providers, wanted)?;
    let mut cluster = endpoint::check(name, published, false)?;
    let mut notes = Vec::new();
    let exec = match way {
        Way::File(provider) => {
            let merged = policy::merge(&provider.exec, &provider.policy, published)?;
            notes.extend(merged.taken.iter().map(|what| format!("note: from the profile of {name}: {what}")));
            if !told && merged.exec.provide_cluster_info {
                notes.push(format!(
                    "warning: the plugin of {} wants to be told about the cluster, which this program does not do",
                    provider.name
                ));
            }
            merged.exec
        }
        Way::BuiltIn(provider) => {
            let mut args = Vec::new();
            match (provider, plugin.account) {
                (Provider::OpenClusterManagement, Some(account)) => {
                    args.push(format!("--managed-serviceaccount={account}"));
                }
                (Provider::OpenClusterManagement, None) => {
                    return Err(Error::new(Kind::Usage, format!("{name} is reached by OCM, as nobody yet"))
                        .remedy("name the ManagedServiceAccount with --managed-serviceaccount"));
                }
                (Provider::SecretReader, _) => notes.push(format!(
                    "warning: the token of Secret {} goes to {}, and nothing ties the one to the other but the profile",
                    secret_of(profile, published.plugin_config()),
                    cluster.server
                )),
                (Provider::KubeconfigSecretReader, _) if told => {}
                (Provider::KubeconfigSecretReader, _) => {
                    return Err(Error::new(
                        Kind::Usage,
                        format!("{name} is reached by a kubeconfig in a Secret, which this program cannot say to its plugin"),
                    )
                    .remedy("choose another of its access providers with --provider"));
                }
            }
            if provider != Provider::KubeconfigSecretReader {
                let cluster = cluster_of(profile, published.plugin_config());
                args.push(format!("--cluster={}", hub_name("cluster", cluster)?));
            }
            args.push(format!("--namespace={}", hub_name("namespace", &profile.metadata.namespace)?));
            plugin.exec(args)
        }
    };
    if told {
        cluster.plugin_config = published.plugin_config().filter(|_| exec.provide_cluster_info).cloned();
    }
    Ok(Reached { cluster, exec, notes })
}

/// The name that plugins are told, else OCM's label, else the profile's own.
fn cluster_of<'a>(profile: &'a ClusterProfile, told: Option<&'a Value>) -> &'a str {
    told.and_then(|told| told["clusterName"].as_str()).unwrap_or_else(|| profile.managed_cluster())
}

fn secret_of(profile: &ClusterProfile, told: Option<&Value>) -> String {
    format!("{}/{}", profile.metadata.namespace, cluster_of(profile, told))
}

/// The Secret by which Argo CD knows a cluster. It carries the profile's labels, for ApplicationSets to choose
/// by, and no credential.
pub fn argocd_secret(profile: &ClusterProfile, reached: &Reached, namespace: &str) -> Value {
    let Reached { cluster, exec, .. } = reached;
    let mut tls = Map::new();
    let mut put = |key: &str, value: Value| tls.insert(key.to_owned(), value);
    put("insecure", json!(false));
    if let Some(name) = &cluster.tls_server_name {
        put("serverName", json!(name));
    }
    if let Some(ca) = &cluster.ca_data {
        put("caData", json!(ca));
    }
    let mut login = Map::new();
    let mut put = |key: &str, value: Value| login.insert(key.to_owned(), value);
    put("apiVersion", json!(exec.api_version.as_str()));
    put("command", json!(exec.command));
    put("args", json!(exec.args));
    if !exec.env.is_empty() {
        put("env", exec.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect());
    }
    if let Some(hint) = &exec.install_hint {
        put("installHint", json!(hint));
    }
    let mut config = json!({"execProviderConfig": login, "tlsClientConfig": tls});
    if let Some(proxy) = &cluster.proxy_url {
        config["proxyUrl"] = json!(proxy);
    }
    if cluster.disable_compression {
        config["disableCompression"] = json!(true);
    }
    let labels = profile.metadata.labels.iter().filter(|(name, _)| !name.contains("argoproj.io/"));
    let mut labels: Map<String, Value> = labels.map(|(name, value)| (name.clone(), json!(value))).collect();
    labels.insert("argocd.argoproj.io/secret-type".to_owned(), json!("cluster"));
    labels.insert("app.kubernetes.io/managed-by".to_owned(), json!("kubectl-inventory"));
    let name = &profile.metadata.name;
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": format!("cluster-{name}"), "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "stringData": {"name": name, "server": cluster.server, "config": config.to_string()},
    })
}

/// A kubeconfig for a Pod on the hub, with a context for each cluster, named as its profile.
pub fn kubeconfig(clusters: &[(&ClusterProfile, Reached)]) -> Value {
    let entries: Vec<_> = clusters
        .iter()
        .map(|(profile, reached)| (profile.metadata.name.clone(), &reached.cluster, &reached.exec))
        .collect();
    kubeconfig::file(&entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: Plugin<'_> = Plugin { command: "/plugins/credential-exec", account: Some("ci") };

    fn profile(provider: &str, told: Value) -> ClusterProfile {
        serde_json::from_value(json!({
            "metadata": {"name": "c1", "namespace": "fleet", "labels": {"env": "prod", "x.argoproj.io/a": "b"}},
            "status": {"accessProviders": [{"name": provider, "cluster": {
                "server": "https://c1.example", "tls-server-name": "c1",
                "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": told}]}}]},
        }))
        .unwrap()
    }

    fn built_in() -> Providers<'static> {
        Providers { file: &[], built_in: BUILT_IN }
    }

    #[test]
    fn a_program_that_tells_its_plugin_nothing_gets_arguments_that_say_it_all() {
        let told = json!({"clusterName": "cluster1"});
        let ocm = profile("open-cluster-management", told.clone());
        let reached = reach(&ocm, &built_in(), None, &PLUGIN, false).unwrap();
        assert_eq!(
            reached.exec.args,
            ["--managed-serviceaccount=ci", "--cluster=cluster1", "--namespace=fleet"]
        );
        assert_eq!(reached.cluster.plugin_config, None);
        let secret = argocd_secret(&ocm, &reached, "argocd");
        assert_eq!(secret["metadata"]["labels"]["env"], "prod");
        assert_eq!(secret["metadata"]["labels"]["x.argoproj.io/a"], Value::Null);
        let config: Value = serde_json::from_str(secret["stringData"]["config"].as_str().unwrap()).unwrap();
        assert_eq!(config["tlsClientConfig"], json!({"insecure": false, "serverName": "c1"}));

        let nobody = Plugin { account: None, ..PLUGIN };
        assert_eq!(reach(&ocm, &built_in(), None, &nobody, false).unwrap_err().kind, Kind::Usage);
        let secret = profile("secretreader", told);
        let reached = reach(&secret, &built_in(), None, &nobody, false).unwrap();
        assert_eq!(reached.exec.args, ["--cluster=cluster1", "--namespace=fleet"]);
        assert!(reached.notes[0].contains("Secret fleet/cluster1"), "{reached:?}");
        let kubeconfig = profile("kubeconfig-secretreader", json!({"name": "a", "key": "b"}));
        let error = reach(&kubeconfig, &built_in(), None, &PLUGIN, false).unwrap_err();
        assert!(error.remedy.contains("--provider"), "{error}");
        assert!(
            reach(&kubeconfig, &built_in(), None, &PLUGIN, true).unwrap().cluster.plugin_config.is_some()
        );
    }

    #[test]
    fn a_hostile_profile_adds_no_argument_of_its_own() {
        for name in ["--no-cache", "a b", "a\n--context=x", "\u{1b}[0m", "a\0"] {
            let profile = profile("open-cluster-management", json!({"clusterName": name}));
            let error = reach(&profile, &built_in(), None, &PLUGIN, false).unwrap_err();
            assert!(error.cause.contains("cluster"), "{error}");
        }
    }

    #[test]
    fn multikueue_and_the_provider_file_name_the_same_plugins() {
        let file = PLUGIN.provider_file();
        assert_eq!(
            file["providers"],
            PLUGIN.multikueue()["multiKueue"]["clusterProfile"]["credentialsProviders"]
        );
        let names = |plugin: Plugin<'_>| -> Vec<String> {
            let file = plugin.provider_file();
            file["providers"].as_array().unwrap().iter().map(|p| p["name"].to_string()).collect()
        };
        assert_eq!(names(PLUGIN).len(), 3);
        assert_eq!(names(Plugin { account: None, ..PLUGIN }).len(), 2);
    }
}
