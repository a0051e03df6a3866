//! A fleet as this tool sees it: one [`Cluster`] a row, whatever kind of object it came from.

pub mod account;
pub mod capi;
pub mod cluster_profile;
pub mod managed_cluster;
pub mod origin;
pub mod placement;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub use cluster_profile::ClusterProfile;
pub use origin::Origin;

/// One cluster of the fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// The object's name.
    pub name: String,
    /// The object's namespace on the hub.
    pub namespace: String,
    /// The object's UID.
    pub uid: String,
    /// When the object was created.
    pub created: Option<Timestamp>,
    /// The object's labels.
    pub labels: BTreeMap<String, String>,
    /// What people call it.
    pub display_name: Option<String>,
    /// The cluster manager that reports it.
    pub manager: Option<String>,
    /// The set it belongs to.
    pub clusterset: Option<String>,
    /// Its Kubernetes version.
    pub version: Option<String>,
    /// Whether its control plane is healthy, the cluster available or ready; `None` where nobody says.
    pub healthy: Option<Verdict>,
    /// Whether the hub has accepted it; `None` where there is no such thing.
    pub accepted: Option<Verdict>,
    /// Whether it has joined; `None` where nobody says.
    pub joined: Option<Verdict>,
    /// The names of its access providers, the preferred spelling first.
    pub providers: Vec<String>,
    /// Whether a provider is published only under the deprecated name `credentialProviders`.
    pub deprecated_providers: bool,
    /// How far it is on its way into being, or out of it.
    pub phase: Option<String>,
    /// What its machines run on.
    pub platform: Option<String>,
    /// The kind of its control plane.
    pub control_plane: Option<String>,
    /// What its manager tells about it, in the manager's order.
    pub properties: Vec<(String, String)>,
}

impl Cluster {
    /// What its manager tells under this name.
    pub fn property(&self, name: &str) -> Option<&str> {
        let found = self.properties.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `True`.
    Yes,
    /// `False`.
    No,
    /// `Unknown`, or anything else.
    Unknown,
}

impl Verdict {
    /// The condition status as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "True",
            Self::No => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<&str> for Verdict {
    fn from(status: &str) -> Self {
        match status {
            "True" => Self::Yes,
            "False" => Self::No,
            _ => Self::Unknown,
        }
    }
}
