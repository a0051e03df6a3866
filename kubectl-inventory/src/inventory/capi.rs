//! Cluster of `cluster.x-k8s.io` (Cluster API), v1beta1 and v1beta2:
//!
//! ```json
//! {"metadata": {"name": "cluster1", "namespace": "fleet"},
//!  "spec": {"topology": {"version": "v1.34.1"}, "infrastructureRef": {"kind": "AWSCluster"},
//!           "controlPlaneRef": {"kind": "KubeadmControlPlane"}},
//!  "status": {"phase": "Provisioned", "conditions": [{"type": "Ready", "status": "True"}]}}
//! ```

use serde::Deserialize;

use super::Cluster;
use super::cluster_profile::{Condition, Object, or_default, verdict};

/// The key of a kubeconfig Secret that holds the kubeconfig.
pub const KUBECONFIG_KEY: &str = "value";

/// A Cluster API cluster, as far as it is shown.
pub type CapiCluster = Object<Spec, Status>;

/// What a cluster is to be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Where it is made from a class.
    #[serde(default, deserialize_with = "or_default")]
    pub topology: Topology,
    /// The object that stands for its machines' surroundings.
    #[serde(default, deserialize_with = "or_default")]
    pub infrastructure_ref: Reference,
    /// The object that stands for its control plane.
    #[serde(default, deserialize_with = "or_default")]
    pub control_plane_ref: Reference,
}

/// A cluster made from a class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Topology {
    /// The Kubernetes version.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
}

/// A reference to another object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Reference {
    /// The object's kind.
    #[serde(default, deserialize_with = "or_default")]
    pub kind: String,
}

/// What a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Status {
    /// `Pending`, `Provisioning`, `Provisioned`, `Deleting`, `Failed`, `Unknown`.
    #[serde(default, deserialize_with = "or_default")]
    pub phase: String,
    /// Its conditions; `Ready` says all in v1beta1, `Available` in v1beta2.
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl CapiCluster {
    /// The Secrets that may hold a kubeconfig for people, the one meant for them first: EKS keeps one that
    /// logs in as a person beside Cluster API's own.
    pub fn kubeconfig_secrets(&self) -> Vec<String> {
        let name = &self.metadata.name;
        let own = format!("{name}-kubeconfig");
        match self.spec.control_plane_ref.kind.as_str() {
            "AWSManagedControlPlane" => vec![format!("{name}-user-kubeconfig"), own],
            _ => vec![own],
        }
    }
}

/// The platform that a kind of infrastructure stands for: `AWSManagedCluster` is `AWS`.
fn platform(kind: &str) -> &str {
    let kind = kind.strip_suffix("Cluster").or_else(|| kind.strip_suffix("ControlPlane")).unwrap_or(kind);
    kind.strip_suffix("Managed").unwrap_or(kind)
}

impl From<&CapiCluster> for Cluster {
    fn from(cluster: &CapiCluster) -> Self {
        let conditions = &cluster.status.conditions;
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Self {
            version: text(&cluster.spec.topology.version),
            healthy: verdict(conditions, "Ready").or_else(|| verdict(conditions, "Available")),
            phase: text(&cluster.status.phase),
            platform: text(platform(&cluster.spec.infrastructure_ref.kind)),
            control_plane: text(&cluster.spec.control_plane_ref.kind),
            ..cluster.metadata.cluster()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn both_versions_become_a_row() {
        for condition in ["Ready", "Available"] {
            let cluster: CapiCluster = serde_json::from_value(serde_json::json!({
                "metadata": {"name": "a", "namespace": "fleet"},
                "spec": {"topology": {"version": "v1.34.1"}, "infrastructureRef": {"kind": "AWSManagedCluster"},
                    "controlPlaneRef": {"kind": "AWSManagedControlPlane"}},
                "status": {"phase": "Provisioned", "conditions": [{"type": condition, "status": "False"}]},
            }))
            .unwrap();
            let row = Cluster::from(&cluster);
            assert_eq!((row.healthy, row.phase.as_deref()), (Some(Verdict::No), Some("Provisioned")));
            assert_eq!((row.platform.as_deref(), row.version.as_deref()), (Some("AWS"), Some("v1.34.1")));
            assert_eq!(row.control_plane.as_deref(), Some("AWSManagedControlPlane"));
            assert_eq!(cluster.kubeconfig_secrets(), ["a-user-kubeconfig", "a-kubeconfig"]);
        }
        let bare: CapiCluster = serde_json::from_str(r#"{"metadata": {"name": "b"}, "spec": null}"#).unwrap();
        assert_eq!(Cluster::from(&bare), Cluster { name: "b".into(), ..Cluster::default() });
        assert_eq!(bare.kubeconfig_secrets(), ["b-kubeconfig"]);
    }

    #[test]
    fn a_platform_is_what_its_kind_begins_with() {
        for (kind, name) in [
            ("AWSCluster", "AWS"),
            ("AzureManagedCluster", "Azure"),
            ("DockerCluster", "Docker"),
            ("Metal3Cluster", "Metal3"),
            ("AWSManagedControlPlane", "AWS"),
            ("Other", "Other"),
        ] {
            assert_eq!(platform(kind), name);
        }
    }
}
