//! The ways in by a credential that lies in a Secret: a token, or a kubeconfig as Cluster API keeps one.

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Client;
use credential_exec::request::{SecretKey, Source, Spoke};
use credential_exec::source::kubeconfig_secret;
use secrecy::ExposeSecret;

use super::server::as_api;
use super::{Found, Login, WayIn};
use crate::access::endpoint;
use crate::access::kubeconfig::ClusterEntry;
use crate::cmd::accounts;
use crate::inventory::ClusterProfile;
use crate::inventory::capi::{self, CapiCluster};
use crate::inventory::cluster_profile::{PLUGIN_EXTENSION, ProviderCluster};

impl WayIn<'_> {
    /// With the token in the Secret that is named after the cluster, in the profile's namespace.
    pub(super) async fn token_secret(
        &self,
        client: &Client,
        profile: &ClusterProfile,
        published: &ProviderCluster,
        may_ask: bool,
    ) -> Result<Found> {
        let name = &profile.metadata.name;
        let cluster = endpoint::check(name, published, self.flags.allow_insecure)?;
        let secret = told_by_cluster_name(profile, published)?;
        let owner = accounts::secret_metadata(client, &secret)
            .await?
            .is_some_and(|metadata| metadata.belongs_to(profile))
            .then(|| profile.metadata.uid.clone());
        let managed = secret.name.clone();
        let source = Source::TokenSecret { secret, owner };
        self.ours(client, name, cluster, &managed, source, may_ask, Vec::new()).await
    }

    /// With what a kubeconfig in a Secret logs in with. Server and CA are that kubeconfig's, and the profile
    /// must publish the same: the credential goes nowhere else.
    pub(super) async fn kubeconfig_secret(
        &self,
        client: &Client,
        profile: &ClusterProfile,
        published: &ProviderCluster,
    ) -> Result<Found> {
        let name = &profile.metadata.name;
        let (secret, context) = told_by_config(profile, published)?;
        let entry = endpoint::check(name, published, false)?;
        let found = self.by_kubeconfig(client, &secret, context).await?;
        let (here, there) = (spoke_of(&entry)?, spoke_of(&found.cluster)?);
        if here != there {
            return Err(Error::new(
                Kind::Refused,
                format!(
                    "the profile of {name} publishes {} (CA {}), and the kubeconfig in {secret} leads to {} (CA {})",
                    here.server,
                    &here.ca[..here.ca.len().min(12)],
                    there.server,
                    &there.ca[..there.ca.len().min(12)]
                ),
            )
            .remedy("ask the cluster's manager to publish the server and CA of that kubeconfig"));
        }
        Ok(found)
    }

    /// With a kubeconfig in a Secret, to where it leads.
    async fn by_kubeconfig(
        &self,
        client: &Client,
        secret: &SecretKey,
        context: Option<String>,
    ) -> Result<Found> {
        let now = jiff::Timestamp::try_from(self.env.clock()).unwrap_or_default().as_second();
        let (cluster, spoke) = kubeconfig_secret::look(client, secret, context.as_deref(), now).await?;
        let proxy = cluster.proxy_url.as_ref().map(|url| url.expose_secret().to_owned());
        if proxy.as_ref().is_some_and(|url| url.contains('@')) {
            return Err(Error::new(Kind::Refused, format!("the kubeconfig in {secret} has a proxy with a password"))
                .remedy("no secret is written into a kubeconfig; name a plugin in a provider file (docs/providers.md)"));
        }
        let entry = ClusterEntry {
            server: spoke.server.clone(),
            tls_server_name: cluster.tls_server_name,
            ca_data: cluster.certificate_authority_data,
            proxy_url: proxy,
            disable_compression: cluster.disable_compression,
            ..ClusterEntry::default()
        };
        let source = Source::KubeconfigSecret { secret: secret.clone(), context, spoke: Some(spoke) };
        Ok(Found {
            cluster: entry,
            login: Login::Ours { source, tunnel: None },
            notes: Vec::new(),
            agreed: None,
        })
    }

    /// Into a Cluster API cluster, with the kubeconfig that Cluster API keeps of it.
    ///
    /// # Errors
    /// A cluster without such a Secret, saying how far it is; those of reading it.
    pub async fn capi(&self, client: &Client, cluster: &CapiCluster) -> Result<Found> {
        let (name, namespace) = (&cluster.metadata.name, &cluster.metadata.namespace);
        self.refuse_ocms_flags("Cluster API")?;
        let mut missing = None;
        for secret in cluster.kubeconfig_secrets() {
            let secret = SecretKey {
                namespace: namespace.clone(),
                name: secret,
                key: capi::KUBECONFIG_KEY.to_owned(),
            };
            match self.by_kubeconfig(client, &secret, None).await {
                Ok(mut found) => {
                    found.notes.push(format!(
                        "note: {secret} holds the cluster administrator's credential: everybody who may read it can do everything at {name}"
                    ));
                    return Ok(found);
                }
                Err(error) if error.kind == Kind::NotFound => missing = Some(secret),
                Err(error) => return Err(error),
            }
        }
        let phase = if cluster.status.phase.is_empty() { "unknown" } else { &cluster.status.phase };
        let secret = missing.map(|secret| secret.to_string()).unwrap_or_default();
        Err(Error::new(
            Kind::NotFound,
            format!("{name} has no kubeconfig yet ({secret}); its phase is {phase}"),
        )
        .remedy("it comes once the control plane is initialised: `kubectl inventory get --source capi`"))
    }
}

/// The Secret of a profile's `secretreader`: that of the name which its plugin is told.
fn told_by_cluster_name(profile: &ClusterProfile, published: &ProviderCluster) -> Result<SecretKey> {
    let config = published.plugin_config();
    let name = config.and_then(|config| config["clusterName"].as_str()).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| not_told(profile, "clusterName"))?;
    let namespace = profile.metadata.namespace.clone();
    Ok(SecretKey { namespace, name: name.to_owned(), key: "token".to_owned() })
}

/// The Secret of a profile's `kubeconfig-secretreader`, and the kubeconfig's context where it is said.
fn told_by_config(
    profile: &ClusterProfile,
    published: &ProviderCluster,
) -> Result<(SecretKey, Option<String>)> {
    let config = published.plugin_config();
    let text = |field: &str| {
        let text = config.and_then(|config| config[field].as_str()).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let secret = SecretKey {
        namespace: text("namespace").unwrap_or_else(|| profile.metadata.namespace.clone()),
        name: text("name").ok_or_else(|| not_told(profile, "name"))?,
        key: text("key").ok_or_else(|| not_told(profile, "key"))?,
    };
    Ok((secret, text("context")))
}

fn not_told(profile: &ClusterProfile, field: &str) -> Error {
    let cause =
        format!("the profile of {} does not say which Secret holds the credential", profile.metadata.name);
    Error::new(Kind::NotFound, cause).remedy(format!(
        "its cluster needs the extension {PLUGIN_EXTENSION} with `{field}`: ask the cluster's manager"
    ))
}

/// Server and CA of an entry, as a request pins them.
fn spoke_of(entry: &ClusterEntry) -> Result<Spoke> {
    let hub = as_api(entry);
    Ok(Spoke { server: hub.server().to_owned(), ca: hub.ca_fingerprint()? })
}
