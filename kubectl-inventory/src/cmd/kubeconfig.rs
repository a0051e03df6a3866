//! `kubeconfig [selection]`: one kubeconfig for all clusters that are meant, without any credential in it.

use std::collections::BTreeSet;
use std::io::Write;

use credential_exec::error::{Error, Kind, Result, printable};

use super::accounts::Book;
use super::entries::Entries;
use super::list::Scope;
use super::member::Member;
use super::question::some_of;
use super::selection::choose;
use super::way_in::{Login, WayIn};
use crate::cli::{Global, KubeconfigOf};
use crate::hub;
use crate::kubeconfig_file::Document;
use crate::term::not_written;

/// Everything that `kubeconfig` is given.
pub struct KubeconfigRun<'a> {
    /// The verb's own flags.
    pub options: &'a KubeconfigOf,
    /// The hub's flags.
    pub global: &'a Global,
    /// Which way in is taken.
    pub way: WayIn<'a>,
}

impl KubeconfigRun<'_> {
    /// Prints it; nothing where one of the clusters has no way in.
    ///
    /// # Errors
    /// The hub's; those of each way in.
    pub async fn run(mut self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let chosen = self.way.chosen;
        let client = hub::connect(&chosen.hub, self.global, self.way.env).await?;
        let (clusters, source) = (&self.options.clusters, self.options.source);
        let scope = Scope::new(
            self.global.namespace.as_deref(),
            clusters.all_namespaces,
            chosen.hub.namespace.as_deref(),
            self.way.config.namespace.as_deref(),
        );
        let members = choose(&client, &chosen.hub.context, &scope, clusters, source, err).await?.members;
        if members.len() > 1 {
            let namespaces: BTreeSet<&str> = members.iter().map(Member::namespace).collect();
            self.way.book = Book::read(&client, &chosen.hub.context, &namespaces).await?;
        }
        let mut entries = Entries::new(&self.way, self.options.exec_command.as_ref())?;
        if self.options.shareable {
            entries.share();
        }
        let (mut document, mut without) = (Document::empty(), Vec::new());
        for member in &members {
            match member.way_in(&self.way, &client, false, false).await {
                Ok(found) => {
                    if self.options.shareable
                        && let Login::Plugin(exec) = &found.login
                        && exec.command.contains(std::path::is_separator)
                    {
                        let _ = writeln!(
                            err,
                            "warning: {} names a plugin by a path of this machine: {}",
                            printable(&member.metadata().name),
                            printable(&exec.command)
                        );
                    }
                    let mark = entries.mark(member, &found)?;
                    let name = document.name_for(&mark);
                    document.put(&entries.entry(&name, mark, member, &found)?, false)?;
                    if members.len() == 1 {
                        document.set_current_context(&name);
                    }
                }
                Err(error) if error.kind == Kind::Unreachable => return Err(error),
                Err(error) => without.push((member.metadata().name.clone(), error)),
            }
        }
        if let Some((_, first)) = without.first() {
            let words: Vec<String> =
                without.iter().map(|(name, error)| format!("{name} ({})", error.cause)).collect();
            let cause = format!("{} clusters have no way in: {}", without.len(), some_of(&words));
            return Err(Error { kind: first.kind, cause, remedy: first.remedy.clone() });
        }
        out.write_all(document.to_yaml().as_bytes()).map_err(not_written)
    }
}
