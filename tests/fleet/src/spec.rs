//! What a fleet is built from: clusters, accounts, certificates, and the hub's kinds.

use crate::certs::CertSpec;
use crate::fleet::Fleet;
use crate::resources::Resource;
use crate::tokens::TokenKind;
use crate::tunnel;

/// The namespace of the profiles, unless told otherwise.
pub const INVENTORY: &str = "cluster-inventory";

/// The account of every cluster, unless told otherwise.
pub const ACCOUNT: &str = "inventory";

/// A managed cluster: its profiles at the hub and its API server.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// Name; also of its hub namespace.
    pub name: String,
    /// Namespaces that hold a profile of it.
    pub namespaces: Vec<String>,
    /// Condition ControlPlaneHealthy; `None` is Unknown.
    pub healthy: Option<bool>,
    /// Condition Joined; `None` is Unknown.
    pub joined: Option<bool>,
    /// Kubernetes version.
    pub version: String,
    /// ClusterSet.
    pub cluster_set: String,
    /// Properties, in order.
    pub properties: Vec<(String, String)>,
    /// Labels besides those that OCM sets.
    pub labels: Vec<(String, String)>,
    /// Whether the published server ends in `/<name>`, as OCM's user-server does.
    pub path_prefix: bool,
    /// Whether the provider stands in the deprecated `credentialProviders`.
    pub deprecated_providers: bool,
    /// Its ManagedServiceAccounts.
    pub accounts: Vec<(String, AccountSpec)>,
    /// Its certificate.
    pub certificate: CertSpec,
    /// The cluster whose API server it shares instead of one of its own.
    pub shares: Option<String>,
}

impl ClusterSpec {
    /// A healthy cluster in OCM's layout with one account.
    pub fn named(name: &str) -> Self {
        let properties = [
            ("cluster.clusterset.k8s.io", name),
            ("clusterset.k8s.io", "default"),
            ("id.k8s.io", name),
            ("kubeversion.open-cluster-management.io", "v1.34.2"),
            ("platform.open-cluster-management.io", "AWS"),
            ("product.open-cluster-management.io", "EKS"),
            ("region.open-cluster-management.io", "eu-central-1"),
            ("infrastructure.open-cluster-management.io", r#"{"infraName":"fleet"}"#),
            ("cpu", "24"),
            ("memory", "96Gi"),
        ];
        Self {
            name: name.to_owned(),
            namespaces: vec![INVENTORY.to_owned()],
            healthy: Some(true),
            joined: Some(true),
            version: "v1.34.2".to_owned(),
            cluster_set: "default".to_owned(),
            properties: properties.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            labels: Vec::new(),
            path_prefix: true,
            deprecated_providers: false,
            accounts: vec![(ACCOUNT.to_owned(), AccountSpec::default())],
            certificate: CertSpec::default(),
            shares: None,
        }
    }
}

/// A ManagedServiceAccount of one cluster.
#[derive(Clone, Debug)]
pub struct AccountSpec {
    /// Whether it is copied beside the profile.
    pub synced: bool,
    /// Whether its own Secret exists.
    pub own_secret: bool,
    /// What its token looks like.
    pub token: TokenKind,
    /// The token's `sub`, unless that of the account itself.
    pub subject: Option<String>,
}

impl Default for AccountSpec {
    /// Synced, with its own Secret, a JWT of OCM's default validity.
    fn default() -> Self {
        Self { synced: true, own_secret: true, token: TokenKind::default(), subject: None }
    }
}

/// Collects what a [`Fleet`] is started from.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(crate) clusters: Vec<ClusterSpec>,
    pub(crate) profiles: usize,
    pub(crate) hub_certificate: CertSpec,
    pub(crate) spoke_certificate: Option<CertSpec>,
    pub(crate) without: Vec<String>,
    pub(crate) with: Vec<Resource>,
    pub(crate) tunnelled: Option<CertSpec>,
}

impl Builder {
    /// Adds clusters `cluster1` … `clusterN`.
    #[must_use]
    pub fn spokes(mut self, n: usize) -> Self {
        self.clusters.extend((1..=n).map(|i| ClusterSpec::named(&format!("cluster{i}"))));
        self
    }

    /// Adds a cluster.
    #[must_use]
    pub fn cluster(mut self, spec: ClusterSpec) -> Self {
        self.clusters.push(spec);
        self
    }

    /// Changes a cluster that was added; panics when it was not.
    #[must_use]
    pub fn edit(mut self, cluster: &str, change: impl FnOnce(&mut ClusterSpec)) -> Self {
        let found = self.clusters.iter_mut().find(|spec| spec.name == cluster);
        change(found.unwrap_or_else(|| panic!("no cluster {cluster}")));
        self
    }

    /// Adds or replaces an account of a cluster that was added.
    #[must_use]
    pub fn account(self, cluster: &str, account: &str, spec: AccountSpec) -> Self {
        self.edit(cluster, |c| {
            c.accounts.retain(|(name, _)| name != account);
            c.accounts.push((account.to_owned(), spec));
        })
    }

    /// Removes an account.
    #[must_use]
    pub fn without_account(self, cluster: &str, account: &str) -> Self {
        self.edit(cluster, |c| c.accounts.retain(|(name, _)| name != account))
    }

    /// Adds so many profiles `fleet-00001` … without accounts, which share the first spoke.
    #[must_use]
    pub fn profiles(mut self, n: usize) -> Self {
        self.profiles = n;
        self
    }

    /// The hub's certificate: a [`crate::CertShape`] or a whole [`CertSpec`].
    #[must_use]
    pub fn hub_certificate(mut self, spec: impl Into<CertSpec>) -> Self {
        self.hub_certificate = spec.into();
        self
    }

    /// The certificate of every spoke, whatever its own spec says.
    #[must_use]
    pub fn spoke_certificate(mut self, spec: impl Into<CertSpec>) -> Self {
        self.spoke_certificate = Some(spec.into());
        self
    }

    /// Every profile publishes OCM's address inside the hub, which a port-forward to a Pod there
    /// reaches: see [`crate::Tunnel`].
    #[must_use]
    pub fn tunnelled(self) -> Self {
        self.user_server_certificate(tunnel::certificate())
    }

    /// As [`Builder::tunnelled`], with this certificate of the user-server instead of OCM's.
    #[must_use]
    pub fn user_server_certificate(mut self, spec: impl Into<CertSpec>) -> Self {
        self.tunnelled = Some(spec.into());
        self
    }

    /// The hub does not serve this group, or kind (`plural.group`).
    #[must_use]
    pub fn without(mut self, group: &str) -> Self {
        self.without.push(group.to_owned());
        self
    }

    /// The hub serves this kind too.
    #[must_use]
    pub fn with(mut self, resource: Resource) -> Self {
        self.with.push(resource);
        self
    }

    /// Starts everything. Panics when no loopback port can be had.
    pub fn start(self) -> Fleet {
        Fleet::start(self)
    }
}
