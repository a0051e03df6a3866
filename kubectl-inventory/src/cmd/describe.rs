//! `describe NAME…`: everything known about a cluster, and for each access provider whether it can be used
//! here, and why not. Asks what `use` would ask, and writes nothing.

use std::io::Write;

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::{Client, Hub};
use credential_exec::key::sha256;

use crate::access::Access;
use crate::access::stale::Held;
use crate::cli::Global;
use crate::cmd::list::{Scope, find};
use crate::cmd::way_in::{Found, Login, WayIn};
use crate::hub;
use crate::inventory::cluster_profile::AccessProvider;
use crate::inventory::{Cluster, ClusterProfile, Origin};
use crate::output::description::{self, Part};
use crate::term::not_written;

/// Everything that `describe` is given.
pub struct Describe<'a> {
    /// The clusters.
    pub names: &'a [String],
    /// The hub's flags.
    pub global: &'a Global,
    /// Which way in is looked at.
    pub way: WayIn<'a>,
}

impl Describe<'_> {
    fn hub(&self) -> &Hub {
        &self.way.chosen.hub
    }

    /// Describes each cluster, in each namespace that has it.
    ///
    /// # Errors
    /// The hub's; a name that was not found, after those that were.
    pub async fn run(&self, out: &mut dyn Write) -> Result<()> {
        let client = hub::connect(self.hub(), self.global, self.way.env).await?;
        let scope = Scope::new(
            self.global.namespace.as_deref(),
            false,
            self.hub().namespace.as_deref(),
            self.way.config.namespace.as_deref(),
        );
        let held = self.way.chosen.held();
        let mut missing: Option<Error> = None;
        let mut first = true;
        for name in self.names {
            let profiles: Vec<ClusterProfile> =
                match find(&client, &self.hub().context, &scope, Origin::ClusterProfile.api(), name).await {
                    Ok(profiles) => profiles,
                    Err(error) => {
                        missing.get_or_insert(error);
                        continue;
                    }
                };
            for profile in &profiles {
                if !std::mem::replace(&mut first, false) {
                    writeln!(out, "\n").map_err(not_written)?;
                }
                let parts = self.parts(&client, profile, &held).await?;
                description::print(&parts, out).map_err(not_written)?;
            }
        }
        missing.map_or(Ok(()), Err)
    }

    async fn parts(&self, client: &Client, profile: &ClusterProfile, held: &Held) -> Result<Vec<Part>> {
        let mut ways = Vec::new();
        for provider in profile.access_providers().providers {
            ways.push(self.provider(client, profile, provider).await);
        }
        let id = format!("{}/{}", profile.metadata.namespace, profile.metadata.name);
        let mut parts = facts(profile);
        parts.push(Part::Section("Access Providers".to_owned(), ways));
        parts.push(Part::Field("Contexts".to_owned(), held.contexts(&id).map(str::to_owned).collect()));
        Ok(parts)
    }

    async fn provider(&self, client: &Client, profile: &ClusterProfile, provider: &AccessProvider) -> Part {
        let mut parts = vec![Part::field("Server", provider.cluster.server.clone())];
        if let Some(name) = &provider.cluster.tls_server_name {
            parts.push(Part::field("TLS Server Name", name.clone()));
        }
        if let Some(proxy) = &provider.cluster.proxy_url {
            parts.push(Part::field("Proxy", proxy.clone()));
        }
        let ca = provider.cluster.certificate_authority_data.as_deref();
        parts.push(Part::field(
            "CA",
            ca.map_or_else(|| "the system's".to_owned(), |ca| format!("SHA-256 {}", &sha256(&[ca])[..16])),
        ));
        let way = self.way.providers().ways().find(|way| way.name() == provider.name);
        let verdict = match way {
            None => Err(Error::new(Kind::NotFound, "nothing on this machine answers for it")
                .remedy("name a plugin for it in a provider file (docs/providers.md)")),
            Some(way) => {
                self.way.by(client, profile, &Access { way, cluster: &provider.cluster }, false).await
            }
        };
        match verdict {
            Ok(found) => {
                parts.push(Part::field("Usable", format!("yes, {}", by_what(&found))));
                let notes: Vec<_> =
                    found.notes.iter().map(|note| note.trim_start_matches("note: ").to_owned()).collect();
                if !notes.is_empty() {
                    parts.push(Part::Field("Notes".to_owned(), notes));
                }
            }
            Err(error) => {
                parts.push(Part::field("Usable", format!("no: {}", error.cause)));
                parts.push(Part::field("Remedy", error.remedy));
            }
        }
        Part::Section(provider.name.clone(), parts)
    }
}

/// What the hub says of the cluster itself.
fn facts(profile: &ClusterProfile) -> Vec<Part> {
    let cluster = Cluster::from(profile);
    let text = |value: Option<String>| value.unwrap_or_default();
    let conditions = profile.status.conditions.iter().map(|condition| {
        vec![
            condition.kind.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            condition.message.clone(),
        ]
    });
    let properties = cluster.properties.iter().map(|(name, value)| Part::field(name, value.clone()));
    vec![
        Part::field("Name", cluster.name),
        Part::field("Namespace", cluster.namespace),
        Part::Field(
            "Labels".to_owned(),
            cluster.labels.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        ),
        Part::field("UID", cluster.uid),
        Part::field("Created", profile.metadata.creation_timestamp.clone().unwrap_or_default()),
        Part::field("Display Name", text(cluster.display_name)),
        Part::field("Manager", text(cluster.manager)),
        Part::field("Clusterset", text(cluster.clusterset)),
        Part::field("Kubernetes", text(cluster.version)),
        Part::Table(
            "Conditions".to_owned(),
            vec!["Type", "Status", "Reason", "Message"],
            conditions.collect(),
        ),
        Part::Section("Properties".to_owned(), properties.collect()),
    ]
}

/// What kubectl would log in with.
fn by_what(found: &Found) -> String {
    match &found.login {
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
