//! `get [NAME…]`: the fleet as a table or a document. Talks to the hub only and reads no Secret.

use std::io::{self, Write};

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::Client;
use serde_json::value::RawValue;

use super::list::{Item, Query, Scope, find, list, look_up};
use crate::access::stale::{Held, Published};
use crate::inventory::Cluster;
use crate::inventory::cluster_profile::{GROUP, Summary};
use crate::output::Format;
use crate::output::document::{self, Syntax};
use crate::output::table::{Look, Table};
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
    let question = Question { options, hub, client, scope: scope(options) };
    match options.output {
        Format::Table | Format::Wide => question.table(env, out, err).await,
        Format::Name => question.names(out).await,
        Format::Json => question.document(Syntax::Json, out).await,
        Format::Yaml => question.document(Syntax::Yaml, out).await,
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

struct Question<'a> {
    options: &'a GetOptions,
    hub: &'a str,
    client: &'a Client,
    scope: Scope,
}

impl Question<'_> {
    /// Hands everything asked for to `take`, page by page. Answers what to tell about the scope.
    async fn ask<T: Item>(&self, mut take: impl FnMut(T) -> io::Result<()>) -> Result<Option<String>> {
        let mut pass = |items: Vec<T>| items.into_iter().try_for_each(&mut take).map_err(not_written);
        if self.options.names.is_empty() {
            let query = Query { labels: self.options.selector.clone(), name: None };
            return list(self.client, self.hub, &self.scope, &query, pass).await;
        }
        let mut missing: Vec<Error> = Vec::new();
        for name in &self.options.names {
            match look_up(self.client, self.hub, &self.scope, name).await? {
                Ok(found) => pass(found)?,
                Err(not_there) => missing.push(not_there),
            }
        }
        let Some(first) = missing.first() else { return Ok(None) };
        let causes: Vec<_> = missing.iter().map(|error| error.cause.as_str()).collect();
        Err(Error { cause: causes.join(", "), ..first.clone() })
    }

    async fn table(&self, env: &Env, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let now = jiff::Timestamp::try_from(env.now).unwrap_or_default();
        let mut table = Table::new(self.options.output == Format::Wide, now);
        let (mut deprecated, mut stale) = (Vec::new(), Vec::new());
        let outcome = self
            .ask(|profile: Published| {
                stale.extend(self.options.held.stale(&profile).map(str::to_owned));
                let cluster = Cluster::from(&profile);
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

    async fn names(&self, out: &mut dyn Write) -> Result<()> {
        self.ask(|profile: Summary| {
            writeln!(out, "clusterprofile.{GROUP}/{}", printable(&profile.metadata.name))
        })
        .await
        .map(drop)
    }

    async fn document(&self, syntax: Syntax, out: &mut dyn Write) -> Result<()> {
        let mut list = document::List::new(syntax);
        if let [name] = self.options.names.as_slice() {
            let found: Vec<Box<RawValue>> = find(self.client, self.hub, &self.scope, name).await?;
            let written = match found.as_slice() {
                [only] => document::object(syntax, only, out),
                several => {
                    several.iter().try_for_each(|raw| list.push(raw, out)).and_then(|()| list.finish(out))
                }
            };
            return written.map_err(not_written);
        }
        let outcome = self.ask(|raw: Box<RawValue>| list.push(&raw, out)).await;
        list.finish(out).map_err(not_written)?;
        outcome.map(drop)
    }
}
