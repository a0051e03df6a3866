//! The clusters that a verb with a selection means, of whichever kind the hub has.

use std::io::Write;

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Client;

use super::detect;
use super::list::Scope;
use super::member::Member;
use super::question::{Question, Wanted};
use crate::cli::Clusters;
use crate::inventory::Origin;

/// What was found.
pub struct Chosen {
    /// The clusters, at least one, in order.
    pub members: Vec<Member>,
    /// Their kind.
    pub of: Origin,
    /// The namespace that was looked at instead of all.
    pub instead: Option<String>,
}

/// Finds them.
///
/// # Errors
/// The hub's; [`Kind::NotFound`] where none is meant.
pub async fn choose(
    client: &Client,
    hub: &str,
    scope: &Scope,
    clusters: &Clusters,
    source: Option<Origin>,
    err: &mut dyn Write,
) -> Result<Chosen> {
    let selection = clusters.selection.selection();
    let wanted = Wanted {
        names: &clusters.names,
        labels: clusters.selector.as_deref(),
        selection: &selection,
        placement: clusters.selection.placement.as_deref(),
    };
    let ask = async |of, err: &mut dyn Write| {
        let question = Question::new(client, hub, scope.clone(), of, &wanted).await?;
        Member::all(&question, err).await
    };
    let mut of = detect::first(client, source).await?;
    let (members, instead) = match ask(of, err).await {
        Err(error) => {
            of = detect::instead(client, source, of, error).await?;
            ask(of, err).await?
        }
        Ok(found) => found,
    };
    if let Some(only) = &instead {
        let _ =
            writeln!(err, "note: you may not list clusters across namespaces; these are those of {only:?}");
    }
    if members.is_empty() {
        return Err(Error::new(Kind::NotFound, "no cluster is meant by this")
            .remedy("`kubectl inventory get` with the same flags shows what they choose"));
    }
    Ok(Chosen { members, of, instead })
}
