//! ClusterProfile of `multicluster.x-k8s.io/v1alpha1` (the Cluster Inventory API,
//! sigs.k8s.io/cluster-inventory-api) as it comes over the wire:
//!
//! ```json
//! {"metadata": {"name": "cluster1", "namespace": "cluster-inventory", "labels": {…}},
//!  "spec": {"displayName": "…", "clusterManager": {"name": "open-cluster-management"}},
//!  "status": {"version": {"kubernetes": "v1.34.1"},
//!             "conditions": [{"type": "ControlPlaneHealthy", "status": "True"}],
//!             "properties": [{"name": "clusterset.k8s.io", "value": "prod"}],
//!             "accessProviders": [{"name": "open-cluster-management", "cluster": {"server": "https://…"}}]}}
//! ```
//!
//! Unknown fields are skipped and a `null` is an absent field. [`Summary`] is the same object
//! without the content of its providers, which is most of an object's weight.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Cluster, Verdict};

/// Condition: the control plane answers.
pub const HEALTHY: &str = "ControlPlaneHealthy";
/// Condition: the cluster has joined its manager.
pub const JOINED: &str = "Joined";
/// Label: the set that the cluster belongs to.
pub const CLUSTERSET_LABEL: &str = "multicluster.x-k8s.io/clusterset";
/// Property: the set that the cluster belongs to.
pub const CLUSTERSET_PROPERTY: &str = "clusterset.k8s.io";
/// Property: the cluster's id within its set.
pub const CLUSTER_ID: &str = "cluster.clusterset.k8s.io";
/// Label: the cluster's manager.
pub const MANAGER_LABEL: &str = "x-k8s.io/cluster-manager";
/// Label: the ManagedCluster behind a profile that OCM made.
pub const MANAGED_CLUSTER_LABEL: &str = "open-cluster-management.io/cluster-name";

/// The extension of a cluster that client-go hands to a plugin as `spec.cluster.config`.
pub const PLUGIN_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// A ClusterProfile with only the names of its providers: all that a row needs.
pub type Summary = ClusterProfile<IgnoredAny>;

/// A ClusterProfile. `C` is what is kept of each provider's `cluster`.
pub type ClusterProfile<C = ProviderCluster> = Object<Spec, Status<C>>;

/// An object of an inventory: a name, what it is to be, and what it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(bound(deserialize = "S: Default + Deserialize<'de>, T: Default + Deserialize<'de>"))]
pub struct Object<S, T> {
    /// Name, namespace, labels.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// What it is to be.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: S,
    /// What is observed of it.
    #[serde(default, deserialize_with = "or_default")]
    pub status: T,
}

/// The part of an object's metadata that we use.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The object's name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// The object's namespace.
    #[serde(default, deserialize_with = "or_default")]
    pub namespace: String,
    /// The object's UID.
    #[serde(default, deserialize_with = "or_default")]
    pub uid: String,
    /// When it was created, RFC 3339.
    #[serde(default)]
    pub creation_timestamp: Option<String>,
    /// Its labels.
    #[serde(default, deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
}

impl Metadata {
    /// A row that says no more than the object's metadata.
    pub fn cluster(&self) -> Cluster {
        Cluster {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
            created: self.creation_timestamp.as_deref().and_then(|text| text.parse().ok()),
            labels: self.labels.clone(),
            ..Cluster::default()
        }
    }
}

/// What the manager declares.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// What people call the cluster.
    #[serde(default)]
    pub display_name: Option<String>,
    /// Who owns this profile.
    #[serde(default, deserialize_with = "or_default")]
    pub cluster_manager: ClusterManager,
}

/// Who owns a profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ClusterManager {
    /// The manager's name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
}

/// What the manager observes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[serde(bound(deserialize = "C: Default + Deserialize<'de>"))]
pub struct Status<C = ProviderCluster> {
    /// Versions of the cluster's parts.
    #[serde(default, deserialize_with = "or_default")]
    pub version: Version,
    /// Facts about the cluster.
    #[serde(default, deserialize_with = "or_default")]
    pub properties: Vec<Property>,
    /// Conditions of the cluster.
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// The ways in.
    #[serde(default, deserialize_with = "or_default")]
    pub access_providers: Vec<AccessProvider<C>>,
    /// The ways in, under the name that the API had for them first.
    #[serde(default, deserialize_with = "or_default")]
    pub credential_providers: Vec<AccessProvider<C>>,
}

impl<C> Default for Status<C> {
    fn default() -> Self {
        Self {
            version: Version::default(),
            properties: Vec::new(),
            conditions: Vec::new(),
            access_providers: Vec::new(),
            credential_providers: Vec::new(),
        }
    }
}

/// Versions of a cluster's parts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Version {
    /// The Kubernetes version.
    #[serde(default)]
    pub kubernetes: Option<String>,
}

/// A fact about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Property {
    /// The fact's name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Its value.
    #[serde(default, deserialize_with = "or_default")]
    pub value: String,
}

/// A condition of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Condition {
    /// The condition's name.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// Why, in one word.
    #[serde(default, deserialize_with = "or_default")]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default, deserialize_with = "or_default")]
    pub message: String,
}

