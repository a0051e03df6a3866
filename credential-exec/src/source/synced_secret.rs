//! OCM's copy of a managed service account's token, in the ClusterProfile's namespace, named
//! `<cluster>-<account>`. That name is ambiguous (`a-b`+`c` = `a`+`b-c`), so the copy counts only
//! when it belongs to this very profile.

use super::secret::Secret;
use crate::error::{Error, Kind, Result};
use crate::hub::Client;
use crate::request::CredentialRequest;

/// Reads the copy and checks whose it is. A profile without a UID (OCM's own plugin is not told
/// one) is recognised by its name.
pub(super) async fn read(client: &Client, request: &CredentialRequest) -> Result<Secret> {
    let crate::request::Source::SyncedSecret { secret, .. } = &request.source else {
        return Err(Error::new(Kind::Failed, "not a synced Secret"));
    };
    let secret = Secret::get(client, &request.profile.namespace, secret).await?;
    if owned_by_profile(&secret, request) {
        return Ok(secret);
    }
    Err(Error::new(
        Kind::Refused,
        format!(
            "Secret {} on the hub does not belong to ClusterProfile {}",
            secret.id(),
            request.profile.name
        ),
    )
    .remedy("if the profile was created anew, run `kubectl inventory use` again; else two accounts share this name"))
}

fn owned_by_profile(secret: &Secret, request: &CredentialRequest) -> bool {
    secret.metadata.owner_references.iter().flatten().any(|owner| {
        owner.kind == "ClusterProfile"
            && owner.name == request.profile.name
            && (request.profile.uid.is_empty() || owner.uid == request.profile.uid)
    })
}
