//! The Secret that OCM's agent keeps for a ManagedServiceAccount in the managed cluster's
//! namespace, and the account's own record of when the token ends.
//! Source: `authentication.open-cluster-management.io/v1beta1`.

use serde::Deserialize;

use super::secret::{Secret, segment};
use crate::error::{Error, Kind, Result};
use crate::hub::Client;
use crate::token::{Claims, Credential, UNKNOWN_LIFE};

const LABEL: &str = "authentication.open-cluster-management.io/is-managed-serviceaccount";

/// What to do where a Secret of OCM's is not there.
pub(super) const MISSING: &str =
    "check that the ManagedServiceAccount exists and has a token, then run `kubectl inventory use` again";

/// Reads the account's Secret; one that OCM did not make is refused.
pub(super) async fn read(client: &Client, cluster: &str, secret: &str) -> Result<Secret> {
    let secret = Secret::get(client, cluster, secret, MISSING).await?;
    if secret.label(LABEL) == Some("true") {
        return Ok(secret);
    }
    Err(Error::new(Kind::Refused, format!("Secret {} is not a managed service account's", secret.id()))
        .remedy(format!("it lacks the label {LABEL}=true, which OCM's agent sets")))
}

/// The credential in a Secret of OCM's, of its own making or a copy.
pub(super) async fn credential(
    client: &Client,
    cluster: &str,
    account: &str,
    secret: &Secret,
    now: i64,
) -> Result<Credential> {
    let agent =
        |error: Error| error.remedy(format!("check the managed-serviceaccount add-on agent on {cluster}"));
    let token = secret.token("token").map_err(agent)?;
    let claims = Claims::of(&token);
    claims.belongs_to(account)?;
    let expires = match claims.exp {
        Some(exp) => exp,
        None => expiration(client, cluster, account).await.unwrap_or(now + UNKNOWN_LIFE),
    };
    let credential = Credential::new(token, expires, claims.iat);
    match credential.ended(now) {
        None => Ok(credential),
        Some(ago) => Err(agent(Error::new(
            Kind::Failed,
            format!("token expired {ago} ago; the agent on {cluster} is not rotating it"),
        ))),
    }
}

#[derive(Deserialize)]
struct Account {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<jiff::Timestamp>,
}

/// When the account says that its token ends, in seconds since the epoch; `None` where it does
/// not say, or may not be read.
async fn expiration(client: &Client, cluster: &str, account: &str) -> Option<i64> {
    let path = format!(
        "/apis/authentication.open-cluster-management.io/v1beta1/namespaces/{}/managedserviceaccounts/{}",
        segment(cluster),
        segment(account)
    );
    let answer = client.get(&path, None).await.ok()?;
    let account: Account = answer.json("ManagedServiceAccount").ok()?;
    account.status?.expiration_timestamp.map(|at| at.as_second())
}
