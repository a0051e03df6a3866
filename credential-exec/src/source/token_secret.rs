//! A bearer token in a Secret, as the Cluster Inventory API's plugin `secretreader` reads it.

use super::secret::Secret;
use crate::error::{Error, Kind, Result};
use crate::hub::Client;
use crate::request::{ProfileRef, SecretKey};
use crate::token::{Claims, Credential, UNKNOWN_LIFE};

/// Reads the token. Where the Secret belonged to the profile when that was used, it must still.
pub(super) async fn read(
    client: &Client,
    profile: &ProfileRef,
    key: &SecretKey,
    owner: Option<&str>,
    now: i64,
) -> Result<Credential> {
    let missing =
        format!("it is to hold the token of {}; whoever keeps it there must create it", profile.name);
    let secret = Secret::get(client, &key.namespace, &key.name, &missing).await?;
    if owner.is_some_and(|uid| !secret.is_owned_by("ClusterProfile", &profile.name, uid)) {
        return Err(Error::new(
            Kind::Refused,
            format!("{key} on the hub does not belong to ClusterProfile {} any more", profile.name),
        )
        .remedy("if the profile was created anew, run `kubectl inventory use` again"));
    }
    let keeper = |error: Error| error.remedy(format!("whoever keeps {key} on the hub must correct it"));
    let token = secret.token(&key.key).map_err(keeper)?;
    let claims = Claims::of(&token);
    let credential = Credential::new(token, claims.exp.unwrap_or(now + UNKNOWN_LIFE), claims.iat);
    match credential.ended(now) {
        None => Ok(credential),
        Some(ago) => Err(keeper(Error::new(Kind::Failed, format!("the token in {key} expired {ago} ago")))),
    }
}
