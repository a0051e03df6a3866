//! OCM's copy of a managed service account's token, in the ClusterProfile's namespace, named
//! `<cluster>-<account>`. That name is ambiguous (`a-b`+`c` = `a`+`b-c`), so the copy counts only
//! when it belongs to this very profile.

use super::managed_service_account::MISSING;
use super::secret::Secret;
use crate::error::{Error, Kind, Result};
use crate::hub::Client;
use crate::request::ProfileRef;

/// Reads the copy and checks whose it is. A profile without a UID (OCM's own plugin is not told
/// one) is recognised by its name.
pub(super) async fn read(client: &Client, profile: &ProfileRef, secret: &str) -> Result<Secret> {
    let secret = Secret::get(client, &profile.namespace, secret, MISSING).await?;
    if secret.is_owned_by("ClusterProfile", &profile.name, &profile.uid) {
        return Ok(secret);
    }
    Err(Error::new(
        Kind::Refused,
        format!("Secret {} on the hub does not belong to ClusterProfile {}", secret.id(), profile.name),
    )
    .remedy("if the profile was created anew, run `kubectl inventory use` again; else two accounts share this name"))
}
