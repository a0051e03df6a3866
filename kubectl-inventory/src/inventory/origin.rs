//! The kinds of object that a hub may keep its clusters as.

use std::str::FromStr;

/// A kind of inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// ClusterProfile of the Cluster Inventory API.
    ClusterProfile,
    /// ManagedCluster of Open Cluster Management.
    ManagedCluster,
    /// Cluster of Cluster API.
    Capi(CapiVersion),
}

/// The versions of Cluster API's Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapiVersion {
    /// `v1beta1`
    V1Beta1,
    /// `v1beta2`
    V1Beta2,
}

impl Origin {
    /// What `--source` may be.
    pub const CHOICES: [&str; 3] = ["clusterprofile", "managedcluster", "capi"];

    /// What its objects are on the hub.
    pub fn api(self) -> &'static Api {
        match self {
            Self::ClusterProfile => &CLUSTER_PROFILES,
            Self::ManagedCluster => &MANAGED_CLUSTERS,
            Self::Capi(CapiVersion::V1Beta1) => &CAPI_V1BETA1,
            Self::Capi(CapiVersion::V1Beta2) => &CAPI_V1BETA2,
        }
    }

    /// How `--source` spells it.
    pub fn option(self) -> &'static str {
        match self {
            Self::ClusterProfile => Self::CHOICES[0],
            Self::ManagedCluster => Self::CHOICES[1],
            Self::Capi(_) => Self::CHOICES[2],
        }
    }
}

/// A kind of object on the hub.
#[derive(Debug, PartialEq, Eq)]
pub struct Api {
    /// The API group; empty for the core's.
    pub group: &'static str,
    /// The version within the group.
    pub version: &'static str,
    /// The resource, as URLs and RBAC rules spell it.
    pub plural: &'static str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// Its objects in a sentence.
    pub words: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What to do where the hub does not serve it.
    pub install: &'static str,
}

impl Api {
    /// The path of its version's discovery document, under which all its paths are.
    pub fn path(&self) -> String {
        match self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }

    /// The resource as `-o name` spells it.
    pub fn singular(&self) -> &'static str {
        self.plural.trim_end_matches('s')
    }
}

static CLUSTER_PROFILES: Api = Api {
    group: "multicluster.x-k8s.io",
    version: "v1alpha1",
    plural: "clusterprofiles",
    kind: "ClusterProfile",
    words: "ClusterProfiles",
    namespaced: true,
    install: "install the Cluster Inventory API there (on OCM, its ClusterProfile feature gate; docs/hub-setup.md)",
};

static MANAGED_CLUSTERS: Api = Api {
    group: "cluster.open-cluster-management.io",
    version: "v1",
    plural: "managedclusters",
    kind: "ManagedCluster",
    words: "ManagedClusters",
    namespaced: false,
    install: "install Open Cluster Management there",
};

const CAPI: Api = Api {
    group: "cluster.x-k8s.io",
    version: "v1beta2",
    plural: "clusters",
    kind: "Cluster",
    words: "Cluster API clusters",
    namespaced: true,
    install: "install Cluster API there",
};

static CAPI_V1BETA2: Api = CAPI;

static CAPI_V1BETA1: Api = Api { version: "v1beta1", ..CAPI };

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "clusterprofile" | "clusterprofiles" => Ok(Self::ClusterProfile),
            "managedcluster" | "managedclusters" => Ok(Self::ManagedCluster),
            "capi" => Ok(Self::Capi(CapiVersion::V1Beta2)),
            _ => Err(format!("{text:?} is none of {}", Self::CHOICES.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_is_a_kind_and_anything_else_names_them() {
        for choice in Origin::CHOICES {
            assert!(choice.parse::<Origin>().is_ok(), "{choice}");
        }
        assert!("gke".parse::<Origin>().unwrap_err().contains("managedcluster"));
        assert_eq!(Origin::ManagedCluster.api().singular(), "managedcluster");
    }
}
