//! The exec credential protocol: what kubectl asks, and our answer.
//!
//! kubectl sets `KUBERNETES_EXEC_INFO`:
//! ```json
//! {"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
//!  "spec":{"interactive":false,"cluster":{"server":"https://…","config":{"clusterName":"cluster1"}}}}
//! ```
//! and reads from our stdout:
//! ```json
//! {"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
//!  "status":{"expirationTimestamp":"2026-01-02T03:04:05Z","token":"…"}}
//! ```
//! or, in place of the token or beside it, `clientCertificateData` and `clientKeyData` in PEM.
//! Source: `k8s.io/client-go/pkg/apis/clientauthentication`.

use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, Kind, Result};
use crate::hub::kubeconfig::Cluster;
use crate::token::Credential;

const GROUP: &str = "client.authentication.k8s.io/";

/// The versions of the protocol that are alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApiVersion {
    /// Known to kubectl 1.22 and newer.
    #[default]
    V1,
    /// For kubectl before 1.22.
    V1Beta1,
}

impl ApiVersion {
    /// The full spelling, as it stands in a kubeconfig.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "client.authentication.k8s.io/v1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }

    /// Reads the full spelling or the bare version.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(GROUP).unwrap_or(text) {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }
}

/// What kubectl told us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecInfo {
    /// The version to answer in.
    pub api_version: ApiVersion,
    /// Whether kubectl lets us use its stdin.
    pub interactive: bool,
    /// `spec.cluster.config.clusterName`, set by OCM to the ClusterProfile's name.
    pub cluster_name: Option<String>,
    /// The rest of `spec.cluster.config`, as the Cluster Inventory API's `kubeconfig-secretreader` is told.
    pub secret: Option<SecretConfig>,
}

/// Which Secret holds a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SecretConfig {
    /// The Secret's name.
    pub name: String,
    /// The key in it.
    pub key: String,
    /// The Secret's namespace, where it is said.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The kubeconfig's context, where it is said.
    #[serde(default)]
    pub context: Option<String>,
}

#[derive(Deserialize)]
struct WireInfo<'a> {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    #[serde(borrow)]
    spec: Option<WireSpec<'a>>,
}

#[derive(Deserialize)]
struct WireSpec<'a> {
    #[serde(default)]
    interactive: bool,
    #[serde(default)]
    #[serde(borrow)]
    cluster: Option<WireCluster<'a>>,
}

#[derive(Deserialize)]
struct WireCluster<'a> {
    /// Whatever the cluster entry's extension holds: it is the business of other plugins too.
    #[serde(default, borrow)]
    config: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireConfig {
    #[serde(rename = "clusterName")]
    cluster_name: String,
}

/// The cluster entry that kubectl is going to use, out of `KUBERNETES_EXEC_INFO`; `None` where it does
/// not say (`provideClusterInfo: false`).
pub fn cluster(text: Option<&[u8]>) -> Option<Cluster> {
    #[derive(Deserialize)]
    struct Info {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        cluster: Option<Cluster>,
    }
    serde_json::from_slice::<Info>(text?).ok()?.spec.cluster
}

