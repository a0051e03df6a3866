//! `get [NAME…]`: the fleet as a table or a document. Talks to the hub only and reads no Secret.

use std::io::Write;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::Client;
use serde_json::value::RawValue;

use super::detect;
use super::list::{Scope, find};
use super::question::{Question, Shown, Wanted, some_of};
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
    let wanted = Wanted {
        names: &options.names,
        labels: options.selector.as_deref(),
        selection: &options.selection,
        placement: options.placement.as_deref(),
    };
    let get = async |of, err: &mut dyn Write, out: &mut dyn Write| {
        let question = Question::new(client, hub, scope(options), of, &wanted).await?;
        Get { options, question }.answer(env, out, err).await
    };
    match get(of, err, out).await {
        Err(error) => {
            let of = detect::instead(client, options.source, of, error).await?;
            let (instead, option) = (of.api().words, of.option());
            let _ = writeln!(
                err,
                "note: this hub serves no ClusterProfiles; these are its {instead} (--source {option})"
            );
            get(of, err, out).await
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

/// An object that is shown as a row.
trait Row: Shown {
    /// Those of our contexts that trust another certificate than this object publishes.
    fn stale<'h>(&self, _held: &'h Held) -> Vec<&'h str> {
        Vec::new()
    }
}

impl Shown for Published {
    fn row(&self) -> Cluster {
        Cluster::from(self)
    }
}

impl Row for Published {
    fn stale<'h>(&self, held: &'h Held) -> Vec<&'h str> {
        held.stale(self).collect()
    }
}

impl Row for ManagedCluster {}

impl Row for CapiCluster {}

/// What was asked for, of the kind of inventory that the hub has.
struct Get<'a> {
    options: &'a GetOptions,
    question: Question<'a>,
}

impl Get<'_> {
    async fn answer(&self, env: &Env, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        match self.question.of {
            Origin::ClusterProfile => self.answer_with::<Published>(env, out, err).await,
            Origin::ManagedCluster => self.answer_with::<ManagedCluster>(env, out, err).await,
            Origin::Capi(_) => self.answer_with::<CapiCluster>(env, out, err).await,
        }
    }

    async fn answer_with<T: Row>(&self, env: &Env, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        match self.options.output {
            Format::Table | Format::Wide => self.table::<T>(env, out, err).await,
            Format::Name => self.names::<T>(out, err).await,
            Format::Json => self.document::<T>(Syntax::Json, out, err).await,
            Format::Yaml => self.document::<T>(Syntax::Yaml, out, err).await,
        }
    }

    async fn table<T: Row>(&self, env: &Env, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let now = jiff::Timestamp::try_from(env.now).unwrap_or_default();
        let mut table = Table::new(self.question.of, self.options.output == Format::Wide, now);
        let (mut deprecated, mut stale) = (Vec::new(), Vec::new());
        // Not the object itself: in a scheduler's order all rows are held until the last is there.
        let read = |object: T| {
            let cluster = object.row();
            let rank = self.question.selection.rank(&cluster)?;
            let stale: Vec<String> =
                object.stale(&self.options.held).into_iter().map(str::to_owned).collect();
            Some((rank, (stale, cluster)))
        };
        let outcome = self
            .question
            .ask(err, read, |(aged, cluster)| {
                stale.extend(aged);
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
            let place = match (&self.question.scope, only) {
                (Scope::Namespace(namespace), _) => format!(" in namespace {}", printable(namespace)),
                (_, Some(only)) => format!(" in namespace {only}"),
                _ => String::new(),
            };
            let _ =
                writeln!(err, "No clusters found{place} on hub context {}.", printable(self.question.hub));
        }
        Ok(())
    }

    async fn names<T: Row>(&self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let (singular, group) = (self.question.of.api().singular(), self.question.of.api().group);
        let read = |object: T| {
            let cluster = object.row();
            Some((self.question.selection.rank(&cluster)?, cluster.name))
        };
        self.question
            .ask(err, read, |name| writeln!(out, "{singular}.{group}/{}", printable(&name)))
            .await
            .map(drop)
    }

    async fn document<T: Row>(&self, syntax: Syntax, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let read = |raw: Box<RawValue>| {
            if self.question.selection.is_empty() {
                return Some((0, raw));
            }
            let object: T = serde_json::from_str(raw.get()).ok()?;
            Some((self.question.selection.rank(&object.row())?, raw))
        };
        let mut list = document::List::new(syntax);
        if let [name] = self.options.names.as_slice() {
            let found = find(
                self.question.client,
                self.question.hub,
                &self.question.scope,
                self.question.of.api(),
                name,
            )
            .await?;
            let found: Vec<_> = found.into_iter().filter_map(|raw| Some(read(raw)?.1)).collect();
            let written = match found.as_slice() {
                [only] => document::object(syntax, only, out),
                several => {
                    several.iter().try_for_each(|raw| list.push(raw, out)).and_then(|()| list.finish(out))
                }
            };
            return written.map_err(not_written);
        }
        let outcome = self.question.ask(err, read, |raw| list.push(&raw, out)).await;
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
