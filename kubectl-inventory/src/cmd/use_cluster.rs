//! `use NAME`: one ClusterProfile becomes a context. All network comes first; then one edit.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use credential_exec::cache::Cache;
use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::client::Options;
use credential_exec::hub::kubeconfig::{Cluster, User};
use credential_exec::hub::{Client, Hub};
use credential_exec::key::sha256;
use credential_exec::request::{CredentialRequest, DEFAULT_TIMEOUT, HubPin, ProfileRef, Source, Tunnel};
use credential_exec::tunnel;

use crate::access::kubeconfig::{ClusterEntry, ExecEntry, render};
use crate::access::provider_file::FileProvider;
use crate::access::reach::{self, Reach};
use crate::access::trust::{self, Known, Remembered, Verdict};
use crate::access::{self, Provider, Providers, Way, endpoint, policy};
use crate::cli::{Global, Use};
use crate::cmd::list::{Scope, find};
use crate::cmd::{accounts, switch, version};
use crate::config::Config;
use crate::hub::Chosen;
use crate::inventory::ClusterProfile;
use crate::inventory::cluster_profile::{Metadata, ProviderCluster};
use crate::kubeconfig_file::{self, Change, Document, Entry, Mark};
use crate::{hub, term, trust_store};

/// A way in, made ready.
struct Found {
    cluster: ClusterEntry,
    login: Login,
    notes: Vec<String>,
    agreed: Option<Remembered>,
}

/// Everything that `use` is given.
pub struct UseCluster<'a> {
    /// The verb's own flags.
    pub options: &'a Use,
    /// The hub's flags.
    pub global: &'a Global,
    /// The config file.
    pub config: &'a Config,
    /// The provider file.
    pub file: Vec<FileProvider>,
    /// The surroundings.
    pub env: &'a Env,
    /// The hub.
    pub chosen: &'a Chosen,
}

/// What one profile would become.
struct Plan {
    profile: ClusterProfile,
    cluster: ClusterEntry,
    login: Login,
    notes: Vec<String>,
    agreed: Option<Remembered>,
}

/// What kubectl logs in with.
enum Login {
    /// credential-exec, and what it is asked for.
    Ours { source: Source, tunnel: Option<Tunnel> },
    /// A plugin of the person's provider file.
    Plugin(ExecEntry),
}

