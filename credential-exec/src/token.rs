//! A bearer token and its dates. The hub vouches for the token: its signature is not ours to check.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::{Error, Kind, Result};

/// How long an answer lives whose own end nobody tells, in seconds.
pub const UNKNOWN_LIFE: i64 = 300;

/// What goes to kubectl: a token, a client certificate, or both.
#[derive(Clone, Debug, Default)]
pub struct Credential {
    /// The bearer token.
    pub token: Option<SecretString>,
    /// The client certificate.
    pub certificate: Option<Certificate>,
    /// When it ends, in seconds since the epoch.
    pub expires: i64,
    /// When its life began, in seconds since the epoch, where known.
    pub issued: Option<i64>,
}

/// A client certificate with its key, PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The leaf, and what it was signed by.
    pub chain: String,
    /// The key.
    pub key: SecretString,
}

impl Certificate {
    /// Begin and end of the leaf's validity, in seconds since the epoch.
    ///
    /// # Errors
    /// [`Kind::Failed`] for text that holds no certificate.
    pub fn validity(&self) -> Result<(i64, i64)> {
        let none = || Error::new(Kind::Failed, "holds a client certificate that cannot be read");
        let leaf = CertificateDer::pem_slice_iter(self.chain.as_bytes()).next();
        let leaf = leaf.and_then(|leaf| leaf.ok()).ok_or_else(none)?;
        let (_, leaf) = X509Certificate::from_der(&leaf).map_err(|_| none())?;
        let validity = leaf.validity();
        Ok((validity.not_before.timestamp(), validity.not_after.timestamp()))
    }
}

impl Credential {
    /// A token with its dates.
    pub fn new(token: SecretString, expires: i64, issued: Option<i64>) -> Self {
        Self { token: Some(token), expires, issued, ..Self::default() }
    }

    /// A client certificate, perhaps beside a token; it ends with whatever of them ends first.
    ///
    /// # Errors
    /// As [`Certificate::validity`].
    pub fn with_certificate(mut self, certificate: Certificate) -> Result<Self> {
        let (begin, end) = certificate.validity()?;
        if self.token.is_none() || end < self.expires {
            (self.expires, self.issued) = (end, Some(begin));
        }
        self.certificate = Some(certificate);
        Ok(self)
    }

    /// Whether it lives long enough to be handed out again at `now`: more than a tenth of its
    /// life must be left, but never less than one minute and never more than five.
    pub fn outlasts_margin(&self, now: i64) -> bool {
        let life = self.issued.map_or(i64::MAX, |issued| self.expires.saturating_sub(issued));
        let margin = (life / 10).clamp(60, 300);
        self.expires.saturating_sub(now) > margin
    }

    /// How long ago it ended, in words; `None` while it is good.
    pub fn ended(&self, now: i64) -> Option<String> {
        (self.expires <= now).then(|| ago(now.saturating_sub(self.expires)))
    }
}

/// What a service account token says about itself; all of it absent for an opaque token.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Claims {
    /// The end, in seconds since the epoch.
    #[serde(default, deserialize_with = "seconds")]
    pub exp: Option<i64>,
    /// The beginning, in seconds since the epoch.
    #[serde(default, deserialize_with = "seconds")]
    pub iat: Option<i64>,
    /// `system:serviceaccount:<namespace>:<name>`.
    #[serde(default)]
    pub sub: Option<String>,
}

/// RFC 7519 allows fractions of a second.
fn seconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.map(|s| s as i64))
}

impl Claims {
    /// Reads the claims of a JWT; an opaque token has none.
    pub fn of(token: &SecretString) -> Self {
        jsonwebtoken::dangerous::insecure_decode_claims::<Self>(token.expose_secret()).unwrap_or_default()
    }

