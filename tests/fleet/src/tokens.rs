//! Bearer tokens: JWTs as a spoke's TokenRequest issues them, and opaque ones. All are random.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::json;

/// What a token looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A JWT; both in seconds.
    Jwt {
        /// How long ago it was issued.
        age: i64,
        /// In how many seconds from now it expires; negative: it has expired.
        expires_in: i64,
    },
    /// Random text without dates.
    Opaque,
}

impl TokenKind {
    /// A JWT issued now.
    pub fn jwt(expires_in: i64) -> Self {
        Self::Jwt { age: 0, expires_in }
    }

    /// Seconds from now to its end, if it has one.
    pub(crate) fn expires_in(self) -> Option<i64> {
        match self {
            Self::Jwt { expires_in, .. } => Some(expires_in),
            Self::Opaque => None,
        }
    }
}

impl Default for TokenKind {
    /// OCM's default validity, 8640 hours.
    fn default() -> Self {
        Self::jwt(8640 * 3600)
    }
}

/// A fresh token whose `sub` is the given subject.
pub fn mint(kind: TokenKind, subject: &str) -> String {
    let TokenKind::Jwt { age, expires_in } = kind else {
        return format!("opaque-{}", URL_SAFE_NO_PAD.encode(random::<32>()));
    };
    let now = Timestamp::now().as_second();
    let header = json!({"alg": "ES256", "kid": "fleet", "typ": "JWT"});
    let payload = json!({
        "aud": ["https://kubernetes.default.svc"],
        "exp": now + expires_in,
        "iat": now - age,
        "iss": "https://kubernetes.default.svc",
        "jti": uuid(),
        "nbf": now - age,
        "sub": subject,
    });
    let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (header, payload) = (header.to_string(), payload.to_string());
    format!("{}.{}.{}", part(header.as_bytes()), part(payload.as_bytes()), part(&random::<64>()))
}

/// A random UUID (version 4).
pub(crate) fn uuid() -> String {
    let mut bytes = random::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Random letters and digits for a static token or a password.
pub(crate) fn word() -> String {
    uuid().replace('-', "")
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jwt_tells_its_subject_and_its_dates() {
        let token = mint(TokenKind::Jwt { age: 100, expires_in: 50 }, "system:serviceaccount:ns:name");
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(parts.len(), 3);
        let payload = URL_SAFE_NO_PAD.decode(parts[1]).unwrap();
        let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(payload["sub"], "system:serviceaccount:ns:name");
        assert_eq!(payload["exp"].as_i64().unwrap() - payload["iat"].as_i64().unwrap(), 150);
    }

    #[test]
    fn no_two_tokens_are_the_same() {
        assert_ne!(mint(TokenKind::Opaque, "s"), mint(TokenKind::Opaque, "s"));
        assert_ne!(mint(TokenKind::jwt(1), "s"), mint(TokenKind::jwt(1), "s"));
    }
}