impl ExecInfo {
    /// Reads the value of `KUBERNETES_EXEC_INFO`; unset means v1 and nothing more.
    ///
    /// # Errors
    /// [`Kind::Usage`] for text that is no ExecCredential, or of a version that we do not speak.
    pub fn parse(text: Option<&[u8]>) -> Result<Self> {
        let Some(text) = text else { return Ok(Self::default()) };
        let wire: WireInfo = serde_json::from_slice(text).map_err(|e| {
            Error::new(Kind::Usage, format!("KUBERNETES_EXEC_INFO is not an ExecCredential: {e}"))
                .remedy("it is set by kubectl; unset it to run by hand")
        })?;
        if wire.kind != "ExecCredential" {
            return Err(Error::new(
                Kind::Usage,
                format!("KUBERNETES_EXEC_INFO holds kind {:?}, not ExecCredential", wire.kind),
            )
            .remedy("it is set by kubectl; unset it to run by hand"));
        }
        let api_version = wire
            .api_version
            .starts_with(GROUP)
            .then(|| ApiVersion::parse(&wire.api_version))
            .flatten()
            .ok_or_else(|| {
                Error::new(
                    Kind::Usage,
                    format!("KUBERNETES_EXEC_INFO asks for apiVersion {:?}", wire.api_version),
                )
                .remedy(format!(
                    "set the user's exec.apiVersion to {GROUP}v1 (or v1beta1 before kubectl 1.22)"
                ))
            })?;
        let spec = wire.spec.unwrap_or(WireSpec { interactive: false, cluster: None });
        let config = spec.cluster.and_then(|cluster| cluster.config).map(RawValue::get);
        let cluster_name = config
            .and_then(|config| serde_json::from_str::<WireConfig>(config).ok())
            .map(|config| config.cluster_name)
            .filter(|name| !name.is_empty());
        let secret = config
            .filter(|_| cluster_name.is_none())
            .and_then(|config| serde_json::from_str::<SecretConfig>(config).ok())
            .filter(|secret| !secret.name.is_empty() && !secret.key.is_empty());
        Ok(Self { api_version, interactive: spec.interactive, cluster_name, secret })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireAnswer<'a> {
    api_version: &'a str,
    kind: &'a str,
    status: WireStatus<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus<'a> {
    expiration_timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate_data: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_key_data: Option<&'a str>,
}

/// The answer: one JSON object and a newline, holding the credential.
pub fn answer(version: ApiVersion, credential: &Credential) -> Vec<u8> {
    let certificate = credential.certificate.as_ref();
    let answer = WireAnswer {
        api_version: version.as_str(),
        kind: "ExecCredential",
        status: WireStatus {
            expiration_timestamp: timestamp(credential.expires),
            token: credential.token.as_ref().map(ExposeSecret::expose_secret),
            client_certificate_data: certificate.map(|certificate| certificate.chain.as_str()),
            client_key_data: certificate.map(|certificate| certificate.key.expose_secret()),
        },
    };
    let mut bytes = Vec::with_capacity(256 + answer.status.token.map_or(4096, str::len));
    let _ = serde_json::to_writer(&mut bytes, &answer);
    bytes.push(b'\n');
    bytes
}

/// Seconds since the epoch as RFC 3339 in UTC with whole seconds, clamped to years 0 to 9999.
pub fn timestamp(unix: i64) -> String {
    const LAST: i64 = 253_402_300_799;
    let at = jiff::Timestamp::from_second(unix.clamp(0, LAST - 86_400)).unwrap_or_default();
    at.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_answer_is_byte_exact_in_both_versions() {
        let credential = Credential::new("abc".into(), 1_767_323_045, None);
        for (version, name) in [(ApiVersion::V1, "v1"), (ApiVersion::V1Beta1, "v1beta1")] {
            assert_eq!(
                String::from_utf8(answer(version, &credential)).unwrap(),
                format!(
                    "{{\"apiVersion\":\"client.authentication.k8s.io/{name}\",\"kind\":\"ExecCredential\",\
                     \"status\":{{\"expirationTimestamp\":\"2026-01-02T03:04:05Z\",\"token\":\"abc\"}}}}\n"
                )
            );
        }
    }

    #[test]
    fn nothing_asked_means_v1() {
        assert_eq!(ExecInfo::parse(None).unwrap().api_version, ApiVersion::V1);
    }

    #[test]
    fn the_question_names_version_interactivity_and_cluster() {
        let info = ExecInfo::parse(Some(
            br#"{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","new":1,
                "spec":{"interactive":true,"cluster":{"server":"x","config":{"clusterName":"c1"}}}}"#,
        ))
        .unwrap();
        assert_eq!(
            info,
            ExecInfo {
                api_version: ApiVersion::V1Beta1,
                interactive: true,
                cluster_name: Some("c1".into()),
                secret: None,
            }
        );
    }

    #[test]
    fn a_secret_is_told_by_name_and_key_at_least() {
        let told = |config: &str| {
            let text = format!(
                r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
                    "spec":{{"cluster":{{"server":"x","config":{config}}}}}}}"#
            );
            ExecInfo::parse(Some(text.as_bytes())).unwrap().secret
        };
        let secret = told(r#"{"name":"s","key":"value","namespace":"ns","context":"c"}"#).unwrap();
        assert_eq!((secret.name.as_str(), secret.namespace.as_deref()), ("s", Some("ns")));
        assert!(told(r#"{"name":"s","key":"value"}"#).unwrap().context.is_none());
        for other in [r#"{"name":"s"}"#, r#"{"name":"","key":"k"}"#, r#"{"clusterName":"c"}"#, "7", "null"] {
            assert_eq!(told(other), None, "{other}");
        }
    }

    #[test]
    fn what_we_do_not_speak_is_named() {
        for version in ["client.authentication.k8s.io/v1alpha1", "v1", "", "apps/v1"] {
            let text = format!(r#"{{"apiVersion":"{version}","kind":"ExecCredential","spec":{{}}}}"#);
            let error = ExecInfo::parse(Some(text.as_bytes())).unwrap_err();
            assert_eq!(error.kind, Kind::Usage);
            assert!(error.cause.contains(&format!("{version:?}")), "{error}");
        }
        for garbage in ["{", "[]", "null", "x", r#"{"apiVersion":"client.authentication.k8s.io/v1"}"#] {
            assert_eq!(ExecInfo::parse(Some(garbage.as_bytes())).unwrap_err().kind, Kind::Usage, "{garbage}");
        }
    }

    proptest! {
        #[test]
        fn any_token_and_any_date_make_one_line_of_json(token in ".*", expires in any::<i64>()) {
            let bytes = answer(ApiVersion::V1, &Credential::new(token.clone().into(), expires, None));
            let text = String::from_utf8(bytes).unwrap();
            prop_assert_eq!(text.matches('\n').count(), 1);
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(json["status"]["token"].as_str().unwrap(), token);
            let date = json["status"]["expirationTimestamp"].as_str().unwrap();
            prop_assert_eq!(date.len(), 20);
            prop_assert!(date.ends_with('Z'));
        }

        #[test]
        fn no_question_makes_it_panic(text in ".*") {
            let _ = ExecInfo::parse(Some(text.as_bytes()));
        }
    }
}
