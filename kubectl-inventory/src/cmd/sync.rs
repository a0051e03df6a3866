//! `sync [selection]`: a context for every cluster that is meant, in one edit of the kubeconfig; with `--prune`
//! without those that the hub no longer has. All network comes first.

use std::collections::{BTreeSet, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::Client;

use super::accounts::Book;
use super::entries::Entries;
use super::list::{Query, Scope, list};
use super::member::Member;
use super::question::some_of;
use super::selection::{Chosen, choose};
use super::way_in::{Found, WayIn};
use crate::cli::{Global, Sync};
use crate::hub;
use crate::inventory::Origin;
use crate::inventory::cluster_profile::Summary;
use crate::kubeconfig_file::{self, Change, Document, Mark};
use crate::term::not_written;

/// From how many contexts on a kubeconfig is felt by every command that reads it.
const MANY: usize = 500;

/// Everything that `sync` is given.
pub struct SyncRun<'a> {
    /// The verb's own flags.
    pub options: &'a Sync,
    /// The hub's flags.
    pub global: &'a Global,
    /// Which way in is taken.
    pub way: WayIn<'a>,
}

/// What is to stand in the file.
struct Plan {
    ready: Vec<(Member, Found)>,
    /// Clusters without a way in, and why.
    without: Vec<(String, Error)>,
    /// The clusters that the hub has, as marks name them, where all of them are known; and the namespace that was
    /// looked at, where it was one.
    there: Option<(HashSet<String>, Option<String>)>,
    of: Origin,
}

/// What the edit did.
#[derive(Default)]
struct Done {
    added: usize,
    updated: Vec<String>,
    removed: usize,
    unchanged: usize,
    /// Entries whose server or CA changed, which were left as they were.
    left: Vec<String>,
    /// Entries that could not be written, and why.
    failed: Vec<(String, Error)>,
    /// The context that was the current one, and is gone.
    current: Option<String>,
}

