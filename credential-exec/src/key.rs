//! The cache key: a hash of everything that shapes the answer.

use ring::digest::{Context, SHA256};

use crate::error::Result;
use crate::hub::Hub;
use crate::request::CredentialRequest;

/// The key of a request at this hub. It changes with the hub's server, its CA, who we are there,
/// the profile and the place where the token lies.
///
/// # Errors
/// Those of reading the hub's CA.
pub fn full(hub: &Hub, request: &CredentialRequest) -> Result<String> {
    let (ca, identity) = (hub.ca_fingerprint()?, hub.identity_hash());
    let mut parts = vec![
        hub.server(),
        &ca,
        &identity,
        &request.profile.namespace,
        &request.profile.name,
        &request.profile.uid,
        request.source.kind(),
    ];
    parts.extend(request.source.details().into_iter().flat_map(|(flag, value)| [flag, value]));
    Ok(sha256(&parts))
}

/// Hex SHA-256 of several texts, each with its length, so that no two lists run together.
pub fn sha256(parts: &[&str]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn different_lists_have_different_keys(a in prop::collection::vec(".{0,3}", 0..4), b in prop::collection::vec(".{0,3}", 0..4)) {
            let hash = |list: &[String]| sha256(&list.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(a == b, hash(&a) == hash(&b));
        }
    }
}
