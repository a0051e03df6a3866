//! From a request to the hub it means: found by file and context, accepted by server and CA.

use std::path::Path;

use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::hub::{Hub, Kubeconfig};
use crate::request::{HubPin, Impersonate};

/// The pinned hub. When its file or context is gone, the context with the same server and CA is
/// looked for in `$KUBECONFIG` and the default file.
///
/// # Errors
/// [`Kind::Refused`] when the context now leads to another hub, naming both.
pub fn pinned(pin: &HubPin, env: &Env) -> Result<Hub> {
    let named = Kubeconfig::load(&pin.kubeconfig).and_then(|config| config.select(Some(&pin.context)));
    let mut hub = match named {
        Ok(hub) => hub,
        Err(error) => moved(pin, env).ok_or(error)?,
    };
    let (server, ca) = (hub.server().to_owned(), hub.ca_fingerprint()?);
    if server != pin.server || ca != pin.ca {
        return Err(Error::new(
            Kind::Refused,
            format!(
                "context {} now leads to {server} (CA {}), not to the hub {} (CA {})",
                pin.context,
                short(&ca),
                pin.server,
                short(&pin.ca)
            ),
        )
        .remedy("run `kubectl inventory use` again if the hub has really changed"));
    }
    impersonate(&mut hub, &pin.impersonate);
    Ok(hub)
}

fn moved(pin: &HubPin, env: &Env) -> Option<Hub> {
    let config = Kubeconfig::load(&Kubeconfig::paths(env, None)).ok()?;
    let same = |name: &&str| {
        config
            .select(Some(name))
            .is_ok_and(|hub| hub.server() == pin.server && hub.ca_fingerprint().is_ok_and(|ca| ca == pin.ca))
    };
    let name = config.contexts().find(same)?.to_owned();
    config.select(Some(&name)).ok()
}

/// The hub for the drop-in form, in the order that OCM's own plugin has: kubeconfig by flag, by
/// `$KUBECONFIG`, the Pod's own service account, the default file.
///
/// # Errors
/// Those of reading the kubeconfig.
pub fn for_drop_in(files: &[std::path::PathBuf], context: Option<&str>, env: &Env) -> Result<Hub> {
    if !files.is_empty() {
        return Kubeconfig::load(files)?.select(context);
    }
    if env.os("KUBECONFIG").is_none()
        && context.is_none()
        && let Some(hub) = Hub::in_cluster(env)?
    {
        return Ok(hub);
    }
    Kubeconfig::load(&Kubeconfig::paths(env, None::<&Path>))?.select(context)
}

/// What the command line says of impersonation replaces what the kubeconfig says, part by part.
pub fn impersonate(hub: &mut Hub, on_hub: &Impersonate) {
    if on_hub.user.is_some() {
        hub.user.as_user.clone_from(&on_hub.user);
    }
    if !on_hub.groups.is_empty() {
        hub.user.as_groups.clone_from(&on_hub.groups);
    }
    if on_hub.uid.is_some() {
        hub.user.as_uid.clone_from(&on_hub.uid);
    }
}

/// Enough of a fingerprint to compare by eye.
fn short(fingerprint: &str) -> &str {
    fingerprint.get(..12).unwrap_or(fingerprint)
}
