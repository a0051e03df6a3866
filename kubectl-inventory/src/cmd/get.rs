//! `get [NAME…]`: the fleet as a table or a document. Talks to the hub only and reads no Secret.

use std::collections::BTreeSet;
use std::io::{self, Write};

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::Client;
use serde_json::value::RawValue;

use super::detect;
use super::list::{Item, Query, Scope, find, list, look_up};
use super::placement::placed;
use crate::access::stale::{Held, Published};
use crate::inventory::Cluster;
use crate::inventory::Origin;
use crate::inventory::capi::CapiCluster;
use crate::inventory::managed_cluster::ManagedCluster;
use crate::output::Format;
use crate::output::document::{self, Syntax};
use crate::output::table::{Look, Table};
use crate::select::Selection;
use crate::term::not_written;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// The clusters by name; none means all.
    pub names: Vec<String>,
    /// `-A`.
    pub all_namespaces: bool,
    /// `-n`.
    pub namespace: Option<String>,
    /// The hub context's namespace.
    pub context_namespace: Option<String>,
    /// The config file's namespace.
    pub config_namespace: Option<String>,
    /// `-l`.
    pub selector: Option<String>,
    /// `--source`.
    pub source: Option<Origin>,
    /// Which of them.
    pub selection: Selection,
    /// `--placement`.
    pub placement: Option<String>,
    /// `-o`.
    pub output: Format,
    /// `--no-headers`.
    pub no_headers: bool,
    /// Whether to colour the table.
    pub color: bool,
    /// Our contexts of this hub.
    pub held: Held,
}

/// Prints the clusters asked for.
///
/// # Errors
/// The hub's; names that were not found, after those that were.
pub async fn run(
    options: &GetOptions,
    hub: &str,
    client: &Client,
    env: &Env,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<()> {
    if !options.names.is_empty() && options.selector.is_some() {
        return Err(Error::new(Kind::Usage, "names and a selector cannot be used together")
            .remedy("leave out one of them, as in kubectl"));
    }
    let of = detect::first(client, options.source).await?;
    let question =
        Question { options, hub, client, scope: scope(options), of, selection: options.selection.clone() };
    match question.clone().answer(env, out, err).await {
        Err(error) => {
            let of = detect::instead(client, options.source, of, error).await?;
            let (instead, option) = (of.api().words, of.option());
            let _ = writeln!(
                err,
                "note: this hub serves no ClusterProfiles; these are its {instead} (--source {option})"
            );
            Question { of, ..question }.answer(env, out, err).await
        }
        Ok(()) => Ok(()),
    }
}

fn scope(options: &GetOptions) -> Scope {
    Scope::new(
        options.namespace.as_deref(),
        options.all_namespaces,
        options.context_namespace.as_deref(),
        options.config_namespace.as_deref(),
    )
}

/// The first few names, and how many more there are.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = printable(&names[..names.len().min(SHOWN)].join(", "));
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[derive(Clone)]
struct Question<'a> {
    options: &'a GetOptions,
    hub: &'a str,
    client: &'a Client,
    scope: Scope,
    of: Origin,
    selection: Selection,
}

/// An object that is shown as a row.
trait Shown: Item {
    fn row(&self) -> Cluster;

    /// Those of our contexts that trust another certificate than this object publishes.
    fn stale<'h>(&self, _held: &'h Held) -> Vec<&'h str> {
        Vec::new()
    }
}

impl Shown for Published {
    fn row(&self) -> Cluster {
        Cluster::from(self)
    }

    fn stale<'h>(&self, held: &'h Held) -> Vec<&'h str> {
        held.stale(self).collect()
    }
}

impl Shown for ManagedCluster {
    fn row(&self) -> Cluster {
        Cluster::from(self)
    }
}

impl Shown for CapiCluster {
    fn row(&self) -> Cluster {
        Cluster::from(self)
    }
}

