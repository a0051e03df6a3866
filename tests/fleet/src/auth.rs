//! Who may sign in at a server, and how often each token came.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;

use crate::request::Authorization;

/// A name and its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl User {
    pub(crate) fn new(name: &str) -> Self {
        let mut groups = vec!["system:authenticated".to_owned()];
        if let Some((namespace, _)) =
            name.strip_prefix("system:serviceaccount:").and_then(|n| n.split_once(':'))
        {
            groups.insert(0, format!("system:serviceaccounts:{namespace}"));
            groups.insert(0, "system:serviceaccounts".to_owned());
        }
        Self { name: name.into(), groups }
    }
}

#[derive(Default)]
pub(crate) struct Auth {
    tokens: BTreeMap<String, (User, Option<i64>)>,
    passwords: BTreeMap<String, User>,
    certificates: BTreeMap<Vec<u8>, User>,
    seen: BTreeMap<String, usize>,
}

impl Auth {
    /// Accepts the token until the second since the epoch, if there is one.
    pub(crate) fn accept_token(&mut self, token: &str, user: &str, until: Option<i64>) {
        self.tokens.insert(token.to_owned(), (User::new(user), until));
    }

    pub(crate) fn revoke_token(&mut self, token: &str) {
        self.tokens.remove(token);
    }

    pub(crate) fn accept_password(&mut self, name: &str, password: &str) {
        self.passwords.insert(STANDARD.encode(format!("{name}:{password}")), User::new(name));
    }

    pub(crate) fn accept_certificate(&mut self, der: &[u8], user: &str) {
        self.certificates.insert(der.to_vec(), User::new(user));
    }

    pub(crate) fn times_seen(&self, token: &str) -> usize {
        self.seen.get(token).copied().unwrap_or_default()
    }

    /// How the request signs in, and who that is (`None`: 401).
    pub(crate) fn identify(
        &mut self,
        headers: &HeaderMap,
        certificate: Option<&[u8]>,
    ) -> (Authorization, Option<User>) {
        if let Some(user) = certificate.and_then(|der| self.certificates.get(der)) {
            return (Authorization::ClientCertificate, Some(user.clone()));
        }
        let Some(header) = headers.get(AUTHORIZATION) else { return (Authorization::None, None) };
        match header.to_str().unwrap_or_default().split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                *self.seen.entry(token.to_owned()).or_default() += 1;
                let now = Timestamp::now().as_second();
                let valid = self.tokens.get(token).filter(|(_, until)| until.is_none_or(|until| now < until));
                (Authorization::Bearer, valid.map(|(user, _)| user.clone()))
            }
            Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => {
                (Authorization::Basic, self.passwords.get(pair).cloned())
            }
            _ => (Authorization::Other, None),
        }
    }
}
