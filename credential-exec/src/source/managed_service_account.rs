//! The Secret that OCM's agent keeps for a ManagedServiceAccount in the managed cluster's
//! namespace, and the account's own record of when the token ends.
//! Source: `authentication.open-cluster-management.io/v1beta1`.

use serde::Deserialize;

use super::secret::{Secret, segment};
use crate::error::{Error, Kind, Result};
use crate::hub::Client;
use crate::request::Source;

const LABEL: &str = "authentication.open-cluster-management.io/is-managed-serviceaccount";

/// Reads the account's Secret; one that OCM did not make is refused.
pub(super) async fn read(client: &Client, source: &Source) -> Result<Secret> {
    let Source::ManagedServiceAccount { cluster, secret, .. } = source else {
        return Err(Error::new(Kind::Failed, "not a managed service account's Secret"));
    };
    let secret = Secret::get(client, cluster, secret).await?;
    if secret.label(LABEL) == Some("true") {
        return Ok(secret);
    }
    Err(Error::new(Kind::Refused, format!("Secret {} is not a managed service account's", secret.id()))
        .remedy(format!("it lacks the label {LABEL}=true, which OCM's agent sets")))
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
pub(super) async fn expiration(client: &Client, source: &Source) -> Option<i64> {
    let path = format!(
        "/apis/authentication.open-cluster-management.io/v1beta1/namespaces/{}/managedserviceaccounts/{}",
        segment(source.cluster()),
        segment(source.account())
    );
    let answer = client.get(&path, None).await.ok()?;
    let account: Account = answer.json("ManagedServiceAccount").ok()?;
    account.status?.expiration_timestamp.map(|at| at.as_second())
}
