//! What we write for one cluster: a context with its cluster and user, each marked as ours.

use super::yaml::Node;
use crate::inventory::Origin;
use serde_json::Value;

/// The name of our extension in a kubeconfig.
pub const EXTENSION: &str = "kubectl-inventory";

/// A context with its cluster and user, as it is to stand in the file.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// Name of the context.
    pub context: String,
    /// Name of the cluster entry.
    pub cluster_name: String,
    /// Name of the user entry.
    pub user_name: String,
    /// Content of the cluster entry.
    pub cluster: Value,
    /// Content of the user entry; none where the name is that of one in the file already, which stays as it
    /// is.
    pub user: Option<Value>,
    /// Namespace of a context that is new; one that stands in the file keeps its own.
    pub namespace: Option<String>,
    /// Where the entry comes from.
    pub mark: Mark,
}

/// What an entry of ours says about where it comes from: the extension `kubectl-inventory`.
///
/// ```yaml
/// extensions:
/// - name: kubectl-inventory
///   extension: {hub: …, hubContext: …, profile: namespace/name, account: …, source: …, uid: …}
/// ```
///
/// Without `source` it is a ClusterProfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Fingerprint of the hub.
    pub hub: String,
    /// The context that the hub was found by.
    pub hub_context: String,
    /// The kind of inventory that the cluster stands in, as `--source` spells it.
    pub source: String,
    /// Namespace and name of the profile, joined by a slash.
    pub profile: String,
    /// The account that the entry logs in with, where there is one.
    pub account: Option<String>,
    /// UID of the profile.
    pub uid: String,
}

impl Mark {
    /// Whether both stand for the same way into the same cluster, perhaps created anew meanwhile.
    pub fn is_same_entry(&self, other: &Self) -> bool {
        (&self.hub, &self.hub_context, &self.profile, &self.account)
            == (&other.hub, &other.hub_context, &other.profile, &other.account)
    }

    /// Whether both stand for the same cluster, perhaps with another account, of a hub that was
    /// renamed, or whose certificate authority changed.
    pub fn is_same_cluster(&self, other: &Self) -> bool {
        self.profile == other.profile && (self.hub == other.hub || self.hub_context == other.hub_context)
    }

    /// The mark within the content of a cluster, user or context entry.
    pub(super) fn of(body: &Node) -> Option<Self> {
        let mark = extension(body, EXTENSION)?;
        let text = |key| mark.str(key).to_owned();
        Some(Self {
            hub: text("hub"),
            hub_context: text("hubContext"),
            source: Some(text("source"))
                .filter(|source| !source.is_empty())
                .unwrap_or_else(|| Origin::ClusterProfile.option().to_owned()),
            profile: text("profile"),
            account: mark.get("account").and_then(Node::text).map(str::to_owned),
            uid: text("uid"),
        })
    }

    pub(super) fn node(&self) -> Node {
        let mut pairs =
            vec![("hub", &self.hub), ("hubContext", &self.hub_context), ("profile", &self.profile)];
        pairs.extend(self.account.as_ref().map(|account| ("account", account)));
        if self.source != Origin::ClusterProfile.option() {
            pairs.push(("source", &self.source));
        }
        pairs.push(("uid", &self.uid));
        Node::Map(pairs.into_iter().map(|(key, value)| (key.into(), value.as_str().into())).collect())
    }
}

/// The content of the extension of this name.
pub(super) fn extension<'a>(body: &'a Node, name: &str) -> Option<&'a Node> {
    body.get("extensions")?.items().iter().find(|item| item.str("name") == name)?.get("extension")
}

/// Replaces the extension of this name in its place, or adds it.
pub(super) fn set_extension(body: &mut Node, name: &str, extension: Node) {
    let item = Node::Map(vec![("extension".into(), extension), ("name".into(), name.into())]);
    match body.get_mut("extensions") {
        Some(Node::List(items)) => match items.iter_mut().find(|item| item.str("name") == name) {
            Some(old) => *old = item,
            None => items.push(item),
        },
        _ => body.set("extensions", Node::List(vec![item])),
    }
}

/// What putting an entry did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The context is new.
    Added,
    /// The context was there and is different now.
    Updated(Box<Update>),
    /// The file says all of it already.
    Unchanged,
}

/// What a person should be told of a changed entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Server, old and new, if they differ.
    pub server: Option<(String, String)>,
    /// `certificate-authority-data`, old and new, if they differ.
    pub ca: Option<(String, String)>,
    /// Where the replaced context came from, if that was another cluster or account of ours.
    pub was: Option<Mark>,
}
