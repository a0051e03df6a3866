//! The ways into a ManagedCluster, which publishes none itself: by cluster-gateway, with the hub's own
//! credentials, or by OCM's cluster-proxy, with the CA that the person has of it. And the hub's own identity.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Client;
use credential_exec::request::{Impersonate, Source};

use super::{Found, Login, WayIn};
use crate::access::trust::USER_SERVER;
use crate::access::{Provider, gateway};
use crate::cmd::detect;
use crate::cmd::permission::{self, Permission};
use crate::hub;
use crate::inventory::ClusterProfile;
use crate::inventory::cluster_profile::ProviderCluster;
use crate::inventory::managed_cluster::ManagedCluster;

/// The name of the way by cluster-gateway, for `--provider`.
pub const CLUSTER_GATEWAY: &str = "cluster-gateway";

/// The port of OCM's user-server.
const PORT: u16 = 9092;

impl WayIn<'_> {
    /// Into a ManagedCluster, by whichever way the hub has and the flags want. `own_file` is whether the hub's
    /// user entry is in the kubeconfig that is written.
    ///
    /// # Errors
    /// A hub that has no way; those of the way.
    pub async fn managed_cluster(
        &self,
        client: &Client,
        cluster: &ManagedCluster,
        own_file: bool,
        may_ask: bool,
    ) -> Result<Found> {
        let proxy = Provider::OpenClusterManagement.name();
        let for_proxy = self.flags.managed_serviceaccount.is_some() || self.flags.hub_identity;
        match self.flags.provider.as_deref() {
            Some(CLUSTER_GATEWAY) => self.by_gateway(client, cluster, own_file).await,
            Some(name) if name == proxy => self.by_cluster_proxy(client, cluster, may_ask).await,
            Some(other) => {
                let cause = format!("a ManagedCluster has no access provider {other:?}");
                Err(Error::new(Kind::NotFound, cause).remedy(format!("it has {CLUSTER_GATEWAY} and {proxy}")))
            }
            None if for_proxy => self.by_cluster_proxy(client, cluster, may_ask).await,
            None if detect::has_gateway(client).await? => {
                self.through_gateway(client, cluster, own_file).await
            }
            None => self.by_cluster_proxy(client, cluster, may_ask).await,
        }
    }

    /// By cluster-gateway.
    ///
    /// # Errors
    /// A hub that does not serve it; flags that have no place there.
    pub async fn by_gateway(
        &self,
        client: &Client,
        cluster: &ManagedCluster,
        own_file: bool,
    ) -> Result<Found> {
        self.refuse_ocms_flags(CLUSTER_GATEWAY)?;
        if !detect::has_gateway(client).await? {
            return Err(Error::new(Kind::NotFound, "the hub does not serve cluster-gateway")
                .remedy("install cluster-gateway on the hub"));
        }
        self.through_gateway(client, cluster, own_file).await
    }

    /// The same on a hub that is known to serve it.
    async fn through_gateway(
        &self,
        client: &Client,
        cluster: &ManagedCluster,
        own_file: bool,
    ) -> Result<Found> {
        let name = &cluster.metadata.name;
        self.refuse_impersonation(CLUSTER_GATEWAY)?;
        let hub = hub::entry(self.hub(), self.flags.allow_insecure)?;
        let login = match self.chosen.user().filter(|_| own_file) {
            Some(user) => Login::HubUser(user.to_owned()),
            None => Login::Ours { source: Source::HubIdentity { certificate: true }, tunnel: None },
        };
        let mut notes =
            vec![format!("note: {name} is reached through cluster-gateway, with the hub's own credentials")];
        let get = Permission {
            verb: "get",
            group: gateway::GROUP,
            resource: "clustergateways",
            subresource: "proxy",
            name,
            ..Permission::default()
        };
        if permission::refuses(client, &get).await {
            notes.push(format!(
                "warning: the hub refuses you clustergateways/proxy of {name}, which kubectl reports as Forbidden: ask for the verb get on it (docs/hub-setup.md)"
            ));
        }
        Ok(Found { cluster: gateway::through(&hub, name), login, notes, agreed: None })
    }

    /// By OCM's cluster-proxy. A ClusterProfile would publish its CA; here it is the person's to give.
    ///
    /// # Errors
    /// A config file that names no CA; those of OCM's way in.
    pub async fn by_cluster_proxy(
        &self,
        client: &Client,
        cluster: &ManagedCluster,
        may_ask: bool,
    ) -> Result<Found> {
        let name = &cluster.metadata.name;
        let Some(authority) = &self.config.cluster_proxy.certificate_authority else {
            let cause = format!("ManagedCluster {name} publishes no address");
            return Err(Error::new(Kind::NotFound, cause).remedy(
                "turn on OCM's ClusterProfile feature gate, install cluster-gateway, or set \
                 clusterProxy.certificateAuthority in the config file (docs/hub-setup.md)",
            ));
        };
        let pem = std::fs::read(authority).map_err(|error| {
            Error::new(Kind::Usage, format!("{} cannot be read: {error}", authority.display()))
                .remedy("correct clusterProxy.certificateAuthority in the config file")
        })?;
        let namespace = self.once.user_server_namespace(client).await?;
        let published = ProviderCluster {
            server: format!("https://{USER_SERVER}.{namespace}:{PORT}/{name}"),
            certificate_authority_data: Some(STANDARD.encode(pem)),
            ..ProviderCluster::default()
        };
        let mut profile = ClusterProfile { metadata: cluster.metadata.clone(), ..ClusterProfile::default() };
        // On the hub a ManagedCluster has a namespace of its name, where its accounts are.
        profile.metadata.namespace.clone_from(name);
        profile.metadata.labels.clear();
        self.ocm(client, &profile, &published, may_ask).await
    }

    /// The hub's own login as a source, for this ManagedCluster's agent to see.
    pub(super) fn hub_identity(&self, managed: &str, notes: &mut Vec<String>) -> Result<Source> {
        self.refuse_impersonation("--hub-identity")?;
        let user = &self.hub().user;
        if user.token.is_none() && user.token_file.is_none() && user.exec.is_none() {
            let cause =
                format!("the user of hub context {} logs in without a bearer token", self.hub().context);
            return Err(Error::new(Kind::Refused, cause).remedy(
                "only a bearer token travels through cluster-proxy: use a hub context that has one, or a managed service account",
            ));
        }
        notes.push(format!(
            "warning: the agent on {managed} sees your token for the hub, and could act as you there while it lives"
        ));
        Ok(Source::HubIdentity { certificate: false })
    }

    fn refuse_impersonation(&self, what: &str) -> Result<()> {
        if self.chosen.impersonate == Impersonate::default() {
            return Ok(());
        }
        Err(Error::new(Kind::Usage, format!("a context by {what} cannot impersonate by itself"))
            .remedy("leave --as out here, and give it to kubectl"))
    }
}