/// The verdict of a condition, where there is one.
pub(super) fn verdict(conditions: &[Condition], kind: &str) -> Option<Verdict> {
    conditions.iter().find(|known| known.kind == kind).map(|known| Verdict::from(known.status.as_str()))
}

/// One way into a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(bound(deserialize = "C: Default + Deserialize<'de>"))]
pub struct AccessProvider<C = ProviderCluster> {
    /// The provider's name, which the local provider file knows too.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Where the cluster is.
    #[serde(default, deserialize_with = "or_default")]
    pub cluster: C,
}

/// Where a cluster is: a kubeconfig's `cluster`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProviderCluster {
    /// The API server's URL.
    #[serde(default, deserialize_with = "or_default")]
    pub server: String,
    /// The name that the server's certificate must bear, where it is not the URL's host.
    #[serde(default)]
    pub tls_server_name: Option<String>,
    /// Whether to trust any certificate.
    #[serde(default, deserialize_with = "or_default")]
    pub insecure_skip_tls_verify: bool,
    /// A CA file, on a machine that is not ours.
    #[serde(default)]
    pub certificate_authority: Option<String>,
    /// The CA: base64 of PEM.
    #[serde(default)]
    pub certificate_authority_data: Option<String>,
    /// The proxy to reach it through.
    #[serde(default)]
    pub proxy_url: Option<String>,
    /// Whether to ask for uncompressed answers.
    #[serde(default, deserialize_with = "or_default")]
    pub disable_compression: bool,
    /// What plugins are told about the cluster.
    #[serde(default, deserialize_with = "or_default")]
    pub extensions: Vec<Extension>,
}

impl ProviderCluster {
    /// What a plugin receives as `spec.cluster.config`, where something is published for it.
    pub fn plugin_config(&self) -> Option<&Value> {
        let found = self.extensions.iter().find(|extension| extension.name == PLUGIN_EXTENSION)?;
        Some(&found.extension).filter(|config| !config.is_null())
    }
}

/// Something that a plugin is told about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Extension {
    /// Whose it is.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Whatever that plugin understands.
    #[serde(default)]
    pub extension: Value,
}

/// A profile's ways in, both spellings merged.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessProviders<'a, C = ProviderCluster> {
    /// Each provider once, in published order, `accessProviders` first.
    pub providers: Vec<&'a AccessProvider<C>>,
    /// Whether one of them is published only as one of the deprecated `credentialProviders`.
    pub deprecated: bool,
}

impl<C> ClusterProfile<C> {
    /// The ways in: `accessProviders`, and those `credentialProviders` whose name is not among them.
    pub fn access_providers(&self) -> AccessProviders<'_, C> {
        let mut merged = AccessProviders { providers: Vec::new(), deprecated: false };
        let published = self.status.access_providers.iter().map(|p| (p, false));
        for (provider, deprecated) in
            published.chain(self.status.credential_providers.iter().map(|p| (p, true)))
        {
            if !merged.providers.iter().any(|known| known.name == provider.name) {
                merged.providers.push(provider);
                merged.deprecated |= deprecated;
            }
        }
        merged
    }

    /// The name of the ManagedCluster behind this profile.
    pub fn managed_cluster(&self) -> &str {
        self.label(MANAGED_CLUSTER_LABEL).unwrap_or(&self.metadata.name)
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn property(&self, name: &str) -> Option<&str> {
        self.status
            .properties
            .iter()
            .find(|p| p.name == name)
            .map(|p| p.value.as_str())
            .filter(|value| !value.is_empty())
    }
}

impl<C> From<&ClusterProfile<C>> for Cluster {
    fn from(profile: &ClusterProfile<C>) -> Self {
        let merged = profile.access_providers();
        let clusterset = profile.label(CLUSTERSET_LABEL).or_else(|| profile.property(CLUSTERSET_PROPERTY));
        let manager = Some(profile.spec.cluster_manager.name.as_str())
            .filter(|name| !name.is_empty())
            .or_else(|| profile.label(MANAGER_LABEL));
        Self {
            display_name: profile.spec.display_name.clone().filter(|name| !name.is_empty()),
            manager: manager.map(str::to_owned),
            clusterset: clusterset.map(str::to_owned),
            version: profile.status.version.kubernetes.clone().filter(|version| !version.is_empty()),
            healthy: verdict(&profile.status.conditions, HEALTHY),
            joined: verdict(&profile.status.conditions, JOINED),
            providers: merged.providers.iter().map(|provider| provider.name.clone()).collect(),
            deprecated_providers: merged.deprecated,
            properties: profile.status.properties.iter().map(|p| (p.name.clone(), p.value.clone())).collect(),
            ..profile.metadata.cluster()
        }
    }
}