impl UseCluster<'_> {
    fn hub(&self) -> &Hub {
        &self.chosen.hub
    }

    /// Resolves the cluster, writes its context and switches to it.
    ///
    /// # Errors
    /// Each link's own: hub, profile, access, account, trust, file.
    pub async fn run(&self, name: &str, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let command = self.exec_command()?;
        let client = hub::connect(self.hub(), self.global, self.env).await?;
        let scope = Scope::new(
            self.global.namespace.as_deref(),
            false,
            self.hub().namespace.as_deref(),
            self.config.namespace.as_deref(),
        );
        let profiles = find(&client, &self.hub().context, &scope, name).await?;
        let plan = self.the_usable_one(&client, name, profiles).await?;
        for note in &plan.notes {
            let _ = writeln!(err, "{}", printable(note));
        }
        if let Some(agreed) = &plan.agreed {
            trust_store::remember(self.env, agreed)?;
        }
        self.write(&plan, &command, out)?;
        Cache::of(self.env).forget_failures();
        Ok(())
    }

    /// Of profiles of the same name in several namespaces, the only one that can be used.
    async fn the_usable_one(
        &self,
        client: &Client,
        name: &str,
        profiles: Vec<ClusterProfile>,
    ) -> Result<Plan> {
        let several = profiles.len() > 1;
        let (mut plans, mut failures) = (Vec::new(), Vec::new());
        for profile in profiles {
            let id = format!("{}/{}", profile.metadata.namespace, profile.metadata.name);
            match self.plan(client, profile, !several).await {
                Ok(plan) => plans.push((id, plan)),
                Err(error) if error.kind == Kind::Unreachable => return Err(error),
                Err(error) => failures.push((id, error)),
            }
        }
        if plans.len() == 1 {
            return Ok(plans.remove(0).1);
        }
        if !several && let Some((_, error)) = failures.pop() {
            return Err(error);
        }
        let mut candidates: Vec<String> = plans.into_iter().map(|(id, _)| id).collect();
        candidates.extend(failures.into_iter().map(|(id, error)| format!("{id} ({})", error.cause)));
        Err(Error::new(
            Kind::Usage,
            format!("{name} is the name of several profiles: {}", candidates.join(", ")),
        )
        .remedy("choose one with NAMESPACE/NAME or -n NAMESPACE"))
    }

    async fn plan(&self, client: &Client, profile: ClusterProfile, may_ask: bool) -> Result<Plan> {
        let mut notes = Vec::new();
        if profile.access_providers().deprecated {
            let name = &profile.metadata.name;
            notes.push(format!("note: the profile of {name} uses the deprecated field credentialProviders"));
        }
        let wanted = self.options.access.provider.as_deref();
        let providers = Providers { file: &self.file, built_in: access::BUILT_IN };
        let access = access::resolve(&profile, &providers, wanted)?;
        let found = match access.way {
            Way::BuiltIn(provider) => {
                self.built_in(client, &profile, provider, access.cluster, may_ask).await?
            }
            Way::File(provider) => match self.plugin(client, &profile, provider, access.cluster).await? {
                Some(found) => found,
                None => {
                    let own = Provider::OpenClusterManagement;
                    notes.push(format!(
                        "note: {} of the provider file is passed over: its plugin keeps no tunnel, and this cluster is reached through one",
                        provider.name
                    ));
                    self.built_in(client, &profile, own, access.cluster, may_ask).await?
                }
            },
        };
        notes.extend(found.notes);
        Ok(Plan { profile, cluster: found.cluster, login: found.login, notes, agreed: found.agreed })
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
        let Provider::OpenClusterManagement = provider;
        let name = &profile.metadata.name;
        let mut notes = Vec::new();
        let cluster = endpoint::check(name, published, self.options.allow_insecure)?;
        let source =
            accounts::choose(client, profile, self.options.managed_serviceaccount.as_deref()).await?;
        let namespace = accounts::user_server_namespace(client).await?;
        let agreed = self.trust(&cluster, &source, &namespace, may_ask, &mut notes)?;
        let host = endpoint::parse_server(&cluster.server).map(|server| server.host).unwrap_or_default();
        if trust::is_user_server(&host, &namespace)
            && let Some(warning) = accounts::missing_user_server(client, &namespace).await?
        {
            notes.push(format!("warning: {}; {}", warning.cause, warning.remedy));
        }
        let (cluster, tunnel) =
            self.reach(cluster, source.cluster(), &namespace, agreed.is_some(), &mut notes).await?;
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
        if let Some(account) = &self.options.managed_serviceaccount {
            return Err(Error::new(
                Kind::Usage,
                format!("--managed-serviceaccount {account} means nothing to provider {}", provider.name),
            )
            .remedy("leave it out, or choose --provider open-cluster-management"));
        }
        let cluster = endpoint::check(name, published, self.options.allow_insecure)?;
        let ocm = provider.name == Provider::OpenClusterManagement.name();
        if self.options.reach == Reach::Tunnel && !ocm {
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
        let wanted = self.options.reach;
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
        let hub = Hub {
            context: published.server.clone(),
            namespace: None,
            cluster: Cluster {
                server: published.server.clone(),
                tls_server_name: published.tls_server_name.clone(),
                insecure_skip_tls_verify: published.insecure,
                certificate_authority_data: published.ca_data.clone(),
                proxy_url: published.proxy_url.clone().map(Into::into),
                ..Cluster::default()
            },
            user: User::default(),
            files: Vec::new(),
        };
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

    fn pin(&self) -> Result<HubPin> {
        Ok(HubPin {
            kubeconfig: self.hub().files.clone(),
            context: self.hub().context.clone(),
            server: self.hub().server().to_owned(),
            ca: self.hub().ca_fingerprint()?,
            impersonate: self.chosen.impersonate.clone(),
        })
    }

    /// Whether this server may be given this account's token; asks the person where it is theirs to say.
    fn trust(
        &self,
        cluster: &ClusterEntry,
        source: &Source,
        user_server_namespace: &str,
        may_ask: bool,
        notes: &mut Vec<String>,
    ) -> Result<Option<Remembered>> {
        let managed = source.cluster();
        let offer = self.offer(cluster, managed)?;
        let remembered = trust_store::load(self.env)?;
        let known =
            Known { user_server_namespace, hosts: &self.config.trusted_hosts, remembered: &remembered };
        let verdict = match source {
            Source::SyncedSecret { .. } => trust::judge_bound(&offer, &known),
            Source::ManagedServiceAccount { .. } => trust::judge(&offer, &known),
        };
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
        if self.options.trust_server {
            notes.push(format!("trusting from now on: {question}"));
            return Ok(Some(offer));
        }
        if may_ask && person_agrees(self.env, &question) {
            return Ok(Some(offer));
        }
        Err(Error::new(Kind::Refused, format!("{question}, which is not OCM's user-server"))
            .remedy("if that server is the cluster's, add --trust-server"))
    }

    fn exec_command(&self) -> Result<String> {
        let path = match &self.options.exec_command {
            // kubectl resolves a relative path against the kubeconfig's folder; a bare name is looked for on PATH.
            Some(path) if path.components().count() > 1 => {
                std::path::absolute(path).unwrap_or_else(|_| path.clone())
            }
            Some(path) => path.clone(),
            None => version::companion(self.env)?,
        };
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Error::new(Kind::Usage, format!("the path {} is not UTF-8", path.display()))
                .remedy("name credential-exec by another path with --exec-command")
        })
    }

    fn write(&self, plan: &Plan, command: &str, out: &mut dyn Write) -> Result<()> {
        let print = self.options.output.as_deref() == Some(Path::new("-"));
        if print {
            let mut document = Document::empty();
            let entry = self.entry(plan, command, &document)?;
            document.put(&entry, true)?;
            document.set_current_context(&entry.context);
            return out.write_all(document.to_yaml().as_bytes()).map_err(term::not_written);
        }
        let target: PathBuf = match &self.options.output {
            Some(path) => path.clone(),
            None => kubeconfig_file::target(self.env, self.global.kubeconfig.as_deref())?,
        };
        // The current context may stand in another file of the list than the one written.
        let elsewhere = self.chosen.current_context.as_deref().filter(|_| self.options.output.is_none());
        let (change, name, old) = kubeconfig_file::edit(&target, self.env.clock(), |document| {
            let entry = self.entry(plan, command, document)?;
            let change = document.put(&entry, self.options.force)?;
            let old = match self.options.no_switch {
                true => None,
                false => document.switch(elsewhere, &entry.context),
            };
            Ok((change, entry.context, old))
        })?;
        if let Change::Updated(update) = &change {
            for (what, changed) in [("server", &update.server), ("CA", &update.ca)] {
                if let Some((old, new)) = changed {
                    let _ = writeln!(out, "{what} {} → {}", shown(old), shown(new));
                }
            }
        }
        if self.options.no_switch {
            let _ = writeln!(out, "context {} written", printable(&name));
        } else {
            switch::say(old.as_deref(), &name, out);
        }
        Ok(())
    }

    fn entry(&self, plan: &Plan, command: &str, document: &Document) -> Result<Entry> {
        let meta = &plan.profile.metadata;
        let account = match &plan.login {
            Login::Ours { source, .. } => Some(source.account().to_owned()),
            Login::Plugin(_) => None,
        };
        let mark = Mark {
            hub: hub::fingerprint(self.hub())?,
            hub_context: self.hub().context.clone(),
            profile: format!("{}/{}", meta.namespace, meta.name),
            account,
            uid: meta.uid.clone(),
        };
        let name = self.options.context_name.clone().unwrap_or_else(|| document.name_for(&mark));
        let exec = match &plan.login {
            Login::Ours { source, tunnel } => self.credential_exec(meta, source, tunnel.as_ref(), command)?,
            Login::Plugin(exec) => exec.clone(),
        };
        Ok(render(&name, &plan.cluster, &exec, None, mark))
    }

    /// Our own plugin, asked for this cluster's credential.
    fn credential_exec(
        &self,
        meta: &Metadata,
        source: &Source,
        tunnel: Option<&Tunnel>,
        command: &str,
    ) -> Result<ExecEntry> {
        let request = CredentialRequest {
            hub: self.pin()?,
            profile: ProfileRef {
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
            },
            source: source.clone(),
            tunnel: tunnel.cloned(),
            timeout: DEFAULT_TIMEOUT,
            max_age: self.config.max_age(),
            no_cache: self.options.no_cache,
        };
        Ok(ExecEntry {
            api_version: self.options.exec_api_version,
            command: command.to_owned(),
            args: request.to_args()?,
            install_hint: Some(
                "This context needs credential-exec, a part of the kubectl plugin `inventory`.".to_owned(),
            ),
            provide_cluster_info: true,
            ..ExecEntry::default()
        })
    }
}

/// What the person is asked: who would be given whose token.
fn question(offer: &Remembered) -> String {
    let ca = format!("CA SHA-256 {}", &offer.ca[..16]);
    let how = if offer.detour.is_empty() { ca } else { format!("{ca}, {}", offer.detour) };
    format!("{}'s token would be sent to {} ({})", offer.cluster, printable(&offer.server), printable(&how))
}

/// A server as it is, a CA by its fingerprint.
fn shown(value: &str) -> String {
    if value.len() > 200 { sha256(&[value])[..16].to_owned() } else { printable(value) }
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
