//! `use NAME`: one ClusterProfile becomes a context. All network comes first; then one edit.

use std::io::Write;
use std::path::{Path, PathBuf};

use credential_exec::cache::Cache;
use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::{Client, Hub, kuberc};
use credential_exec::key::sha256;

use crate::access::kubeconfig::UserEntry;
use crate::cli::{Global, Use};
use crate::cmd::entries::Entries;
use crate::cmd::list::Scope;
use crate::cmd::member::Member;
use crate::cmd::way_in::{Found, WayIn};
use crate::cmd::{detect, switch};
use crate::inventory::Origin;
use crate::kubeconfig_file::{self, Change, Document, Entry};
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
    member: Member,
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
        let mut entries = Entries::new(&self.way, self.options.exec_command.as_ref())?;
        entries.api_version = self.options.exec_api_version;
        entries.no_cache = self.options.no_cache;
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
        let (member, found) = the_usable_one(name, tried)?;
        let plan = Plan { member, found };
        for note in &plan.found.notes {
            let _ = writeln!(err, "{}", printable(note));
        }
        if let Some(rule) = self.way.config.protection(&plan.member.row()) {
            let name = &plan.member.metadata().name;
            let _ = writeln!(err, "note: {} is protected ({rule})", printable(name));
        }
        if let UserEntry::Exec(exec) = entries.user(&plan.member, &plan.found)?
            && let Some(refused) = kuberc::refuses(&exec.command, self.way.env)
        {
            let file = refused.file.display();
            let _ =
                writeln!(err, "warning: kubectl will not run {}; add to {file}:", printable(&exec.command));
            let _ = err.write_all(refused.stanza.as_bytes());
        }
        if let Some(agreed) = &plan.found.agreed {
            trust_store::remember(self.way.env, agreed)?;
        }
        self.write(&plan, &entries, out)?;
        Cache::of(self.way.env).forget_failures();
        Ok(())
    }

    /// What each object of this name would become: one for each namespace that has it.
    async fn tries(&self, client: &Client, of: Origin, scope: &Scope, name: &str) -> Result<Vec<Try>> {
        let members = Member::find(client, &self.hub().context, scope, of, name).await?;
        let may_ask = members.len() == 1;
        let own_file = self.options.output.is_none();
        let mut tried = Vec::new();
        for member in members {
            let found = member.way_in(&self.way, client, own_file, may_ask).await;
            tried.push((member, found));
        }
        Ok(tried)
    }

    fn write(&self, plan: &Plan, entries: &Entries<'_>, out: &mut dyn Write) -> Result<()> {
        let print = self.options.output.as_deref() == Some(Path::new("-"));
        if print {
            let mut document = Document::empty();
            let entry = self.entry(plan, entries, &document)?;
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
            let entry = self.entry(plan, entries, document)?;
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

    fn entry(&self, plan: &Plan, entries: &Entries<'_>, document: &Document) -> Result<Entry> {
        let mark = entries.mark(&plan.member, &plan.found)?;
        let name = self.options.context_name.clone().unwrap_or_else(|| document.name_for(&mark));
        entries.entry(&name, mark, &plan.member, &plan.found)
    }
}

/// An object, and the way into its cluster.
type Try = (Member, Result<Found>);

/// Of objects of the same name in several namespaces, the only one that can be used.
///
/// # Errors
/// Its failure where there is but one; else [`Kind::Usage`], with the candidates.
pub(super) fn the_usable_one(name: &str, tried: Vec<Try>) -> Result<(Member, Found)> {
    let several = tried.len() > 1;
    let (mut plans, mut failures) = (Vec::new(), Vec::new());
    for (member, found) in tried {
        let id = format!("{}/{}", member.metadata().namespace, member.metadata().name);
        match found {
            Ok(found) => plans.push((id, (member, found))),
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

/// A server as it is, a CA by its fingerprint.
fn shown(value: &str) -> String {
    if value.len() > 200 { sha256(&[value])[..16].to_owned() } else { printable(value) }
}