/// The field's default where the hub sent `null`.
pub(super) fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> ClusterProfile {
        serde_json::from_str(json).expect("a ClusterProfile")
    }

    const OCM: &str = r#"{
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {"name": "cluster1", "namespace": "cluster-inventory", "uid": "u-1",
            "creationTimestamp": "2026-01-02T03:04:05Z", "managedFields": [{"fieldsV1": {"f:spec": {}}}],
            "labels": {"multicluster.x-k8s.io/clusterset": "prod",
                       "open-cluster-management.io/cluster-name": "managed1"}},
        "spec": {"displayName": "Berlin", "clusterManager": {"name": "open-cluster-management"}},
        "status": {"version": {"kubernetes": "v1.34.1"},
            "conditions": [{"type": "ControlPlaneHealthy", "status": "True"}, {"type": "Joined", "status": "False"}],
            "properties": [{"name": "clusterset.k8s.io", "value": "other"}, {"name": "region", "value": "eu"}],
            "accessProviders": [{"name": "open-cluster-management", "cluster": {
                "server": "https://user.svc:9092/cluster1", "tls-server-name": "user.svc",
                "certificate-authority-data": "Q0E=", "proxy-url": "http://proxy:3128", "disable-compression": true,
                "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": "cluster1"}}]}}],
            "newField": {"deep": [1, 2]}}}"#;

    #[test]
    fn a_profile_as_ocm_writes_it_becomes_a_row() {
        let cluster = Cluster::from(&parse(OCM));
        assert_eq!(cluster.name, "cluster1");
        assert_eq!(cluster.namespace, "cluster-inventory");
        assert_eq!(cluster.display_name.as_deref(), Some("Berlin"));
        assert_eq!(cluster.manager.as_deref(), Some("open-cluster-management"));
        assert_eq!(cluster.clusterset.as_deref(), Some("prod"), "the label goes before the property");
        assert_eq!(cluster.version.as_deref(), Some("v1.34.1"));
        assert_eq!((cluster.healthy, cluster.joined), (Some(Verdict::Yes), Some(Verdict::No)));
        assert_eq!(cluster.created.map(|t| t.to_string()).as_deref(), Some("2026-01-02T03:04:05Z"));
        assert_eq!(cluster.providers, ["open-cluster-management"]);
        assert!(!cluster.deprecated_providers);
        assert_eq!(cluster.properties.len(), 2);
    }

    #[test]
    fn a_summary_gives_the_same_row_as_the_whole_object() {
        let summary: Summary = serde_json::from_str(OCM).expect("a summary");
        assert_eq!(Cluster::from(&summary), Cluster::from(&parse(OCM)));
    }

    #[test]
    fn every_field_of_a_providers_cluster_is_kept() {
        let profile = parse(OCM);
        let cluster = &profile.access_providers().providers[0].cluster;
        assert_eq!(cluster.server, "https://user.svc:9092/cluster1");
        assert_eq!(cluster.tls_server_name.as_deref(), Some("user.svc"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Q0E="));
        assert_eq!(cluster.proxy_url.as_deref(), Some("http://proxy:3128"));
        assert!(cluster.disable_compression && !cluster.insecure_skip_tls_verify);
        assert_eq!(cluster.extensions[0].extension, serde_json::json!({"clusterName": "cluster1"}));
    }

    #[test]
    fn null_and_absent_mean_the_same_everywhere() {
        let nulls = r#"{"metadata": {"name": "a", "namespace": null, "uid": null, "creationTimestamp": null, "labels": null},
            "spec": {"displayName": null, "clusterManager": null},
            "status": {"version": null, "properties": null, "conditions": null, "accessProviders": null,
                       "credentialProviders": [{"name": "p", "cluster": null}]}}"#;
        assert_eq!(Cluster::from(&parse(nulls)).providers, ["p"]);
        for empty in
            [r#"{"metadata": {"name": "a"}}"#, r#"{"metadata": {"name": "a"}, "spec": null, "status": null}"#]
        {
            assert_eq!(Cluster::from(&parse(empty)), Cluster { name: "a".into(), ..Cluster::default() });
            let summary: Summary = serde_json::from_str(empty).expect("a summary");
            assert_eq!(Cluster::from(&summary).name, "a");
        }
    }

    #[test]
    fn both_spellings_of_the_providers_are_merged_by_name_and_the_new_one_wins() {
        let profile = parse(
            r#"{"status": {"accessProviders": [{"name": "a", "cluster": {"server": "https://new"}}, {"name": "a"}],
                "credentialProviders": [{"name": "a", "cluster": {"server": "https://old"}}, {"name": "b"}]}}"#,
        );
        let merged = profile.access_providers();
        assert_eq!(merged.providers.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(merged.providers[0].cluster.server, "https://new");
        assert!(merged.deprecated);
    }

    #[test]
    fn the_deprecated_spelling_is_not_mentioned_where_it_adds_nothing() {
        let profile = parse(
            r#"{"status": {"accessProviders": [{"name": "a"}], "credentialProviders": [{"name": "a"}]}}"#,
        );
        assert!(!profile.access_providers().deprecated);
    }

    #[test]
    fn the_managed_cluster_is_the_labels_else_the_profiles_own_name() {
        assert_eq!(parse(OCM).managed_cluster(), "managed1");
        assert_eq!(parse(r#"{"metadata": {"name": "x"}}"#).managed_cluster(), "x");
    }
}
