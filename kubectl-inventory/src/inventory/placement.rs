//! PlacementDecision: the clusters that a scheduler chose. There are two kinds of it, the Cluster Inventory
//! API's and Open Cluster Management's:
//!
//! ```json
//! {"metadata": {"name": "web-0", "namespace": "team", "labels": {
//!     "multicluster.x-k8s.io/placement-key": "web", "multicluster.x-k8s.io/decision-key": "web-7",
//!     "multicluster.x-k8s.io/decision-index": "0"}},
//!  "decisions": [{"clusterProfileRef": {"name": "cluster1", "namespace": "cluster-inventory"}}]}
//!
//! {"metadata": {"name": "web-decision-1", "namespace": "team", "labels": {
//!     "cluster.open-cluster-management.io/placement": "web"}},
//!  "status": {"decisions": [{"clusterName": "cluster1", "reason": ""}]}}
//! ```
//!
//! An object holds a hundred choices at most; several are the slices of one decision.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::cluster_profile::{MANAGED_CLUSTER_LABEL, Metadata, or_default};
use super::origin::Api;
use super::{Cluster, Origin};

const DECISION: &str = "multicluster.x-k8s.io/decision-key";

/// The labels that say where a slice stands in its decision, by either kind.
const INDEX: [&str; 2] =
    ["multicluster.x-k8s.io/decision-index", "cluster.open-cluster-management.io/decision-group-index"];

/// A kind of PlacementDecision.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// What its objects are on the hub.
    pub api: Api,
    /// The labels that may name what a person calls a placement, the usual one first.
    pub labels: &'static [&'static str],
}

static INVENTORY: Kind = Kind {
    api: Api {
        group: "multicluster.x-k8s.io",
        version: "v1alpha1",
        plural: "placementdecisions",
        kind: "PlacementDecision",
        words: "PlacementDecisions",
        namespaced: true,
        install: "install a scheduler that writes PlacementDecisions",
    },
    labels: &["multicluster.x-k8s.io/placement-key", DECISION],
};

static OCM: Kind = Kind {
    api: Api {
        group: "cluster.open-cluster-management.io",
        version: "v1beta1",
        plural: "placementdecisions",
        kind: "PlacementDecision",
        words: "PlacementDecisions",
        namespaced: true,
        install: "install Open Cluster Management",
    },
    labels: &["cluster.open-cluster-management.io/placement"],
};

/// The kinds that may speak of such clusters, the likelier first.
pub fn kinds(of: Origin) -> &'static [&'static Kind] {
    static PROFILES: [&Kind; 2] = [&INVENTORY, &OCM];
    static MANAGED: [&Kind; 2] = [&OCM, &INVENTORY];
    match of {
        Origin::ClusterProfile => &PROFILES,
        Origin::ManagedCluster => &MANAGED,
        Origin::Capi(_) => &[],
    }
}

