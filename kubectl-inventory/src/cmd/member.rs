//! A cluster of the inventory, of whichever kind, and the way into it.

use std::io::Write;

use credential_exec::error::Result;
use credential_exec::hub::Client;

use super::list::{Item, Scope, find};
use super::question::{Question, Shown};
use super::way_in::{Found, WayIn};
use crate::inventory::capi::CapiCluster;
use crate::inventory::cluster_profile::{Condition, Metadata};
use crate::inventory::managed_cluster::ManagedCluster;
use crate::inventory::origin::CapiVersion;
use crate::inventory::{Cluster, ClusterProfile, Origin};

/// An object that stands for a cluster.
#[derive(Clone, Debug)]
pub enum Member {
    /// Of the Cluster Inventory API.
    Profile(Box<ClusterProfile>),
    /// Of Open Cluster Management.
    Managed(Box<ManagedCluster>),
    /// Of Cluster API.
    Capi(Box<CapiCluster>),
}

impl Member {
    /// The objects of one name: one for each namespace that has it.
    ///
    /// # Errors
    /// As [`find`].
    pub async fn find(
        client: &Client,
        hub: &str,
        scope: &Scope,
        of: Origin,
        name: &str,
    ) -> Result<Vec<Self>> {
        async fn all<T: Item + Into<Member>>(
            client: &Client,
            hub: &str,
            scope: &Scope,
            of: Origin,
            name: &str,
        ) -> Result<Vec<Member>> {
            let found: Vec<T> = find(client, hub, scope, of.api(), name).await?;
            Ok(found.into_iter().map(Into::into).collect())
        }
        match of {
            Origin::ClusterProfile => all::<ClusterProfile>(client, hub, scope, of, name).await,
            Origin::ManagedCluster => all::<ManagedCluster>(client, hub, scope, of, name).await,
            Origin::Capi(_) => all::<CapiCluster>(client, hub, scope, of, name).await,
        }
    }

    /// Those that a question means, in order; and the namespace that was looked at instead of all.
    ///
    /// # Errors
    /// As [`Question::all`].
    pub async fn all(question: &Question<'_>, err: &mut dyn Write) -> Result<(Vec<Self>, Option<String>)> {
        async fn of<T: Shown + Into<Member>>(
            question: &Question<'_>,
            err: &mut dyn Write,
        ) -> Result<(Vec<Member>, Option<String>)> {
            let (found, instead) = question.all::<T>(err).await?;
            Ok((found.into_iter().map(Into::into).collect(), instead))
        }
        match question.of {
            Origin::ClusterProfile => of::<ClusterProfile>(question, err).await,
            Origin::ManagedCluster => of::<ManagedCluster>(question, err).await,
            Origin::Capi(_) => of::<CapiCluster>(question, err).await,
        }
    }

    /// The kind of inventory that it stands in.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Profile(_) => Origin::ClusterProfile,
            Self::Managed(_) => Origin::ManagedCluster,
            Self::Capi(_) => Origin::Capi(CapiVersion::V1Beta2),
        }
    }

    /// Its name, namespace and UID.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::Profile(profile) => &profile.metadata,
            Self::Managed(cluster) => &cluster.metadata,
            Self::Capi(cluster) => &cluster.metadata,
        }
    }

    /// The namespace that its entries name: its own, or for a ManagedCluster the one on the hub that bears its
    /// name.
    pub fn namespace(&self) -> &str {
        let Metadata { namespace, name, .. } = self.metadata();
        if namespace.is_empty() { name } else { namespace }
    }

    /// What its manager says of its state.
    pub fn conditions(&self) -> &[Condition] {
        match self {
            Self::Profile(profile) => &profile.status.conditions,
            Self::Managed(cluster) => &cluster.status.conditions,
            Self::Capi(cluster) => &cluster.status.conditions,
        }
    }

    /// Everything that is known of it.
    pub fn row(&self) -> Cluster {
        match self {
            Self::Profile(profile) => profile.row(),
            Self::Managed(cluster) => cluster.row(),
            Self::Capi(cluster) => cluster.row(),
        }
    }

    /// The way into it. `own_file` is whether the hub's user entry is in the kubeconfig that is written.
    ///
    /// # Errors
    /// Each link's own: access, account, trust, reach.
    pub async fn way_in(
        &self,
        way: &WayIn<'_>,
        client: &Client,
        own_file: bool,
        may_ask: bool,
    ) -> Result<Found> {
        match self {
            Self::Profile(profile) => {
                let mut found = way.take(client, profile, may_ask).await?;
                if profile.access_providers().deprecated {
                    let name = &profile.metadata.name;
                    let note =
                        format!("note: the profile of {name} uses the deprecated field credentialProviders");
                    found.notes.insert(0, note);
                }
                Ok(found)
            }
            Self::Managed(cluster) => way.managed_cluster(client, cluster, own_file, may_ask).await,
            Self::Capi(cluster) => way.capi(client, cluster).await,
        }
    }
}

impl From<ClusterProfile> for Member {
    fn from(profile: ClusterProfile) -> Self {
        Self::Profile(Box::new(profile))
    }
}

impl From<ManagedCluster> for Member {
    fn from(cluster: ManagedCluster) -> Self {
        Self::Managed(Box::new(cluster))
    }
}

impl From<CapiCluster> for Member {
    fn from(cluster: CapiCluster) -> Self {
        Self::Capi(Box::new(cluster))
    }
}
