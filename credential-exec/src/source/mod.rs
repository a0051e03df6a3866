//! Where a credential lies on the hub: one file a source, one match.

mod hub_identity;
pub mod kubeconfig_secret;
mod managed_service_account;
mod secret;
mod synced_secret;
mod token_secret;

use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::hub::client::Options;
use crate::hub::{Client, Hub};
use crate::request::{CredentialRequest, Source};
use crate::token::Credential;

/// Fetches the credential that the request asks for, at this hub; `now` is in seconds since the epoch.
///
/// # Errors
/// Those of the hub, and [`crate::error::Kind::Refused`] for a Secret that is not what it should be.
pub async fn fetch(
    hub: &Hub,
    env: &Env,
    options: Options,
    request: &CredentialRequest,
    now: i64,
) -> Result<Credential> {
    if let Source::HubIdentity { certificate } = request.source {
        return hub_identity::read(hub, env, options.mode, &options.extra_env, certificate, now).await;
    }
    let client = Client::connect(hub, env, options).await?;
    let read = read(&client, request, now);
    // One request has this much time, and so have all of them together.
    tokio::time::timeout(request.timeout, read).await.unwrap_or_else(|_| Err(client.too_slow()))
}

/// The same over a connection that is there already, for what lies in a Secret.
///
/// # Errors
/// As [`fetch`]; [`Kind::Failed`] for the hub identity, which lies in none.
pub async fn read(client: &Client, request: &CredentialRequest, now: i64) -> Result<Credential> {
    let profile = &request.profile;
    match &request.source {
        Source::SyncedSecret { cluster, account, secret } => {
            let secret = synced_secret::read(client, profile, secret).await?;
            managed_service_account::credential(client, cluster, account, &secret, now).await
        }
        Source::ManagedServiceAccount { cluster, account, secret } => {
            let secret = managed_service_account::read(client, cluster, secret).await?;
            managed_service_account::credential(client, cluster, account, &secret, now).await
        }
        Source::TokenSecret { secret, owner } => {
            token_secret::read(client, profile, secret, owner.as_deref(), now).await
        }
        Source::KubeconfigSecret { secret, context, spoke } => {
            let context = context.as_deref();
            kubeconfig_secret::read(client, &profile.name, secret, context, spoke.as_ref(), now).await
        }
        Source::HubIdentity { .. } => Err(Error::new(Kind::Failed, "the hub identity lies in no Secret")),
    }
}