    /// Refuses a token that says it belongs to another service account than `account`.
    ///
    /// # Errors
    /// [`Kind::Refused`], naming both accounts.
    pub fn belongs_to(&self, account: &str) -> Result<()> {
        let Some(sub) = &self.sub else { return Ok(()) };
        let name = sub.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        match name {
            Some((_, name)) if name == account => Ok(()),
            _ => Err(Error::new(
                Kind::Refused,
                format!("the token found for managed service account {account} belongs to {sub}"),
            )
            .remedy("two accounts share this Secret name; delete the wrong Secret on the hub")),
        }
    }
}

/// A duration in words, in its largest whole unit.
fn ago(seconds: i64) -> String {
    match seconds {
        s if s >= 86_400 => format!("{} d", s / 86_400),
        s if s >= 3_600 => format!("{} h", s / 3_600),
        s if s >= 60 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;

    fn jwt(claims: &str) -> SecretString {
        let b64 = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.c2ln", b64(r#"{"alg":"RS256","typ":"JWT"}"#), b64(claims)).into()
    }

    #[test]
    fn dates_and_subject_come_from_the_token() {
        let claims =
            Claims::of(&jwt(r#"{"exp":200,"iat":100.5,"sub":"system:serviceaccount:ns:me","aud":["x"]}"#));
        assert_eq!(
            claims,
            Claims { exp: Some(200), iat: Some(100), sub: Some("system:serviceaccount:ns:me".into()) }
        );
    }

    #[test]
    fn an_opaque_or_broken_token_has_no_claims() {
        for token in ["opaque", "a.b.c", "", "..", "eyJ.e.e"] {
            assert_eq!(Claims::of(&SecretString::from(token)), Claims::default());
        }
    }

    #[test]
    fn another_accounts_token_is_refused_whatever_its_namespace() {
        let of = |sub: &str| Claims { sub: Some(sub.into()), ..Claims::default() };
        assert!(of("system:serviceaccount:any:c").belongs_to("c").is_ok());
        assert!(Claims::default().belongs_to("c").is_ok());
        for sub in
            ["system:serviceaccount:any:b-c", "system:serviceaccount:any:c:x", "c", "system:serviceaccount:c"]
        {
            assert_eq!(of(sub).belongs_to("c").unwrap_err().kind, Kind::Refused, "{sub}");
        }
    }

    #[test]
    fn the_margin_is_a_tenth_of_life_between_one_and_five_minutes() {
        let token = |life: i64| Credential::new("t".into(), life, Some(0));
        for (life, margin) in [(300, 60), (600, 60), (1_200, 120), (3_000, 300), (1_000_000, 300)] {
            assert!(token(life).outlasts_margin(life - margin - 1), "{life}");
            assert!(!token(life).outlasts_margin(life - margin), "{life}");
        }
        assert!(!Credential::new("t".into(), 300, None).outlasts_margin(0));
    }

    #[test]
    fn what_ended_says_since_when_in_its_largest_unit() {
        for (ago, words) in [(3 * 86_400 + 5, "3 d"), (7_200, "2 h"), (61, "1 min"), (0, "0 s")] {
            let credential = Credential::new("t".into(), 1_000, None);
            assert_eq!(credential.ended(1_000 + ago).as_deref(), Some(words));
        }
        assert_eq!(Credential::new("t".into(), 1_000, None).ended(999), None);
    }

    #[test]
    fn a_certificate_ends_with_its_leaf_and_a_token_beside_it_may_end_before() {
        let made = rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap();
        let certificate =
            || Certificate { chain: made.cert.pem(), key: made.signing_key.serialize_pem().into() };
        let (begin, end) = certificate().validity().unwrap();
        assert!(begin < end);
        let alone = Credential::default().with_certificate(certificate()).unwrap();
        assert_eq!((alone.expires, alone.issued), (end, Some(begin)));
        let both = Credential::new("t".into(), 1_000, None).with_certificate(certificate()).unwrap();
        assert_eq!(both.expires, 1_000);
        let garbage = Certificate { chain: "garbage".into(), key: "k".into() };
        assert!(Credential::default().with_certificate(garbage).is_err());
        assert!(!format!("{both:?}").contains("PRIVATE KEY"));
    }
}
