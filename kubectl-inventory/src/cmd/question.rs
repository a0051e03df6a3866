//! Which clusters are meant, and reading those from the hub: by name, or by what is known of them.

use std::collections::BTreeSet;
use std::io::{self, Write};

use credential_exec::error::{Error, Result, printable};
use credential_exec::hub::Client;

use super::list::{Item, Query, Scope, list, look_up};
use super::placement::placed;
use crate::inventory::capi::CapiCluster;
use crate::inventory::managed_cluster::ManagedCluster;
use crate::inventory::{Cluster, ClusterProfile, Origin};
use crate::select::Selection;
use crate::term::not_written;

/// Which clusters a person means.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// By name; none means all.
    pub names: &'a [String],
    /// By label selector.
    pub labels: Option<&'a str>,
    /// By what is known of them.
    pub selection: &'a Selection,
    /// By a scheduler's choice.
    pub placement: Option<&'a str>,
}

/// The same, asked of a hub.
#[derive(Clone)]
pub struct Question<'a> {
    /// The hub.
    pub client: &'a Client,
    /// The hub's context.
    pub hub: &'a str,
    /// The namespaces that are looked at.
    pub scope: Scope,
    /// The kind of inventory.
    pub of: Origin,
    /// The clusters by name; none means all.
    pub names: &'a [String],
    /// Label selector.
    pub labels: Option<&'a str>,
    /// Which of them, with what the hub says of the placement.
    pub selection: Selection,
}

/// An object of an inventory, as the selection sees it.
pub trait Shown: Item {
    /// Its row.
    fn row(&self) -> Cluster;
}

impl Shown for ClusterProfile {
    fn row(&self) -> Cluster {
        Cluster::from(self)
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

impl<'a> Question<'a> {
    /// The question, with the scheduler's choice read where one is wanted.
    ///
    /// # Errors
    /// Those of reading it.
    pub async fn new(
        client: &'a Client,
        hub: &'a str,
        scope: Scope,
        of: Origin,
        wanted: &Wanted<'a>,
    ) -> Result<Self> {
        let mut selection = wanted.selection.clone();
        if let Some(placement) = wanted.placement {
            selection.placed = Some(placed(client, hub, &scope, of, placement).await?);
        }
        Ok(Self { client, hub, scope, of, names: wanted.names, labels: wanted.labels, selection })
    }

    /// All of them, in order; and the namespace that was looked at instead of all.
    ///
    /// # Errors
    /// As [`Question::ask`].
    pub async fn all<T: Shown>(&self, err: &mut dyn Write) -> Result<(Vec<T>, Option<String>)> {
        let mut all = Vec::new();
        let read = |object: T| Some((self.selection.rank(&object.row())?, object));
        let push = |object| {
            all.push(object);
            Ok(())
        };
        let instead = self.ask(err, read, push).await?;
        Ok((all, instead))
    }

    /// Hands everything that was asked for and is meant to `take`: page by page, or in the order of the
    /// placement. `read` says where a thing stands and what is kept of it. Answers the namespace that was
    /// looked at instead of all.
    ///
    /// # Errors
    /// The hub's; names that were not found, after those that were.
    pub async fn ask<T: Item, R>(
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
        self.names.is_empty()
            && self.labels.is_none()
            && Selection { placed: None, ..self.selection.clone() }.is_empty()
    }

    /// Hands everything asked for to `take`, page by page. Answers what to tell about the scope.
    async fn each<T: Item>(&self, mut take: impl FnMut(T) -> io::Result<()>) -> Result<Option<String>> {
        let mut pass = |items: Vec<T>| items.into_iter().try_for_each(&mut take).map_err(not_written);
        if self.names.is_empty() {
            let query = Query { labels: self.labels.map(str::to_owned), ..Query::all(self.of.api()) };
            return list(self.client, self.hub, &self.scope, &query, pass).await;
        }
        let mut missing: Vec<Error> = Vec::new();
        for name in self.names {
            match look_up(self.client, self.hub, &self.scope, self.of.api(), name).await? {
                Ok(found) => pass(found)?,
                Err(not_there) => missing.push(not_there),
            }
        }
        let Some(first) = missing.first() else { return Ok(None) };
        let causes: Vec<_> = missing.iter().map(|error| error.cause.as_str()).collect();
        Err(Error { cause: causes.join(", "), ..first.clone() })
    }
}

/// The first few names, and how many more there are.
pub fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = printable(&names[..names.len().min(SHOWN)].join(", "));
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
