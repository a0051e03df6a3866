//! A kubeconfig in a Secret: that of a Cluster API cluster (`<cluster>-kubeconfig`, key `value`), or what the
//! Cluster Inventory API's plugin `kubeconfig-secretreader` reads. Its user's token or client certificate is
//! the credential; its server and CA must be those that the context was made for.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};

use super::secret::{Secret, is_token};
use crate::error::{Error, Kind, Result};
use crate::hub::kubeconfig::{Cluster, User};
use crate::hub::{Client, Hub, Kubeconfig};
use crate::request::{SecretKey, Spoke};
use crate::token::{Certificate, Claims, Credential, UNKNOWN_LIFE};

/// Reads the credential, if the kubeconfig still leads to `spoke`.
pub(super) async fn read(
    client: &Client,
    cluster: &str,
    key: &SecretKey,
    context: Option<&str>,
    spoke: Option<&Spoke>,
    now: i64,
) -> Result<Credential> {
    let found = Found::get(client, key, context).await?;
    if let Some(spoke) = spoke {
        found.must_be(spoke, cluster)?;
    }
    found.credential(now)
}

/// Where the kubeconfig in a Secret leads, without what it logs in with.
///
/// # Errors
/// Those of the hub; [`Kind::Failed`] and [`Kind::Refused`] for a kubeconfig that holds no credential which
/// could be handed on.
pub async fn look(
    client: &Client,
    key: &SecretKey,
    context: Option<&str>,
    now: i64,
) -> Result<(Cluster, Spoke)> {
    let found = Found::get(client, key, context).await?;
    found.credential(now)?;
    Ok((found.hub.cluster.clone(), found.spoke()?))
}

/// The context of a kubeconfig that a Secret holds.
struct Found<'a> {
    key: &'a SecretKey,
    hub: Hub,
}

impl<'a> Found<'a> {
    async fn get(client: &Client, key: &'a SecretKey, context: Option<&str>) -> Result<Self> {
        let missing =
            "it is there once the cluster's control plane is; whoever keeps it there must create it";
        let secret = Secret::get(client, &key.namespace, &key.name, missing).await?;
        let text = secret.text(&key.key).map_err(|error| error.remedy(keeper(key)))?;
        // What the reader says could quote the content.
        let parsed = Kubeconfig::parse(text.expose_secret(), Path::new("")).map_err(|_| {
            Error::new(Kind::Failed, format!("{key} holds no kubeconfig under `{}`", key.key))
                .remedy(keeper(key))
        })?;
        let hub = parsed.select(context).map_err(|error| {
            Error::new(Kind::Failed, format!("{key}: {}", error.cause)).remedy(keeper(key))
        })?;
        Ok(Self { key, hub })
    }

    fn spoke(&self) -> Result<Spoke> {
        Ok(Spoke { server: self.hub.server().to_owned(), ca: self.hub.ca_fingerprint()? })
    }

    fn must_be(&self, spoke: &Spoke, cluster: &str) -> Result<()> {
        let now = self.spoke()?;
        if now == *spoke {
            return Ok(());
        }
        let short = |ca: &str| ca.get(..12).unwrap_or(ca).to_owned();
        Err(Error::new(
            Kind::Refused,
            format!(
                "{} now leads to {} (CA {}), and this context to {} (CA {})",
                self.key,
                now.server,
                short(&now.ca),
                spoke.server,
                short(&spoke.ca)
            ),
        )
        .remedy(format!("if {cluster} has really moved, run kubectl inventory use {cluster} again")))
    }

    fn credential(&self, now: i64) -> Result<Credential> {
        let User { token, token_file, client_certificate, client_key, .. } = &self.hub.user;
        let user = &self.hub.user;
        let cluster = &self.hub.cluster;
        for (there, what) in [
            (user.exec.is_some(), "a login command (exec)"),
            (user.auth_provider, "an auth-provider"),
            (user.username.is_some() || user.password.is_some(), "a user name and password"),
            (token_file.is_some() || client_certificate.is_some() || client_key.is_some(), "file paths"),
            (cluster.certificate_authority.is_some(), "a path of a CA file"),
            (cluster.insecure_skip_tls_verify, "insecure-skip-tls-verify"),
        ] {
            if there {
                return Err(Error::new(
                    Kind::Refused,
                    format!("the kubeconfig in {} has {what}, which cannot be handed on", self.key),
                )
                .remedy("name a plugin for this cluster in a provider file (docs/providers.md)"));
            }
        }
        let broken = |why: &str| {
            Error::new(Kind::Failed, format!("the kubeconfig in {} {why}", self.key)).remedy(keeper(self.key))
        };
        let mut credential = Credential::default();
        if let Some(token) = token {
            let token = SecretString::from(token.expose_secret().trim());
            if !is_token(token.expose_secret()) {
                return Err(broken("holds no usable token"));
            }
            let claims = Claims::of(&token);
            credential = Credential::new(token, claims.exp.unwrap_or(now + UNKNOWN_LIFE), claims.iat);
        }
        let text = |data: &str| String::from_utf8(STANDARD.decode(compact(data)).ok()?).ok();
        match (&user.client_certificate_data, &user.client_key_data) {
            (None, None) => {}
            (Some(chain), Some(key)) => {
                let chain =
                    text(chain).ok_or_else(|| broken("holds a client certificate that is not PEM"))?;
                let key =
                    text(key.expose_secret()).ok_or_else(|| broken("holds a client key that is not PEM"))?;
                let certificate = Certificate { chain, key: key.into() };
                credential =
                    credential.with_certificate(certificate).map_err(|error| broken(&error.cause))?;
            }
            (Some(_), None) => return Err(broken("holds a client certificate and no key")),
            (None, Some(_)) => return Err(broken("holds a client key and no certificate")),
        }
        if credential.token.is_none() && credential.certificate.is_none() {
            return Err(broken("holds neither a token nor a client certificate"));
        }
        match credential.ended(now) {
            None => Ok(credential),
            Some(ago) => {
                let what = if credential.certificate.is_some() { "client certificate" } else { "token" };
                let day = crate::protocol::timestamp(credential.expires);
                let day = day.split('T').next().unwrap_or_default();
                Err(broken(&format!("holds a {what} that expired on {day} ({ago} ago)")))
            }
        }
    }
}

fn keeper(key: &SecretKey) -> String {
    format!("whoever keeps {key} on the hub must renew it")
}

fn compact(data: &str) -> String {
    data.chars().filter(|c| !c.is_whitespace()).collect()
}
