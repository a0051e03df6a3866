//! The way into a cluster, made ready to be written: by a provider of ours or a plugin of the provider file,
//! to a server that may be given the token, directly or through a tunnel. Asks the hub, writes nothing.

pub mod managed_cluster;
mod once;
mod secrets;
mod server;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::{Client, Hub};
use credential_exec::request::{HubPin, Source, Tunnel};

use crate::access::kubeconfig::{ClusterEntry, ExecEntry};
use crate::access::provider_file::FileProvider;
use crate::access::reach::Reach;
use crate::access::trust::{self, Remembered, Token};
use crate::access::{self, Provider, Providers, Way, endpoint, policy};
use crate::cli::Access;
use crate::cmd::accounts::{self, Book};
use crate::cmd::detect;
use crate::cmd::list::{Scope, look_up};
use crate::config::Config;
use crate::hub::Chosen;
use crate::inventory::capi::CapiCluster;
use crate::inventory::cluster_profile::{Metadata, ProviderCluster};
use crate::inventory::origin::CapiVersion;
use crate::inventory::{ClusterProfile, Origin};
use crate::providers;
pub use once::Once;
pub use server::as_api;

/// A way in, made ready.
pub struct Found {
    /// Where kubectl goes.
    pub cluster: ClusterEntry,
    /// What it logs in with.
    pub login: Login,
    /// What the person should know, a line each.
    pub notes: Vec<String>,
    /// A decision of the person that is to be remembered.
    pub agreed: Option<Remembered>,
}

/// What kubectl logs in with.
pub enum Login {
    /// credential-exec, and what it is asked for.
    Ours {
        /// Where the credential lies.
        source: Source,
        /// The way to an address within the hub.
        tunnel: Option<Tunnel>,
    },
    /// A plugin of the person's provider file.
    Plugin(ExecEntry),
    /// The hub's own user entry, which is in the kubeconfig already.
    HubUser(String),
}

/// Everything that decides which way is taken.
pub struct WayIn<'a> {
    /// The flags about it.
    pub flags: &'a Access,
    /// Whether the person trusts whatever server is published.
    pub trust_server: bool,
    /// The config file.
    pub config: &'a Config,
    /// The provider file.
    pub file: Vec<FileProvider>,
    /// The surroundings.
    pub env: &'a Env,
    /// The hub.
    pub chosen: &'a Chosen,
    /// The accounts of many clusters, where they were read at once.
    pub book: Book,
    /// What need not be asked for each cluster.
    pub once: Once,
}

impl<'a> WayIn<'a> {
    /// By these flags and what the config file says.
    ///
    /// # Errors
    /// Those of reading the provider file.
    pub fn of(
        flags: &'a Access,
        trust_server: bool,
        config: &'a Config,
        env: &'a Env,
        chosen: &'a Chosen,
    ) -> Result<Self> {
        let file = providers::load(flags.clusterprofile_provider_file.as_deref(), config, env)?;
        let (book, once) = Default::default();
        Ok(Self { flags, trust_server, config, file, env, chosen, book, once })
    }
}

