//! ManagedCluster of `cluster.open-cluster-management.io/v1`, Open Cluster Management's own inventory:
//!
//! ```json
//! {"metadata": {"name": "cluster1", "labels": {"cluster.open-cluster-management.io/clusterset": "prod"}},
//!  "spec": {"hubAcceptsClient": true},
//!  "status": {"version": {"kubernetes": "v1.34.1"}, "conditions": [{"type": "ManagedClusterJoined", "status": "True"}],
//!             "clusterClaims": [{"name": "region.open-cluster-management.io", "value": "eu"}]}}
//! ```

use serde::Deserialize;

use super::cluster_profile::{Condition, Object, Property, Version, or_default, verdict};
use super::{Cluster, Verdict};

/// Claim: the cluster's id.
pub const CLUSTER_ID_CLAIM: &str = "id.k8s.io";
const CLUSTERSET: &str = "cluster.open-cluster-management.io/clusterset";
const ACCEPTED: &str = "HubAcceptedManagedCluster";
const JOINED: &str = "ManagedClusterJoined";
const AVAILABLE: &str = "ManagedClusterConditionAvailable";

/// A ManagedCluster, as far as it is shown.
pub type ManagedCluster = Object<Spec, Status>;

/// What the hub's administrator decided.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Whether the cluster may join.
    #[serde(default, deserialize_with = "or_default")]
    pub hub_accepts_client: bool,
}

/// What the agent reports.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Versions of the cluster's parts.
    #[serde(default, deserialize_with = "or_default")]
    pub version: Version,
    /// Conditions of the cluster.
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// Facts about the cluster.
    #[serde(default, deserialize_with = "or_default")]
    pub cluster_claims: Vec<Property>,
}

impl From<&ManagedCluster> for Cluster {
    fn from(cluster: &ManagedCluster) -> Self {
        let conditions = &cluster.status.conditions;
        let accepted = verdict(conditions, ACCEPTED).unwrap_or(match cluster.spec.hub_accepts_client {
            true => Verdict::Yes,
            false => Verdict::No,
        });
        Self {
            clusterset: cluster.metadata.labels.get(CLUSTERSET).cloned(),
            version: cluster.status.version.kubernetes.clone().filter(|version| !version.is_empty()),
            accepted: Some(accepted),
            joined: verdict(conditions, JOINED),
            healthy: verdict(conditions, AVAILABLE),
            properties: cluster
                .status
                .cluster_claims
                .iter()
                .map(|claim| (claim.name.clone(), claim.value.clone()))
                .collect(),
            ..cluster.metadata.cluster()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_managed_cluster_becomes_a_row_and_what_is_absent_is_absent() {
        let cluster: ManagedCluster = serde_json::from_str(
            r#"{"metadata": {"name": "a", "labels": {"cluster.open-cluster-management.io/clusterset": "prod"}},
                "spec": {"hubAcceptsClient": true}, "status": {"version": {"kubernetes": "v1.34.1"},
                "conditions": [{"type": "ManagedClusterJoined", "status": "True"},
                    {"type": "ManagedClusterConditionAvailable", "status": "Unknown"}],
                "clusterClaims": [{"name": "region", "value": "eu"}]}}"#,
        )
        .unwrap();
        let row = Cluster::from(&cluster);
        assert_eq!((row.name.as_str(), row.clusterset.as_deref()), ("a", Some("prod")));
        assert_eq!((row.accepted, row.joined), (Some(Verdict::Yes), Some(Verdict::Yes)));
        assert_eq!(row.healthy, Some(Verdict::Unknown));
        assert_eq!(row.properties, [("region".to_owned(), "eu".to_owned())]);

        let bare: ManagedCluster =
            serde_json::from_str(r#"{"metadata": {"name": "b"}, "spec": null, "status": null}"#).unwrap();
        let row = Cluster::from(&bare);
        assert_eq!((row.accepted, row.joined, row.version), (Some(Verdict::No), None, None));
    }
}