impl Question<'_> {
    async fn answer(mut self, env: &Env, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        if let Some(wanted) = &self.options.placement {
            self.selection.placed = Some(placed(self.client, self.hub, &self.scope, self.of, wanted).await?);
        }
        match self.of {
            Origin::ClusterProfile => self.answer_with::<Published>(env, out, err).await,
            Origin::ManagedCluster => self.answer_with::<ManagedCluster>(env, out, err).await,
            Origin::Capi(_) => self.answer_with::<CapiCluster>(env, out, err).await,
        }
    }

    async fn answer_with<T: Shown>(&self, env: &Env, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        match self.options.output {
            Format::Table | Format::Wide => self.table::<T>(env, out, err).await,
            Format::Name => self.names::<T>(out, err).await,
            Format::Json => self.document::<T>(Syntax::Json, out, err).await,
            Format::Yaml => self.document::<T>(Syntax::Yaml, out, err).await,
        }
    }

    /// Hands everything that was asked for and is meant to `take`: page by page, or in the order of the
    /// placement. `read` says where a thing stands and what is kept of it. Answers the namespace that was
    /// looked at instead of all.
    async fn ask<T: Item, R>(
        &self,
        err: &mut dyn Write,
        read: impl Fn(T) -> Option<(usize, R)>,
        mut take: impl FnMut(R) -> io::Result<()>,
    ) -> Result<Option<String>> {
        let Some(placed) = &self.selection.placed else {
            return self.each(|object| read(object).map_or(Ok(()), |(_, kept)| take(kept))).await;
        };
        let mut kept = Vec::new();
        let outcome = self
            .each(|object| {
                kept.extend(read(object));
                Ok(())
            })
            .await;
        kept.sort_by_key(|(rank, _)| *rank);
        let seen: BTreeSet<usize> = kept.iter().map(|(rank, _)| *rank).collect();
        kept.into_iter().try_for_each(|(_, kept)| take(kept)).map_err(not_written)?;
        let missing = placed.missing(&seen);
        if !missing.is_empty() && self.chooses_by_placement_alone() && outcome.is_ok() {
            let (who, words) = (some_of(&missing), self.of.api().words);
            let _ = writeln!(err, "note: the placement also chose {who}, of which there are no {words} here");
        }
        outcome
    }

    /// Whether a cluster of the placement that is not there is missed, and not left out by something else.
    fn chooses_by_placement_alone(&self) -> bool {
        let (names, labels) = (&self.options.names, &self.options.selector);
        names.is_empty()
            && labels.is_none()
            && Selection { placed: None, ..self.selection.clone() }.is_empty()
    }

    /// Hands everything asked for to `take`, page by page. Answers what to tell about the scope.
    async fn each<T: Item>(&self, mut take: impl FnMut(T) -> io::Result<()>) -> Result<Option<String>> {
        let mut pass = |items: Vec<T>| items.into_iter().try_for_each(&mut take).map_err(not_written);
        if self.options.names.is_empty() {
            let query = Query { of: self.of.api(), labels: self.options.selector.clone(), name: None };
            return list(self.client, self.hub, &self.scope, &query, pass).await;
        }
        let mut missing: Vec<Error> = Vec::new();
        for name in &self.options.names {
            match look_up(self.client, self.hub, &self.scope, self.of.api(), name).await? {
                Ok(found) => pass(found)?,
                Err(not_there) => missing.push(not_there),
            }
        }
        let Some(first) = missing.first() else { return Ok(None) };
        let causes: Vec<_> = missing.iter().map(|error| error.cause.as_str()).collect();
        Err(Error { cause: causes.join(", "), ..first.clone() })
    }

    async fn table<T: Shown>(&self, env: &Env, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let now = jiff::Timestamp::try_from(env.now).unwrap_or_default();
        let mut table = Table::new(self.of, self.options.output == Format::Wide, now);
        let (mut deprecated, mut stale) = (Vec::new(), Vec::new());
        let read = |object: T| {
            let cluster = object.row();
            Some((self.selection.rank(&cluster)?, (object, cluster)))
        };
        let outcome = self
            .ask(err, read, |(object, cluster)| {
                stale.extend(object.stale(&self.options.held).into_iter().map(str::to_owned));
                if cluster.deprecated_providers {
                    deprecated.push(cluster.name.clone());
                }
                table.push(&cluster);
                Ok(())
            })
            .await;
        let look = Look {
            namespaces: self.options.all_namespaces,
            no_headers: self.options.no_headers,
            color: self.options.color,
        };
        table.print(look, out).map_err(not_written)?;
        if !deprecated.is_empty() {
            let who = some_of(&deprecated);
            let _ = writeln!(err, "note: the deprecated field credentialProviders is used by {who}");
        }
        if !stale.is_empty() {
            let which = some_of(&stale);
            let _ = writeln!(
                err,
                "note: certificate changed since context {which} was written; run kubectl inventory use for that cluster again"
            );
        }
        let only = outcome?;
        if let Some(only) = &only {
            let _ = writeln!(
                err,
                "note: you may not list clusters across namespaces; these are those of {only:?} (choose one with -n, or set `namespace` in the config file)"
            );
        }
        if table.is_empty() {
            let place = match (&self.scope, only) {
                (Scope::Namespace(namespace), _) => format!(" in namespace {}", printable(namespace)),
                (_, Some(only)) => format!(" in namespace {only}"),
                _ => String::new(),
            };
            let _ = writeln!(err, "No clusters found{place} on hub context {}.", printable(self.hub));
        }
        Ok(())
    }

    async fn names<T: Shown>(&self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let (singular, group) = (self.of.api().singular(), self.of.api().group);
        let read = |object: T| {
            let cluster = object.row();
            Some((self.selection.rank(&cluster)?, cluster.name))
        };
        self.ask(err, read, |name| writeln!(out, "{singular}.{group}/{}", printable(&name))).await.map(drop)
    }

    async fn document<T: Shown>(
        &self,
        syntax: Syntax,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<()> {
        let read = |raw: Box<RawValue>| {
            if self.selection.is_empty() {
                return Some((0, raw));
            }
            let object: T = serde_json::from_str(raw.get()).ok()?;
            Some((self.selection.rank(&object.row())?, raw))
        };
        let mut list = document::List::new(syntax);
        if let [name] = self.options.names.as_slice() {
            let found = find(self.client, self.hub, &self.scope, self.of.api(), name).await?;
            let found: Vec<_> = found.into_iter().filter_map(|raw| Some(read(raw)?.1)).collect();
            let written = match found.as_slice() {
                [only] => document::object(syntax, only, out),
                several => {
                    several.iter().try_for_each(|raw| list.push(raw, out)).and_then(|()| list.finish(out))
                }
            };
            return written.map_err(not_written);
        }
        let outcome = self.ask(err, read, |raw| list.push(&raw, out)).await;
        if let Err(error) = &outcome
            && error.kind == Kind::NotFound
            && self.options.names.is_empty()
        {
            return outcome.map(drop);
        }
        list.finish(out).map_err(not_written)?;
        outcome.map(drop)
    }
}
