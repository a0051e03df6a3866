//! The person's own identity at the hub, handed on: to cluster-gateway, where the hub itself asks for it, or
//! through cluster-proxy, where only a token arrives.

use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::hub::Hub;
use crate::hub::identity::{self, Mode};
use crate::token::{Claims, Credential, UNKNOWN_LIFE};

/// Logs in as the hub's user entry says; `certificate` is whether a client certificate is of use.
pub(super) async fn read(
    hub: &Hub,
    env: &Env,
    mode: Mode,
    extra_env: &[(String, String)],
    certificate: bool,
    now: i64,
) -> Result<Credential> {
    let login = identity::login(hub, env, mode, extra_env).await?;
    let mut credential = Credential::default();
    if let Some(token) = login.token {
        let claims = Claims::of(&token);
        let expires = login.expires.or(claims.exp).unwrap_or(now + UNKNOWN_LIFE);
        credential = Credential::new(token, expires, claims.iat);
    }
    if let Some(found) = login.certificate.filter(|_| certificate) {
        credential =
            credential.with_certificate(found).map_err(|error| error.context("the hub's user entry"))?;
    }
    if credential.token.is_none() && credential.certificate.is_none() {
        return Err(Error::new(
            Kind::Refused,
            format!("the user of hub context {:?} logs in without a bearer token", hub.context),
        )
        .remedy("only a bearer token travels to the cluster: use a hub context that has one"));
    }
    match credential.ended(now) {
        None => Ok(credential),
        Some(ago) => Err(Error::new(
            Kind::Failed,
            format!("the login at hub context {:?} expired {ago} ago", hub.context),
        )
        .remedy("log in to the hub again")),
    }
}
