//! The way into a cluster, made ready to be written: by a provider of ours or a plugin of the provider file,
//! to a server that may be given the token, directly or through a tunnel. Asks the hub, writes nothing.

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::client::Options;
use credential_exec::hub::kubeconfig::{Cluster, User};
use credential_exec::hub::{Client, Hub};
use credential_exec::key::sha256;
use credential_exec::request::{HubPin, Impersonate, SecretKey, Source, Spoke, Tunnel};
use credential_exec::source::kubeconfig_secret;
use credential_exec::tunnel;
use secrecy::ExposeSecret;

use crate::access::kubeconfig::{ClusterEntry, ExecEntry};
use crate::access::provider_file::FileProvider;
use crate::access::reach::{self, Reach};
use crate::access::trust::{self, Known, Remembered, Verdict};
use crate::access::{self, Provider, Providers, Way, endpoint, gateway, policy};
use crate::cli::Access;
use crate::cmd::{accounts, detect};
use crate::config::Config;
use crate::hub::Chosen;
use crate::inventory::ClusterProfile;
use crate::inventory::capi::{self, CapiCluster};
use crate::inventory::cluster_profile::{PLUGIN_EXTENSION, ProviderCluster};
use crate::{hub, trust_store};

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
        let access = access::resolve(profile, &self.providers(), self.flags.provider.as_deref())?;
        self.by(client, profile, &access, may_ask).await
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
        Providers { file: &self.file, built_in: access::BUILT_IN }
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
        if let (Some(account), false) =
            (&self.flags.managed_serviceaccount, provider == Provider::OpenClusterManagement)
        {
            return Err(no_account(account, provider.name()));
        }
        match provider {
            Provider::OpenClusterManagement => self.ocm(client, profile, published, may_ask).await,
            Provider::SecretReader => self.token_secret(client, profile, published, may_ask).await,
            Provider::KubeconfigSecretReader => self.kubeconfig_secret(client, profile, published).await,
        }
    }

    /// With the token of a managed service account.
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
        let source = accounts::choose(client, profile, self.flags.managed_serviceaccount.as_deref()).await?;
        let namespace = accounts::user_server_namespace(client).await?;
        let managed = profile.managed_cluster();
        let bound = matches!(source, Source::SyncedSecret { .. });
        let agreed = self.trust(&cluster, managed, bound, &namespace, may_ask, &mut notes)?;
        let host = endpoint::parse_server(&cluster.server).map(|server| server.host).unwrap_or_default();
        if trust::is_user_server(&host, &namespace)
            && let Some(warning) = accounts::missing_user_server(client, &namespace).await?
        {
            notes.push(format!("warning: {}; {}", warning.cause, warning.remedy));
        }
        self.ours(name, cluster, managed, &namespace, source, agreed, notes).await
    }

    /// With the token in the Secret that is named after the cluster, in the profile's namespace.
    async fn token_secret(
        &self,
        client: &Client,
        profile: &ClusterProfile,
        published: &ProviderCluster,
        may_ask: bool,
    ) -> Result<Found> {
        let name = &profile.metadata.name;
        let mut notes = Vec::new();
        let cluster = endpoint::check(name, published, self.flags.allow_insecure)?;
        let secret = told_by_cluster_name(profile, published)?;
        let owner = accounts::secret_metadata(client, &secret)
            .await?
            .is_some_and(|metadata| metadata.belongs_to(profile))
            .then(|| profile.metadata.uid.clone());
        let namespace = accounts::user_server_namespace(client).await?;
        let managed = secret.name.clone();
        let agreed = self.trust(&cluster, &managed, owner.is_some(), &namespace, may_ask, &mut notes)?;
        let source = Source::TokenSecret { secret, owner };
        self.ours(name, cluster, &managed, &namespace, source, agreed, notes).await
    }

    /// With what a kubeconfig in a Secret logs in with. Server and CA are that kubeconfig's, and the profile
    /// must publish the same: the credential goes nowhere else.
    async fn kubeconfig_secret(
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
    ///
    /// # Errors
    /// Those of reading it.
    pub async fn by_kubeconfig(
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
        if let Some(account) = &self.flags.managed_serviceaccount {
            return Err(no_account(account, "Cluster API"));
        }
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

    /// Into a ManagedCluster: by cluster-gateway, with the hub's own credentials. `own_file` is whether the
    /// hub's user entry is in the kubeconfig that is written.
    ///
    /// # Errors
    /// A hub without cluster-gateway: a ManagedCluster publishes no address that could be used.
    pub async fn managed_cluster(&self, client: &Client, name: &str, own_file: bool) -> Result<Found> {
        if let Some(account) = &self.flags.managed_serviceaccount {
            return Err(no_account(account, "cluster-gateway"));
        }
        if !detect::has_gateway(client).await? {
            return Err(Error::new(Kind::NotFound, format!("ManagedCluster {name} publishes no address"))
                .remedy("turn on OCM's ClusterProfile feature gate and cluster-proxy (docs/hub-setup.md), or install cluster-gateway"));
        }
        let hub = hub::entry(self.hub(), self.flags.allow_insecure)?;
        let user =
            self.chosen.user().filter(|_| own_file && self.chosen.impersonate == Impersonate::default());
        let login = match user {
            Some(user) => Login::HubUser(user.to_owned()),
            None if self.chosen.impersonate == Impersonate::default() => {
                Login::Ours { source: Source::HubIdentity { certificate: true }, tunnel: None }
            }
            None => {
                return Err(Error::new(
                    Kind::Usage,
                    "a context by cluster-gateway cannot impersonate by itself",
                )
                .remedy("leave --as out here, and give it to kubectl: it acts on the hub"));
            }
        };
        let note = format!("note: {name} is reached through cluster-gateway, with the hub's own credentials");
        Ok(Found { cluster: gateway::through(&hub, name), login, notes: vec![note], agreed: None })
    }

    /// By our own plugin with this source, to a server that was found worthy of it.
    #[expect(clippy::too_many_arguments, reason = "each is one fact about the way, found before")]
    async fn ours(
        &self,
        name: &str,
        cluster: ClusterEntry,
        managed: &str,
        user_server_namespace: &str,
        source: Source,
        agreed: Option<Remembered>,
        mut notes: Vec<String>,
    ) -> Result<Found> {
        let (cluster, tunnel) =
            self.reach(cluster, managed, user_server_namespace, agreed.is_some(), &mut notes).await?;
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
        if let Some(account) = &self.flags.managed_serviceaccount {
            return Err(no_account(account, &provider.name));
        }
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
            true => accounts::user_server_namespace(client).await?,
            false => trust::DEFAULT_NAMESPACE.to_owned(),
        };
        let (mut cluster, tunnel) =
            self.reach(cluster, profile.managed_cluster(), &namespace, false, &mut notes).await?;
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

    /// How the published server is reached from here.
    async fn reach(
        &self,
        published: ClusterEntry,
        managed: &str,
        user_server_namespace: &str,
        agreed: bool,
        notes: &mut Vec<String>,
    ) -> Result<(ClusterEntry, Option<Tunnel>)> {
        let wanted = self.flags.reach;
        if wanted != Reach::Tunnel
            && let Some(moved) = reach::by_rule(&published, &self.config.reach)
        {
            return Ok((moved, None));
        }
        if wanted == Reach::Direct {
            return Ok((published, None));
        }
        let remembered = trust_store::load(self.env)?;
        let known =
            Known { user_server_namespace, hosts: &self.config.trusted_hosts, remembered: &remembered };
        let offer = self.offer(&published, managed)?;
        // Only to a Service that is OCM's, or that the person trusts: not to whatever a profile names.
        let trusted = agreed || trust::judge(&offer, &known) == Verdict::Trusted;
        let service = reach::service(&published);
        let Some(service) = service.clone().filter(|_| trusted) else {
            if wanted == Reach::Auto {
                if let Some(service) = service
                    && !self.answers_here(&published).await
                {
                    let host = format!("{}.{}", service.service, service.namespace);
                    notes.push(format!(
                        "note: {host} looks like a Service on the hub and does not answer here; \
                         for a tunnel to it, add {host} to trustedHosts in the config file"
                    ));
                }
                return Ok((published, None));
            }
            return Err(Error::new(
                Kind::Refused,
                format!("{} names no Service on the hub that a tunnel may lead to", published.server),
            )
            .remedy("tunnels lead to OCM's user-server, or to a Service NAME.NAMESPACE in trustedHosts"));
        };
        if wanted == Reach::Auto && self.answers_here(&published).await {
            return Ok((published, None));
        }
        let port = tunnel::choose_port(&self.pin()?, &service.target(), self.env)?;
        let tunnel = Tunnel { port, idle: self.config.tunnel_idle(), ..service };
        Ok((reach::through(&published, port)?, Some(tunnel)))
    }

    /// Whether the published server answers on this machine's own way, and is the published one: names
    /// resolve by accident, and something else may answer there.
    async fn answers_here(&self, published: &ClusterEntry) -> bool {
        const LIMIT: Duration = Duration::from_secs(2);
        let hub = bare(published);
        let options = Options { deadline: LIMIT, ..Options::default() };
        let shaken = async {
            let client = Client::connect(&hub, self.env, options).await.ok()?;
            client.handshake().await.ok()
        };
        matches!(tokio::time::timeout(LIMIT, shaken).await, Ok(Some(())))
    }

    /// Which server is to be given whose token.
    fn offer(&self, cluster: &ClusterEntry, managed: &str) -> Result<Remembered> {
        Ok(Remembered {
            hub: hub::fingerprint(self.hub())?,
            cluster: managed.to_owned(),
            server: cluster.server.clone(),
            ca: sha256(&[cluster.ca_data.as_deref().unwrap_or("system")]),
            detour: trust::detour(cluster),
        })
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

    /// Whether this server may be given a token of this cluster, which may be bound to its profile; asks the
    /// person where it is theirs to say.
    fn trust(
        &self,
        cluster: &ClusterEntry,
        managed: &str,
        bound: bool,
        user_server_namespace: &str,
        may_ask: bool,
        notes: &mut Vec<String>,
    ) -> Result<Option<Remembered>> {
        let offer = self.offer(cluster, managed)?;
        let remembered = trust_store::load(self.env)?;
        let known =
            Known { user_server_namespace, hosts: &self.config.trusted_hosts, remembered: &remembered };
        let verdict = if bound { trust::judge_bound(&offer, &known) } else { trust::judge(&offer, &known) };
        let question = match verdict {
            Verdict::Trusted => return Ok(None),
            Verdict::Ask => question(&offer),
            Verdict::OtherCluster(other) => {
                return Err(Error::new(
                    Kind::Refused,
                    format!(
                        "the profile of {managed} publishes the address of another cluster, {other:?}: {}",
                        cluster.server
                    ),
                )
                .remedy("whoever wrote this profile would be given the token; ask the hub's administrator"));
            }
        };
        if self.trust_server {
            notes.push(format!("trusting from now on: {question}"));
            return Ok(Some(offer));
        }
        if may_ask && person_agrees(self.env, &question) {
            return Ok(Some(offer));
        }
        Err(Error::new(Kind::Refused, format!("{question}, which is not OCM's user-server"))
            .remedy("if that server is the cluster's, add --trust-server"))
    }
}

fn no_account(account: &str, provider: &str) -> Error {
    Error::new(
        Kind::Usage,
        format!("--managed-serviceaccount {account} means nothing to provider {provider}"),
    )
    .remedy("leave it out, or choose --provider open-cluster-management")
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
    let hub = bare(entry);
    Ok(Spoke { server: hub.server().to_owned(), ca: hub.ca_fingerprint()? })
}

/// The entry as an API to be asked, without anybody who asks.
fn bare(entry: &ClusterEntry) -> Hub {
    Hub {
        context: entry.server.clone(),
        namespace: None,
        cluster: Cluster {
            server: entry.server.clone(),
            tls_server_name: entry.tls_server_name.clone(),
            insecure_skip_tls_verify: entry.insecure,
            certificate_authority_data: entry.ca_data.clone(),
            proxy_url: entry.proxy_url.clone().map(Into::into),
            ..Cluster::default()
        },
        user: User::default(),
        files: Vec::new(),
    }
}

/// What the person is asked: who would be given whose token.
fn question(offer: &Remembered) -> String {
    let ca = format!("CA SHA-256 {}", &offer.ca[..16]);
    let how = if offer.detour.is_empty() { ca } else { format!("{ca}, {}", offer.detour) };
    format!("{}'s token would be sent to {} ({})", offer.cluster, printable(&offer.server), printable(&how))
}

/// Asks, if somebody is there to answer.
fn person_agrees(env: &Env, question: &str) -> bool {
    if !env.stdin_is_terminal || !std::io::stderr().is_terminal() || env.os("CI").is_some() {
        return false;
    }
    let _ = write!(std::io::stderr(), "{question}.\nIs that server the cluster's? [y/N] ");
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}
