//! `describe NAME…`: everything known about a cluster, and for each way in whether it can be used here, and
//! why not. Asks what `use` would ask, and writes nothing.

use std::io::Write;

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::{Client, Hub};
use credential_exec::key::sha256;

use crate::access::stale::Held;
use crate::access::{Access, Provider};
use crate::cli::Global;
use crate::cmd::detect;
use crate::cmd::list::Scope;
use crate::cmd::member::Member;
use crate::cmd::way_in::managed_cluster::CLUSTER_GATEWAY;
use crate::cmd::way_in::{Found, WayIn};
use crate::hub;
use crate::inventory::cluster_profile::AccessProvider;
use crate::inventory::{ClusterProfile, Origin, Verdict};
use crate::output::description::{self, Part};
use crate::term::not_written;

/// Everything that `describe` is given.
pub struct Describe<'a> {
    /// The clusters.
    pub names: &'a [String],
    /// The kind of inventory, where one is said.
    pub source: Option<Origin>,
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
        let mut of = detect::first(&client, self.source).await?;
        let mut missing: Option<Error> = None;
        let mut first = true;
        for name in self.names {
            let described = match self.described(&client, of, &scope, name, &held).await {
                Err(error) => match detect::instead(&client, self.source, of, error).await {
                    Ok(instead) => {
                        of = instead;
                        self.described(&client, of, &scope, name, &held).await
                    }
                    Err(error) => Err(error),
                },
                described => described,
            };
            match described {
                Ok(described) => {
                    for parts in described {
                        if !std::mem::replace(&mut first, false) {
                            writeln!(out, "\n").map_err(not_written)?;
                        }
                        description::print(&parts, out).map_err(not_written)?;
                    }
                }
                Err(error) if error.kind == Kind::Unreachable => return Err(error),
                Err(error) => {
                    missing.get_or_insert(error);
                }
            }
        }
        missing.map_or(Ok(()), Err)
    }

    /// All that is known of each object of this name.
    async fn described(
        &self,
        client: &Client,
        of: Origin,
        scope: &Scope,
        name: &str,
        held: &Held,
    ) -> Result<Vec<Vec<Part>>> {
        let mut described = Vec::new();
        for member in Member::find(client, &self.hub().context, scope, of, name).await? {
            let ways = self.ways(client, &member).await;
            described.push(whole(of, &member, ways, held));
        }
        Ok(described)
    }

    /// Each way into it, and whether it can be used here.
    async fn ways(&self, client: &Client, member: &Member) -> Vec<Part> {
        match member {
            Member::Profile(profile) => {
                let mut ways = Vec::new();
                for provider in profile.access_providers().providers {
                    ways.push(self.provider(client, profile, provider).await);
                }
                if let Some(found) = self.way.mirrored(client, profile).await {
                    ways.push(Part::Section(KUBECONFIG.to_owned(), usable(found, Vec::new())));
                }
                ways
            }
            Member::Managed(cluster) => {
                let by_gateway = self.way.by_gateway(client, cluster, true).await;
                let there = by_gateway.is_ok();
                let mut gateway = usable(by_gateway, Vec::new());
                if there {
                    gateway.push(Part::field("Hint", GATEWAY_HINT.to_owned()));
                }
                let proxy = usable(self.way.by_cluster_proxy(client, cluster, false).await, Vec::new());
                vec![
                    Part::Section(CLUSTER_GATEWAY.to_owned(), gateway),
                    Part::Section(Provider::OpenClusterManagement.name().to_owned(), proxy),
                ]
            }
            Member::Capi(cluster) => {
                let way = usable(self.way.capi(client, cluster).await, Vec::new());
                vec![Part::Section(KUBECONFIG.to_owned(), way)]
            }
        }
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
        Part::Section(provider.name.clone(), usable(verdict, parts))
    }
}

/// Cluster API's way in, which is no access provider of anybody's.
const KUBECONFIG: &str = "kubeconfig Secret";

/// What cluster-gateway's least telling failure means.
const GATEWAY_HINT: &str = "kubectl's `stream error … INTERNAL_ERROR` is a permission missing at the cluster, \
                            for the user that the gateway is there";

/// Whether a way in can be used here, below what is known of it.
fn usable(verdict: Result<Found>, mut parts: Vec<Part>) -> Vec<Part> {
    match verdict {
        Ok(found) => {
            parts.push(Part::field("Usable", format!("yes, {}", found.in_words())));
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
    parts
}

/// What the hub says of the cluster itself, and the ways into it.
fn whole(of: Origin, member: &Member, ways: Vec<Part>, held: &Held) -> Vec<Part> {
    let (cluster, metadata) = (member.row(), member.metadata());
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut parts = vec![Part::field("Name", cluster.name.clone())];
    if of.api().namespaced {
        parts.push(Part::field("Namespace", cluster.namespace.clone()));
    }
    parts.extend([
        Part::Field(
            "Labels".to_owned(),
            cluster.labels.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        ),
        Part::field("UID", cluster.uid.clone()),
        Part::field("Created", metadata.creation_timestamp.clone().unwrap_or_default()),
    ]);
    match of {
        Origin::ClusterProfile => parts.extend([
            Part::field("Display Name", text(&cluster.display_name)),
            Part::field("Manager", text(&cluster.manager)),
            Part::field("Clusterset", text(&cluster.clusterset)),
        ]),
        Origin::ManagedCluster => parts.extend([
            Part::field("Accepted", cluster.accepted.map_or("", Verdict::as_str).to_owned()),
            Part::field("Clusterset", text(&cluster.clusterset)),
        ]),
        Origin::Capi(_) => parts.extend([
            Part::field("Phase", text(&cluster.phase)),
            Part::field("Platform", text(&cluster.platform)),
            Part::field("Control Plane", text(&cluster.control_plane)),
        ]),
    }
    parts.push(Part::field("Kubernetes", text(&cluster.version)));
    let rows = member.conditions().iter().map(|condition| {
        vec![
            condition.kind.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            condition.message.clone(),
        ]
    });
    parts.push(Part::Table(
        "Conditions".to_owned(),
        vec!["Type", "Status", "Reason", "Message"],
        rows.collect(),
    ));
    if !matches!(of, Origin::Capi(_)) {
        let properties = cluster.properties.iter().map(|(name, value)| Part::field(name, value.clone()));
        parts.push(Part::Section("Properties".to_owned(), properties.collect()));
    }
    let id = format!("{}/{}", member.namespace(), metadata.name);
    parts.push(Part::Section("Access Providers".to_owned(), ways));
    parts.push(Part::Field("Contexts".to_owned(), held.contexts(&id).map(str::to_owned).collect()));
    parts
}
