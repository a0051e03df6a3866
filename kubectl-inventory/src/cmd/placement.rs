//! Reading what a scheduler chose: the PlacementDecisions of one placement, of the kind that the hub has.

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Client;

use super::list::{Item, Query, Scope, key_of, list};
use crate::inventory::Origin;
use crate::inventory::placement::{Placed, Slice, kinds, namespaces};

impl Item for Slice {
    fn key(&self) -> String {
        key_of(&self.metadata)
    }
}

/// The clusters of this kind that were chosen for the placement `NAME` or `NAMESPACE/NAME`.
///
/// # Errors
/// [`Kind::NotFound`] where there is no decision; [`Kind::Usage`] where several namespaces have one of this
/// name; the hub's.
pub async fn placed(client: &Client, hub: &str, scope: &Scope, of: Origin, wanted: &str) -> Result<Placed> {
    let (scope, name) = match wanted.split_once('/') {
        Some((namespace, name)) => (Scope::Namespace(namespace.to_owned()), name),
        None => (scope.clone(), wanted),
    };
    if kinds(of).is_empty() {
        return Err(Error::new(Kind::Usage, format!("no placement chooses {}", of.api().words))
            .remedy("leave --placement or --source out"));
    }
    let (mut refused, mut not_served) = (None, None);
    let mut served = false;
    for kind in kinds(of) {
        let by_label = kind.labels.iter().map(|label| (Some(format!("{label}={name}")), None));
        for (labels, name) in by_label.chain([(None, Some(name.to_owned()))]) {
            let mut slices: Vec<Slice> = Vec::new();
            let query = Query { labels, name, ..Query::all(&kind.api) };
            let asked = list(client, hub, &scope, &query, |page| {
                slices.extend(page);
                Ok(())
            });
            match asked.await {
                Ok(_) if slices.is_empty() => served = true,
                Ok(_) => return join(name_of(&scope, wanted), slices),
                // The other kind may be meant.
                Err(error) if error.kind == Kind::Refused => {
                    refused.get_or_insert(error);
                    break;
                }
                Err(error) if error.kind == Kind::NotFound => {
                    not_served.get_or_insert(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    if let Some(error) = refused.or(not_served.filter(|_| !served)) {
        return Err(error);
    }
    let cause = format!("there is no decision for placement {}", name_of(&scope, wanted));
    Err(Error::new(Kind::NotFound, cause)
        .remedy("`kubectl get placementdecisions -A --show-labels` on the hub lists what was decided"))
}

fn name_of(scope: &Scope, wanted: &str) -> String {
    match scope {
        Scope::Namespace(namespace) if !wanted.contains('/') => format!("{namespace}/{wanted}"),
        _ => wanted.to_owned(),
    }
}

fn join(name: String, slices: Vec<Slice>) -> Result<Placed> {
    let places = namespaces(&slices);
    if places.len() > 1 {
        let of: Vec<_> = places.iter().map(|namespace| format!("{namespace}/{name}")).collect();
        let cause = format!("{name} is the name of several placements: {}", of.join(", "));
        return Err(Error::new(Kind::Usage, cause).remedy("choose one with NAMESPACE/NAME"));
    }
    Ok(Placed::join(slices))
}
