//! Contexts whose CA no longer goes with what the hub publishes: kubectl would only say x509. Pure.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credential_exec::hub::tls::Anchors;
use serde::Deserialize;

use crate::inventory::ClusterProfile;

/// A profile of whose providers only the CA is read.
pub type Published = ClusterProfile<PublishedCa>;

/// The CA of an access provider.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct PublishedCa {
    /// Base64 of PEM.
    #[serde(default, rename = "certificate-authority-data")]
    ca: Option<String>,
}

/// The contexts of one hub that are in use, by `namespace/name` of their profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held(BTreeMap<String, Vec<(String, String)>>);

impl Held {
    /// Adds a context: whose profile it leads to, and its `certificate-authority-data`.
    pub fn add(&mut self, profile: String, context: String, ca: String) {
        self.0.entry(profile).or_default().push((context, ca));
    }

    /// The contexts that lead to a profile.
    pub fn contexts(&self, profile: &str) -> impl Iterator<Item = &str> {
        self.0.get(profile).into_iter().flatten().map(|(context, _)| context.as_str())
    }

    /// The contexts that lead to a profile and have no certificate in common with this bundle.
    pub fn distrusting<'a>(&'a self, profile: &str, ca: &'a str) -> impl Iterator<Item = &'a str> {
        let held = self.0.get(profile).into_iter().flatten();
        held.filter(move |(_, old)| !agree(old, ca)).map(|(context, _)| context.as_str())
    }

    /// The contexts that do not trust the server that a profile publishes now. A renewed leaf changes
    /// nothing where its signer stays.
    pub fn stale<'a>(&'a self, profile: &Published) -> impl Iterator<Item = &'a str> {
        let key = format!("{}/{}", profile.metadata.namespace, profile.metadata.name);
        let published: Vec<String> = match self.0.contains_key(&key) {
            true => {
                profile.access_providers().providers.iter().filter_map(|p| p.cluster.ca.clone()).collect()
            }
            false => Vec::new(),
        };
        let held = self.0.get(&key).into_iter().flatten();
        held.filter(move |(_, ca)| !published.is_empty() && !published.iter().any(|new| agree(ca, new)))
            .map(|(context, _)| context.as_str())
    }
}

/// Whether two bundles have a certificate in common. What cannot be read is not judged.
fn agree(old: &str, new: &str) -> bool {
    if old == new {
        return true;
    }
    match (certificates(old), certificates(new)) {
        (Some(Anchors::Bundle(old)), Some(Anchors::Bundle(new))) => old.iter().any(|one| new.contains(one)),
        _ => true,
    }
}

fn certificates(data: &str) -> Option<Anchors> {
    Anchors::from_pem(&STANDARD.decode(data.trim()).ok()?).ok()
}