/// One object: a whole decision, or a slice of one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Slice {
    /// Name, namespace and labels.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// The Cluster Inventory API's choices.
    #[serde(default, deserialize_with = "or_default")]
    decisions: Vec<ProfileChoice>,
    /// OCM's choices.
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProfileChoice {
    #[serde(default, deserialize_with = "or_default")]
    cluster_profile_ref: Reference,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Reference {
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Status {
    #[serde(default, deserialize_with = "or_default")]
    decisions: Vec<ManagedChoice>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedChoice {
    #[serde(default, deserialize_with = "or_default")]
    cluster_name: String,
}

/// The namespaces that these slices lie in.
pub fn namespaces(slices: &[Slice]) -> BTreeSet<&str> {
    slices.iter().map(|slice| slice.metadata.namespace.as_str()).collect()
}

/// The clusters that were chosen, in the decision's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// As the decision names them: `namespace/name` of a profile, or the name of a ManagedCluster.
    names: Vec<String>,
    profiles: HashMap<(String, String), usize>,
    managed: HashMap<String, usize>,
}

impl Placed {
    /// Joins the slices of one placement.
    pub fn join(mut slices: Vec<Slice>) -> Self {
        slices.sort_by_cached_key(Slice::order);
        let mut placed = Self::default();
        for slice in slices {
            for ProfileChoice { cluster_profile_ref: Reference { name, namespace } } in slice.decisions {
                let namespace = if namespace.is_empty() { &slice.metadata.namespace } else { &namespace };
                let rank = placed.names.len();
                placed.profiles.entry((namespace.clone(), name.clone())).or_insert_with(|| {
                    placed.names.push(format!("{namespace}/{name}"));
                    rank
                });
            }
            for ManagedChoice { cluster_name: name } in slice.status.decisions {
                let rank = placed.names.len();
                placed.managed.entry(name).or_insert_with_key(|name| {
                    placed.names.push(name.clone());
                    rank
                });
            }
        }
        placed
    }

    /// Where in the decision a cluster stands; `None` for one that was not chosen.
    pub fn rank(&self, cluster: &Cluster) -> Option<usize> {
        let id = (cluster.namespace.clone(), cluster.name.clone());
        let managed = cluster.labels.get(MANAGED_CLUSTER_LABEL).unwrap_or(&cluster.name);
        let by_profile = || {
            // A ManagedCluster is in no namespace: its profile bears its name.
            let same_name = |((_, name), _): &(&(String, String), _)| *name == cluster.name;
            match cluster.namespace.is_empty() {
                true => self.profiles.iter().filter(same_name).map(|(_, rank)| *rank).min(),
                false => None,
            }
        };
        self.profiles.get(&id).or_else(|| self.managed.get(managed)).copied().or_else(by_profile)
    }

    /// The chosen clusters that are not among those seen at these ranks, in order.
    pub fn missing(&self, seen: &BTreeSet<usize>) -> Vec<String> {
        let unseen = self.names.iter().enumerate().filter(|(rank, _)| !seen.contains(rank));
        unseen.map(|(_, name)| name.clone()).collect()
    }
}

impl Slice {
    /// By decision, by what the labels say, by the number that the name ends in.
    fn order(&self) -> (String, u64, u64, String) {
        let label = |name: &&str| self.metadata.labels.get(*name);
        let number = |text: &str| text.parse().ok();
        let index = INDEX.iter().find_map(label).and_then(|text| number(text)).unwrap_or(u64::MAX);
        let name = &self.metadata.name;
        let tail = name.rsplit_once('-').and_then(|(_, tail)| number(tail)).unwrap_or(u64::MAX);
        (label(&DECISION).cloned().unwrap_or_default(), index, tail, name.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn slices(objects: Value) -> Vec<Slice> {
        serde_json::from_value(objects).unwrap()
    }

    fn profile(namespace: &str, name: &str) -> Cluster {
        Cluster { namespace: namespace.into(), name: name.into(), ..Cluster::default() }
    }

    #[test]
    fn slices_are_joined_in_the_order_of_their_labels() {
        let slice = |name: &str, index: &str, clusters: &[&str]| {
            let decisions: Vec<Value> =
                clusters.iter().map(|name| json!({"clusterProfileRef": {"name": name}})).collect();
            json!({"metadata": {"name": name, "namespace": "fleet", "labels": {
                "multicluster.x-k8s.io/decision-key": "d", "multicluster.x-k8s.io/decision-index": index}},
                "decisions": decisions})
        };
        let placed = Placed::join(slices(json!([
            slice("a", "10", &["last"]),
            slice("b", "2", &["c", "first"]),
            slice("c", "0", &["first"]),
        ])));
        let rank = |name: &str| placed.rank(&profile("fleet", name));
        assert_eq!((rank("first"), rank("c"), rank("last")), (Some(0), Some(1), Some(2)));
        assert_eq!((rank("other"), placed.rank(&profile("elsewhere", "first"))), (None, None));
        assert_eq!(placed.missing(&BTreeSet::from([0, 2])), ["fleet/c"]);
    }

    #[test]
    fn a_reference_may_lead_to_another_namespace() {
        let placed = Placed::join(slices(json!([{"metadata": {"namespace": "team"}, "decisions": [
            {"clusterProfileRef": {"name": "a", "namespace": "fleet"}, "reason": "spread"},
            {"clusterProfileRef": {"name": "a"}}]}])));
        assert_eq!(placed.rank(&profile("fleet", "a")), Some(0));
        assert_eq!(placed.rank(&profile("team", "a")), Some(1));
        assert_eq!(placed.rank(&profile("", "a")), Some(0), "a ManagedCluster");
    }

    #[test]
    fn ocm_names_managed_clusters_and_numbers_its_slices() {
        let placed = Placed::join(slices(json!([
            {"metadata": {"name": "web-decision-10"}, "status": {"decisions": [{"clusterName": "c"}]}},
            {"metadata": {"name": "web-decision-2"}, "status": {"decisions": [{"clusterName": "b"}]}},
            {"metadata": {"name": "web-decision-1"}, "status": {"decisions": [{"clusterName": "a"}]}},
            {"metadata": {"name": "web-decision-3"}, "status": null, "decisions": null},
        ])));
        let managed = |name: &str| placed.rank(&profile("", name));
        assert_eq!((managed("a"), managed("b"), managed("c")), (Some(0), Some(1), Some(2)));
        let labels = BTreeMap::from([(MANAGED_CLUSTER_LABEL.to_owned(), "b".to_owned())]);
        assert_eq!(placed.rank(&Cluster { labels, ..profile("fleet", "x") }), Some(1));
        assert_eq!(placed.rank(&profile("fleet", "c")), Some(2), "a profile that bears the cluster's name");
    }
}
