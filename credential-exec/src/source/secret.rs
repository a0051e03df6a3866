//! A Secret on the hub, as far as we read it. Source: `core/v1`.

use std::collections::BTreeMap;

use base64::Engine as _;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::error::{Error, Kind, Result};
use crate::hub::Client;

/// The part of a Secret that decides whose token it holds, and the token.
#[derive(Deserialize)]
pub struct Secret {
    /// Name, labels and owners.
    pub metadata: Metadata,
    #[serde(default)]
    data: Option<BTreeMap<String, SecretString>>,
}

/// Object metadata.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    /// Objects that this one goes with.
    #[serde(default)]
    pub owner_references: Option<Vec<OwnerReference>>,
}

/// One owner.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's kind.
    #[serde(default)]
    pub kind: String,
    /// The owner's name.
    #[serde(default)]
    pub name: String,
    /// The owner's identity.
    #[serde(default)]
    pub uid: String,
}

impl Secret {
    /// Reads one Secret; `missing` is what to do where it is not there.
    ///
    /// # Errors
    /// Those of the hub; a missing Secret and a missing permission say what to do.
    pub async fn get(client: &Client, namespace: &str, name: &str, missing: &str) -> Result<Self> {
        let what = format!("Secret {namespace}/{name}");
        let path = format!("/api/v1/namespaces/{}/secrets/{}", segment(namespace), segment(name));
        let answer = client.get(&path, None).await?;
        answer.json::<Self>(&what).map_err(|error| match error.kind {
            Kind::NotFound => Error::new(Kind::NotFound, format!("{what} is not on the hub")).remedy(missing),
            Kind::Refused if error.remedy.is_empty() => {
                error.remedy(format!("ask for `get` on this Secret in namespace {namespace} of the hub"))
            }
            _ => error,
        })
    }

    /// A label's value.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// `namespace/name`, for messages.
    pub fn id(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// Whether it belongs to this object.
    pub fn is_owned_by(&self, kind: &str, name: &str, uid: &str) -> bool {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.kind == kind && owner.name == name && (uid.is_empty() || owner.uid == uid))
    }

    /// The text under a key.
    ///
    /// # Errors
    /// [`Kind::Failed`] when there is none.
    pub fn text(&self, key: &str) -> Result<SecretString> {
        let encoded = self.data.as_ref().and_then(|data| data.get(key));
        let encoded = encoded.ok_or_else(|| self.broken(&format!("has no key `{key}`")))?;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(encoded.expose_secret())
            .map_err(|_| self.broken(&format!("has a `{key}` that is not base64")))?;
        let text =
            String::from_utf8(bytes).map_err(|_| self.broken(&format!("has a `{key}` that is not text")))?;
        Ok(text.into())
    }

    /// The bearer token under a key.
    ///
    /// # Errors
    /// [`Kind::Failed`] when there is none, or it could not stand in an HTTP header.
    pub fn token(&self, key: &str) -> Result<SecretString> {
        let text = self.text(key)?;
        let token = text.expose_secret().trim();
        if !is_token(token) {
            return Err(self.broken("holds no usable token"));
        }
        Ok(token.into())
    }

    /// What is wrong with it.
    pub fn broken(&self, why: &str) -> Error {
        Error::new(Kind::Failed, format!("Secret {} on the hub {why}", self.id()))
    }
}

/// Whether this could stand in an HTTP header.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}

/// A name as one segment of a URL's path.
pub fn segment(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%2D", "-")
        .replace("%2E", ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_token(data: serde_json::Value) -> Secret {
        serde_json::from_value(
            serde_json::json!({"metadata": {"namespace": "ns", "name": "s"}, "data": data}),
        )
        .unwrap()
    }

    #[test]
    fn the_token_is_decoded_and_trimmed() {
        let secret = with_token(serde_json::json!({"token": "YWJjCg==", "ca.crt": ""}));
        assert_eq!(secret.token("token").unwrap().expose_secret(), "abc");
    }

    #[test]
    fn a_secret_without_a_usable_token_is_named_and_never_shown() {
        for data in [
            "null",
            "{}",
            r#"{"token":""}"#,
            r#"{"token":"!"}"#,
            r#"{"token":"/w=="}"#,
            r#"{"token":"YQpi"}"#,
        ] {
            let error = with_token(serde_json::from_str(data).unwrap()).token("token").unwrap_err();
            assert!(error.cause.starts_with("Secret ns/s on the hub "), "{error}");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_path_segment() {
        assert_eq!(segment("a-b.c"), "a-b.c");
        assert_eq!(segment("../x?y#z/ä"), "..%2Fx%3Fy%23z%2F%C3%A4");
    }
}
