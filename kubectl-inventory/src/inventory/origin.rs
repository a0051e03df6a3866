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

    /// The API group.
    pub fn group(self) -> &'static str {
        match self {
            Self::ClusterProfile => "multicluster.x-k8s.io",
            Self::ManagedCluster => "cluster.open-cluster-management.io",
            Self::Capi(_) => "cluster.x-k8s.io",
        }
    }

    /// The API version within the group.
    pub fn version(self) -> &'static str {
        match self {
            Self::ClusterProfile => "v1alpha1",
            Self::ManagedCluster => "v1",
            Self::Capi(CapiVersion::V1Beta1) => "v1beta1",
            Self::Capi(CapiVersion::V1Beta2) => "v1beta2",
        }
    }

    /// The resource, as URLs and RBAC rules spell it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::ClusterProfile => "clusterprofiles",
            Self::ManagedCluster => "managedclusters",
            Self::Capi(_) => "clusters",
        }
    }

    /// The resource as `-o name` spells it.
    pub fn singular(self) -> &'static str {
        self.plural().trim_end_matches('s')
    }

    /// The kind of its objects.
    pub fn kind(self) -> &'static str {
        match self {
            Self::ClusterProfile => "ClusterProfile",
            Self::ManagedCluster => "ManagedCluster",
            Self::Capi(_) => "Cluster",
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

    /// Its objects in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::ClusterProfile => "ClusterProfiles",
            Self::ManagedCluster => "ManagedClusters",
            Self::Capi(_) => "Cluster API clusters",
        }
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(self) -> bool {
        self != Self::ManagedCluster
    }
}

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
        assert_eq!(Origin::ManagedCluster.singular(), "managedcluster");
    }
}
