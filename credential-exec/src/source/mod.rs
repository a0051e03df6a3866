//! Where a token lies on the hub: one file a source, one match.

mod managed_service_account;
mod secret;
mod synced_secret;

use crate::error::Result;
use crate::hub::Client;
use crate::request::{CredentialRequest, Source};
use crate::token::{Claims, Credential, UNKNOWN_LIFE};
use secret::Secret;

/// Fetches the credential that the request asks for; `now` is in seconds since the epoch.
///
/// # Errors
/// Those of the hub, and [`crate::error::Kind::Refused`] for a Secret that is not what it should be.
pub async fn fetch(client: &Client, request: &CredentialRequest, now: i64) -> Result<Credential> {
    let secret = match &request.source {
        Source::SyncedSecret { .. } => synced_secret::read(client, request).await?,
        Source::ManagedServiceAccount { .. } => {
            managed_service_account::read(client, &request.source).await?
        }
    };
    credential(client, &request.source, secret, now).await
}

async fn credential(client: &Client, source: &Source, secret: Secret, now: i64) -> Result<Credential> {
    let token = secret.token()?;
    let claims = Claims::of(&token);
    claims.belongs_to(source.account())?;
    let expires = match claims.exp {
        Some(exp) => exp,
        None => managed_service_account::expiration(client, source).await.unwrap_or(now + UNKNOWN_LIFE),
    };
    Credential::new(token, expires, claims.iat).unexpired(now, source.cluster())
}
