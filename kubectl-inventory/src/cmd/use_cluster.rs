//! `use NAME`: one ClusterProfile becomes a context. All network comes first; then one edit.

use std::io::Write;
use std::path::{Path, PathBuf};

use credential_exec::cache::Cache;
use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::{Client, Hub};
use credential_exec::key::sha256;
use credential_exec::request::{CredentialRequest, DEFAULT_TIMEOUT, ProfileRef, Source, Tunnel};

use crate::access::kubeconfig::{ExecEntry, UserEntry, render};
use crate::cli::{Global, Use};
use crate::cmd::list::{Scope, find};
use crate::cmd::way_in::{Found, Login, WayIn};
use crate::cmd::{detect, switch, version};
use crate::inventory::capi::CapiCluster;
use crate::inventory::cluster_profile::Metadata;
use crate::inventory::managed_cluster::ManagedCluster;
use crate::inventory::{ClusterProfile, Origin};
use crate::kubeconfig_file::{self, Change, Document, Entry, Mark};
use crate::{hub, term, trust_store};

/// Everything that `use` is given.
pub struct UseCluster<'a> {
    /// The verb's own flags.
    pub options: &'a Use,
    /// The hub's flags.
    pub global: &'a Global,
    /// Which way in is taken.
    pub way: WayIn<'a>,
}

/// What one profile would become.
struct Plan {
    profile: Metadata,
    found: Found,
}

impl UseCluster<'_> {
    fn hub(&self) -> &Hub {
        &self.way.chosen.hub
    }

    /// Resolves the cluster, writes its context and switches to it.
    ///
    /// # Errors
    /// Each link's own: hub, profile, access, account, trust, file.
    pub async fn run(&self, name: &str, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let command = self.exec_command()?;
        let client = hub::connect(self.hub(), self.global, self.way.env).await?;
        let scope = Scope::new(
            self.global.namespace.as_deref(),
            false,
            self.hub().namespace.as_deref(),
            self.way.config.namespace.as_deref(),
        );
        let wanted = self.options.source;
        let of = detect::first(&client, wanted).await?;
        let tried = match self.tries(&client, of, &scope, name).await {
            Err(error) => {
                let of = detect::instead(&client, wanted, of, error).await?;
                self.tries(&client, of, &scope, name).await?
            }
            Ok(tried) => tried,
        };
        let plan = the_usable_one(name, tried)?;
        for note in &plan.found.notes {
            let _ = writeln!(err, "{}", printable(note));
        }
        if let Some(agreed) = &plan.found.agreed {
            trust_store::remember(self.way.env, agreed)?;
        }
        self.write(&plan, &command, out)?;
        Cache::of(self.way.env).forget_failures();
        Ok(())
    }

    /// What each object of this name would become: one for each namespace that has it.
    async fn tries(&self, client: &Client, of: Origin, scope: &Scope, name: &str) -> Result<Vec<Try>> {
        let context = &self.hub().context;
        let mut tried = Vec::new();
        match of {
            Origin::ClusterProfile => {
                let profiles: Vec<ClusterProfile> = find(client, context, scope, of.api(), name).await?;
                let may_ask = profiles.len() == 1;
                for profile in profiles {
                    let found =
                        self.way.take(client, &profile, may_ask).await.map(|found| noted(&profile, found));
                    tried.push((profile.metadata, found));
                }
            }
            Origin::ManagedCluster => {
                let clusters: Vec<ManagedCluster> = find(client, context, scope, of.api(), name).await?;
                let may_ask = clusters.len() == 1;
                for cluster in clusters {
                    let own_file = self.options.output.is_none();
                    let found = self.way.managed_cluster(client, &cluster, own_file, may_ask).await;
                    tried.push((cluster.metadata, found));
                }
            }
            Origin::Capi(_) => {
                let clusters: Vec<CapiCluster> = find(client, context, scope, of.api(), name).await?;
                for cluster in clusters {
                    let found = self.way.capi(client, &cluster).await;
                    tried.push((cluster.metadata, found));
                }
            }
        }
        Ok(tried)
    }

    fn exec_command(&self) -> Result<String> {
        let path = match &self.options.exec_command {
            // kubectl resolves a relative path against the kubeconfig's folder; a bare name is looked for on PATH.
            Some(path) if path.components().count() > 1 => {
                std::path::absolute(path).unwrap_or_else(|_| path.clone())
            }
            Some(path) => path.clone(),
            None => version::companion(self.way.env)?,
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
            None => kubeconfig_file::target(self.way.env, self.global.kubeconfig.as_deref())?,
        };
        // The current context may stand in another file of the list than the one written.
        let elsewhere = self.way.chosen.current_context.as_deref().filter(|_| self.options.output.is_none());
        let (change, name, old) = kubeconfig_file::edit(&target, self.way.env.clock(), |document| {
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
        let meta = &plan.profile;
        let account = match &plan.found.login {
            Login::Ours { source: source @ Source::HubIdentity { certificate: false }, .. } => {
                Some(source.kind().to_owned())
            }
            Login::Ours { source, .. } => source.managed().map(|(_, account)| account.to_owned()),
            Login::Plugin(_) | Login::HubUser(_) => None,
        };
        let mark = Mark {
            hub: hub::fingerprint(self.hub())?,
            hub_context: self.hub().context.clone(),
            profile: format!("{}/{}", namespace_of(meta), meta.name),
            account,
            uid: meta.uid.clone(),
        };
        let name = self.options.context_name.clone().unwrap_or_else(|| document.name_for(&mark));
        let user = match &plan.found.login {
            Login::Ours { source, tunnel } => {
                UserEntry::Exec(self.credential_exec(meta, source, tunnel.as_ref(), command)?)
            }
            Login::Plugin(exec) => UserEntry::Exec(exec.clone()),
            Login::HubUser(name) => UserEntry::Named(name.clone()),
        };
        Ok(render(&name, &plan.found.cluster, &user, None, mark))
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
            hub: self.way.pin()?,
            profile: ProfileRef {
                namespace: namespace_of(meta).to_owned(),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
            },
            source: source.clone(),
            tunnel: tunnel.cloned(),
            timeout: DEFAULT_TIMEOUT,
            max_age: self.way.config.max_age(),
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

/// The namespace of an object; a ManagedCluster has one on the hub that bears its name.
pub(super) fn namespace_of(meta: &Metadata) -> &str {
    if meta.namespace.is_empty() { &meta.name } else { &meta.namespace }
}

/// An object, and the way into its cluster.
type Try = (Metadata, Result<Found>);

/// Of objects of the same name in several namespaces, the only one that can be used.
fn the_usable_one(name: &str, tried: Vec<Try>) -> Result<Plan> {
    let several = tried.len() > 1;
    let (mut plans, mut failures) = (Vec::new(), Vec::new());
    for (profile, found) in tried {
        let id = format!("{}/{}", profile.namespace, profile.name);
        match found {
            Ok(found) => plans.push((id, Plan { profile, found })),
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
    let cause = format!("{name} is the name of several profiles: {}", candidates.join(", "));
    Err(Error::new(Kind::Usage, cause).remedy("choose one with NAMESPACE/NAME or -n NAMESPACE"))
}

fn noted(profile: &ClusterProfile, mut found: Found) -> Found {
    if profile.access_providers().deprecated {
        let name = &profile.metadata.name;
        let note = format!("note: the profile of {name} uses the deprecated field credentialProviders");
        found.notes.insert(0, note);
    }
    found
}

/// A server as it is, a CA by its fingerprint.
fn shown(value: &str) -> String {
    if value.len() > 200 { sha256(&[value])[..16].to_owned() } else { printable(value) }
}