impl WayIn<'_> {
    fn hub(&self) -> &Hub {
        &self.chosen.hub
    }

    /// The way in that is taken: the named provider's, else the first that can be used here.
    ///
    /// # Errors
    /// Each link's own: access, account, trust.
    pub async fn take(&self, client: &Client, profile: &ClusterProfile, may_ask: bool) -> Result<Found> {
        let ocm = Provider::OpenClusterManagement.name();
        let wanted = if self.flags.hub_identity { Some(ocm) } else { self.flags.provider.as_deref() };
        match access::resolve(profile, &self.providers(), wanted) {
            Ok(access) => self.by(client, profile, &access, may_ask).await,
            Err(error) => match self.mirrored(client, profile).await {
                Some(found) => found,
                None => Err(error),
            },
        }
    }

    /// The way into the Cluster API cluster that a profile without any access provider mirrors: the one of its
    /// namespace and name. Server, CA and credential are all out of that cluster's own Secret.
    pub async fn mirrored(&self, client: &Client, profile: &ClusterProfile) -> Option<Result<Found>> {
        let Metadata { namespace, name, .. } = &profile.metadata;
        let chosen = self.flags.provider.is_some() || self.flags.hub_identity;
        if chosen || !profile.access_providers().providers.is_empty() {
            return None;
        }
        let of = detect::first(client, Some(Origin::Capi(CapiVersion::V1Beta2))).await.ok()?;
        let scope = Scope::Namespace(namespace.clone());
        let found = look_up::<CapiCluster>(client, &self.hub().context, &scope, of.api(), name).await;
        let cluster = found.ok()?.ok()?.pop()?;
        Some(self.capi(client, &cluster).await)
    }

    /// This way in.
    ///
    /// # Errors
    /// As [`WayIn::take`].
    pub async fn by(
        &self,
        client: &Client,
        profile: &ClusterProfile,
        access: &access::Access<'_>,
        may_ask: bool,
    ) -> Result<Found> {
        let passed_over = match access.way {
            Way::BuiltIn(provider) => {
                return self.built_in(client, profile, provider, access.cluster, may_ask).await;
            }
            Way::File(provider) => match self.plugin(client, profile, provider, access.cluster).await? {
                Some(found) => return Ok(found),
                None => &provider.name,
            },
        };
        let own = Provider::OpenClusterManagement;
        let mut found = self.built_in(client, profile, own, access.cluster, may_ask).await?;
        found.notes.insert(
            0,
            format!(
                "note: {passed_over} of the provider file is passed over: its plugin keeps no tunnel, and this cluster is reached through one"
            ),
        );
        Ok(found)
    }

    /// What this machine can use.
    pub fn providers(&self) -> Providers<'_> {
        // A plugin logs in by itself: it cannot be told to take the hub's login.
        let file = if self.flags.hub_identity { &[] } else { self.file.as_slice() };
        Providers { file, built_in: access::BUILT_IN }
    }

    /// By one of our own providers.
    async fn built_in(
        &self,
        client: &Client,
        profile: &ClusterProfile,
        provider: Provider,
        published: &ProviderCluster,
        may_ask: bool,
    ) -> Result<Found> {
        if provider != Provider::OpenClusterManagement {
            self.refuse_ocms_flags(provider.name())?;
        }
        match provider {
            Provider::OpenClusterManagement => self.ocm(client, profile, published, may_ask).await,
            Provider::SecretReader => self.token_secret(client, profile, published, may_ask).await,
            Provider::KubeconfigSecretReader => self.kubeconfig_secret(client, profile, published).await,
        }
    }

    /// With the token of a managed service account, or with the hub's own where that is asked for.
    async fn ocm(
        &self,
        client: &Client,
        profile: &ClusterProfile,
        published: &ProviderCluster,
        may_ask: bool,
    ) -> Result<Found> {
        let name = &profile.metadata.name;
        let mut notes = Vec::new();
        let cluster = endpoint::check(name, published, self.flags.allow_insecure)?;
        let source = match self.flags.hub_identity {
            true => self.hub_identity(profile.managed_cluster(), &mut notes)?,
            false => {
                let wanted = self.flags.managed_serviceaccount.as_deref();
                accounts::choose(client, &self.book, profile, wanted).await?
            }
        };
        self.ours(client, name, cluster, profile.managed_cluster(), source, may_ask, notes).await
    }

    /// By our own plugin with this source, to the published server if that may be given the token.
    #[expect(clippy::too_many_arguments, reason = "each is one fact about the way")]
    async fn ours(
        &self,
        client: &Client,
        name: &str,
        cluster: ClusterEntry,
        managed: &str,
        source: Source,
        may_ask: bool,
        mut notes: Vec<String>,
    ) -> Result<Found> {
        let namespace = self.once.user_server_namespace(client).await?;
        let agreed = self.trust(&cluster, managed, token_of(&source), namespace, may_ask, &mut notes).await?;
        let host = endpoint::parse_server(&cluster.server).map(|server| server.host).unwrap_or_default();
        if trust::is_user_server(&host, namespace)
            && let Some(warning) = self.once.missing_user_server(client, namespace).await?
        {
            notes.push(format!("warning: {}; {}", warning.cause, warning.remedy));
        }
        let (cluster, tunnel) = self.reach(cluster, managed, namespace, agreed.is_some(), &mut notes).await?;
        if let Some(tunnel) = &tunnel {
            notes.push(format!(
                "note: {name} is reached through a tunnel over the hub to {} (port {} here)",
                tunnel.target(),
                tunnel.port
            ));
        }
        Ok(Found { cluster, login: Login::Ours { source, tunnel }, notes, agreed })
    }

    /// By a plugin of the provider file, which kubectl runs itself; `None` where the cluster must be
    /// reached through a tunnel and we could keep one instead.
    async fn plugin(
        &self,
        client: &Client,
        profile: &ClusterProfile,
        provider: &FileProvider,
        published: &ProviderCluster,
    ) -> Result<Option<Found>> {
        let name = &profile.metadata.name;
        let mut notes = Vec::new();
        self.refuse_ocms_flags(&provider.name)?;
        let cluster = endpoint::check(name, published, self.flags.allow_insecure)?;
        let ocm = provider.name == Provider::OpenClusterManagement.name();
        if self.flags.reach == Reach::Tunnel && !ocm {
            return Err(Error::new(
                Kind::Usage,
                format!("provider {} has a plugin of its own, which keeps no tunnel", provider.name),
            )
            .remedy("leave --reach tunnel out, or publish an address that can be reached"));
        }
        let namespace = match ocm {
            true => self.once.user_server_namespace(client).await?,
            false => trust::DEFAULT_NAMESPACE,
        };
        let (mut cluster, tunnel) =
            self.reach(cluster, profile.managed_cluster(), namespace, false, &mut notes).await?;
        if tunnel.is_some() {
            return Ok(None);
        }
        let merged = policy::merge(&provider.exec, &provider.policy, published)?;
        notes.extend(merged.taken.iter().map(|what| format!("note: from the profile of {name}: {what}")));
        if !merged.left_out.is_empty() {
            let what = merged.left_out.join(", ");
            notes.push(format!("note: not taken from the profile of {name}: {what}"));
        }
        cluster.plugin_config =
            published.plugin_config().filter(|_| merged.exec.provide_cluster_info).cloned();
        Ok(Some(Found { cluster, login: Login::Plugin(merged.exec), notes, agreed: None }))
    }

    /// The hub, as a request pins it.
    ///
    /// # Errors
    /// Those of reading the hub's CA.
    pub fn pin(&self) -> Result<HubPin> {
        Ok(HubPin {
            kubeconfig: self.hub().files.clone(),
            context: self.hub().context.clone(),
            server: self.hub().server().to_owned(),
            ca: self.hub().ca_fingerprint()?,
            impersonate: self.chosen.impersonate.clone(),
        })
    }

    /// Refuses the flags that say who to be by OCM's way in, on another one.
    fn refuse_ocms_flags(&self, provider: &str) -> Result<()> {
        let flag = match (&self.flags.managed_serviceaccount, self.flags.hub_identity) {
            (Some(account), _) => format!("--managed-serviceaccount {account}"),
            (None, true) => "--hub-identity".to_owned(),
            (None, false) => return Ok(()),
        };
        Err(Error::new(Kind::Usage, format!("{flag} means nothing to provider {provider}"))
            .remedy("leave it out, or choose --provider open-cluster-management"))
    }
}

impl Found {
    /// What kubectl would log in with, and through what.
    pub fn in_words(&self) -> String {
        match &self.login {
            Login::HubUser(user) => format!("with the hub's own user {user}"),
            Login::Plugin(exec) => format!("by {} of the provider file", exec.command),
            Login::Ours { source, tunnel } => {
                let way = match tunnel {
                    Some(tunnel) => format!(" through a tunnel over the hub to {}", tunnel.target()),
                    None => String::new(),
                };
                let who = match source.managed() {
                    Some((_, account)) => format!("as managed service account {account}"),
                    None => format!("by credential-exec ({})", source.kind()),
                };
                format!("{who}{way}")
            }
        }
    }
}

/// Which token a source gives.
fn token_of(source: &Source) -> Token {
    match source {
        Source::SyncedSecret { .. } | Source::TokenSecret { owner: Some(_), .. } => Token::Bound,
        Source::HubIdentity { .. } => Token::Hub,
        Source::TokenSecret { owner: None, .. }
        | Source::ManagedServiceAccount { .. }
        | Source::KubeconfigSecret { .. } => Token::Unbound,
    }
}