impl SyncRun<'_> {
    /// Syncs once, and with `--watch` again whenever the hub's inventory changes.
    ///
    /// # Errors
    /// The hub's; those of the file; clusters that were left out, after the others were written.
    pub async fn run(&mut self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let client = hub::connect(&self.way.chosen.hub, self.global, self.way.env).await?;
        if !self.options.watch {
            return self.once(&client, out, err).await;
        }
        loop {
            let mut changes = super::watch::Changes::of(&client, self.options.source, self.scope()).await?;
            if let Err(error) = self.once(&client, out, err).await {
                let _ = writeln!(err, "error: {}", printable(&error.to_string()));
            }
            out.flush().map_err(not_written)?;
            changes.next().await;
        }
    }

    fn scope(&self) -> Scope {
        let hub = &self.way.chosen.hub;
        let config = self.way.config.namespace.as_deref();
        Scope::new(
            self.global.namespace.as_deref(),
            self.options.clusters.all_namespaces,
            hub.namespace.as_deref(),
            config,
        )
    }

    async fn once(&mut self, client: &Client, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let plan = self.plan(client, err).await?;
        let target: PathBuf = kubeconfig_file::target(self.way.env, self.global.kubeconfig.as_deref())?;
        self.warn_of_many(&plan, err)?;
        let entries = Entries::new(&self.way, self.options.exec_command.as_ref())?;
        let done = kubeconfig_file::edit(&target, self.way.env.clock(), |document| {
            self.apply(&plan, &entries, document)
        })?;
        report(&plan, &done, &target, out, err)
    }

    /// Every cluster that is meant, with its way in.
    async fn plan(&mut self, client: &Client, err: &mut dyn Write) -> Result<Plan> {
        let hub = self.way.chosen.hub.context.clone();
        let Chosen { members, of, instead } =
            choose(client, &hub, &self.scope(), &self.options.clusters, self.options.source, err).await?;
        let there = match self.options.prune {
            true => Some(self.there(client, &hub, of, instead.as_deref()).await?),
            false => None,
        };
        if members.iter().any(|member| matches!(member, Member::Profile(_))) {
            let namespaces: BTreeSet<&str> = members.iter().map(Member::namespace).collect();
            self.way.book = Book::read(client, &hub, &namespaces).await?;
        }
        let (mut ready, mut without) = (Vec::new(), Vec::new());
        for member in members {
            match member.way_in(&self.way, client, true, false).await {
                Ok(found) => ready.push((member, found)),
                Err(error) if error.kind == Kind::Unreachable => return Err(error),
                Err(error) => without.push((member.metadata().name.clone(), error)),
            }
        }
        Ok(Plan { ready, without, there, of })
    }

    /// The names of all that the hub has, whatever was chosen of it.
    async fn there(
        &self,
        client: &Client,
        hub: &str,
        of: Origin,
        instead: Option<&str>,
    ) -> Result<(HashSet<String>, Option<String>)> {
        let scope = match (instead, self.scope()) {
            (Some(only), _) => Scope::Namespace(only.to_owned()),
            (None, Scope::All { .. }) => Scope::All { explicit: true },
            (None, scope) => scope,
        };
        let query = Query { metadata_only: true, ..Query::all(of.api()) };
        let mut there = HashSet::new();
        list(client, hub, &scope, &query, |page: Vec<Box<serde_json::value::RawValue>>| {
            there.extend(page.iter().filter_map(|raw| {
                let meta = serde_json::from_str::<Summary>(raw.get()).ok()?.metadata;
                let namespace = if meta.namespace.is_empty() { &meta.name } else { &meta.namespace };
                Some(format!("{namespace}/{}", meta.name))
            }));
            Ok(())
        })
        .await?;
        let only = match scope {
            Scope::Namespace(namespace) if of.api().namespaced => Some(namespace),
            _ => None,
        };
        Ok((there, only))
    }

    fn warn_of_many(&self, plan: &Plan, err: &mut dyn Write) -> Result<()> {
        let count = plan.ready.len();
        if count <= MANY {
            return Ok(());
        }
        let cost = format!(
            "{count} contexts in one kubeconfig are felt by every kubectl (10,000 cost each command 4 s and 450 MB)"
        );
        if self.options.yes {
            let _ = writeln!(err, "note: {cost}");
            return Ok(());
        }
        Err(Error::new(Kind::Usage, cost).remedy(
            "choose fewer, use `kubectl inventory env` or `foreach`, or add --yes if you want them all",
        ))
    }

    fn apply(&self, plan: &Plan, entries: &Entries<'_>, document: &mut Document) -> Result<Done> {
        let mut done = Done::default();
        for (member, found) in &plan.ready {
            let mark = entries.mark(member, found)?;
            let name = document.name_for(&mark);
            let put = entries.entry(&name, mark, member, found).and_then(|entry| {
                if !self.options.accept_changed
                    && let Some(what) = document.moves(&entry)
                {
                    done.left.push(format!("{name} ({what})"));
                    return Ok(None);
                }
                document.put(&entry, false).map(Some)
            });
            match put {
                Ok(Some(Change::Added)) => done.added += 1,
                Ok(Some(Change::Updated(_))) => done.updated.push(name),
                Ok(Some(Change::Unchanged)) => done.unchanged += 1,
                Ok(None) => {}
                Err(error) => done.failed.push((name, error)),
            }
        }
        if let Some((there, only)) = &plan.there {
            let hub = hub::fingerprint(&self.way.chosen.hub)?;
            let gone = |mark: &Mark| {
                let namespace = mark.profile.split('/').next().unwrap_or_default();
                mark.hub == hub
                    && mark.source == plan.of.option()
                    && only.as_ref().is_none_or(|only| namespace == only)
                    && !there.contains(&mark.profile)
            };
            let contexts: HashSet<String> =
                document.ours().filter(|ours| gone(&ours.mark)).map(|ours| ours.context).collect();
            if !contexts.is_empty() {
                done.removed = contexts.len();
                done.current = document.remove_all(&contexts);
            }
        }
        Ok(done)
    }
}

/// What was done, and what was not.
fn report(plan: &Plan, done: &Done, target: &Path, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "{}: {} added, {} updated, {} removed, {} unchanged",
        target.display(),
        done.added,
        done.updated.len(),
        done.removed,
        done.unchanged
    )
    .map_err(not_written)?;
    if let Some(current) = &done.current {
        writeln!(out, "context {} → none: its cluster is gone from the hub", printable(current))
            .map_err(not_written)?;
    }
    let causes = |failed: &[(String, Error)]| {
        let words: Vec<String> =
            failed.iter().map(|(name, error)| format!("{name} ({})", error.cause)).collect();
        some_of(&words)
    };
    if !done.left.is_empty() {
        let _ = writeln!(
            err,
            "note: left as they were, since their server or CA changed: {}; add --accept-changed if that is right",
            some_of(&done.left)
        );
    }
    let left_out: Vec<_> = plan.without.iter().chain(&done.failed).cloned().collect();
    match left_out.first() {
        None => Ok(()),
        Some((_, first)) => Err(Error::new(
            Kind::Failed,
            format!("{} clusters were left out: {}", left_out.len(), causes(&left_out)),
        )
        .remedy(first.remedy.clone())),
    }
}
