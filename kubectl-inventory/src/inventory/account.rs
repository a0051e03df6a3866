//! The managed service accounts of a cluster, as far as the caller may see them: OCM's
//! ManagedServiceAccounts, and the metadata of the Secrets that OCM copies beside a ClusterProfile.
//! Source: `authentication.open-cluster-management.io/v1beta1`.

use std::collections::BTreeSet;

use credential_exec::error::{Error, Kind, Result};
use credential_exec::request::Source;
use serde::Deserialize;

use super::ClusterProfile;
use super::origin::Api;

/// ManagedServiceAccounts on the hub.
pub static API: Api = Api {
    group: "authentication.open-cluster-management.io",
    version: "v1beta1",
    plural: "managedserviceaccounts",
    kind: "ManagedServiceAccount",
    words: "ManagedServiceAccounts",
    namespaced: true,
    install: "install the managed-serviceaccount add-on on the hub (docs/hub-setup.md)",
};

/// Secrets on the hub.
pub static SECRETS: Api = Api {
    group: "",
    version: "v1",
    plural: "secrets",
    kind: "Secret",
    words: "Secrets",
    namespaced: true,
    install: "",
};

/// Selects OCM's copies among the Secrets of a namespace.
pub const SYNCED_LABEL: &str = "authentication.open-cluster-management.io/synced-from";

/// A list of objects.
#[derive(Deserialize)]
pub struct List<T> {
    items: Option<Vec<T>>,
}

impl<T> List<T> {
    /// The objects; a real API server writes `null` for none of them.
    pub fn items(self) -> Vec<T> {
        self.items.unwrap_or_default()
    }
}

/// A ManagedServiceAccount.
#[derive(Clone, Debug, Deserialize)]
pub struct ManagedServiceAccount {
    metadata: InNamespace,
    status: Option<AccountStatus>,
}

#[derive(Clone, Debug, Deserialize)]
struct Name {
    name: String,
}

#[derive(Clone, Debug, Deserialize)]
struct InNamespace {
    name: String,
    #[serde(default)]
    namespace: String,
}

impl ManagedServiceAccount {
    /// The namespace that it is in, which is its cluster's.
    pub fn cluster(&self) -> &str {
        &self.metadata.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountStatus {
    token_secret_ref: Option<Name>,
}

/// The metadata of a Secret (PartialObjectMetadata of `meta.k8s.io/v1`).
#[derive(Clone, Debug, Deserialize)]
pub struct SecretMetadata {
    metadata: OwnedName,
}

impl SecretMetadata {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether the Secret is owned by this very profile.
    pub fn belongs_to(&self, profile: &ClusterProfile) -> bool {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.kind == "ClusterProfile" && owner.uid == profile.metadata.uid)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedName {
    name: String,
    owner_references: Option<Vec<Owner>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Owner {
    uid: String,
    kind: String,
}

/// What the hub shows of one cluster's accounts.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// The accounts whose token OCM copied beside this very profile.
    pub synced: BTreeSet<String>,
    /// The accounts with a token of their own, each with its Secret's name.
    pub own: Vec<(String, String)>,
    /// The accounts that have no token yet.
    pub without_token: Vec<String>,
}

impl Accounts {
    /// Takes in OCM's copies: those that belong to this very profile. Its UID decides, since the
    /// joined name `<cluster>-<account>` alone could mean another cluster's account.
    pub fn add_synced(&mut self, profile: &ClusterProfile, secrets: &[SecretMetadata]) {
        let prefix = format!("{}-", profile.managed_cluster());
        let names = secrets
            .iter()
            .filter(|secret| secret.belongs_to(profile))
            .filter_map(|s| s.metadata.name.strip_prefix(&prefix));
        self.synced.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
    }

    /// Takes in the cluster's ManagedServiceAccounts.
    pub fn add_own(&mut self, accounts: Vec<ManagedServiceAccount>) {
        for account in accounts {
            match account.status.and_then(|status| status.token_secret_ref) {
                Some(secret) => self.own.push((account.metadata.name, secret.name)),
                None => self.without_token.push(account.metadata.name),
            }
        }
    }

    /// The account that has a token, if it is the only one.
    pub fn only(&self) -> Option<&str> {
        match self.own.as_slice() {
            [(name, _)] => Some(name),
            _ => None,
        }
    }

    fn names(&self) -> BTreeSet<&str> {
        self.synced.iter().map(String::as_str).chain(self.own.iter().map(|(name, _)| name.as_str())).collect()
    }

    /// The account to be at the cluster: the named one, else the only one; with its token's place,
    /// OCM's copy before the account's own Secret.
    ///
    /// # Errors
    /// [`Kind::NotFound`] and [`Kind::Usage`], with the accounts on offer.
    pub fn choose(&self, profile: &ClusterProfile, wanted: Option<&str>) -> Result<Source> {
        let cluster = profile.managed_cluster();
        let names = self.names();
        let listed = || names.iter().copied().collect::<Vec<_>>().join(", ");
        let account = match (wanted, names.len()) {
            (Some(name), _) => name,
            (None, 1) => names.first().copied().unwrap_or_default(),
            (None, 0) if !self.without_token.is_empty() => {
                return Err(Error::new(
                    Kind::NotFound,
                    format!(
                        "no ManagedServiceAccount of {cluster} has a token yet: {}",
                        self.without_token.join(", ")
                    ),
                )
                .remedy(format!("check the managed-serviceaccount add-on agent on {cluster}")));
            }
            (None, 0) => {
                return Err(Error::new(Kind::NotFound, format!("no ManagedServiceAccount of {cluster} can be seen"))
                    .remedy("create one, or ask for permission to list them (docs/hub-setup.md), or name one with --managed-serviceaccount"));
            }
            (None, _) => {
                return Err(Error::new(
                    Kind::Usage,
                    format!("{cluster} has several ManagedServiceAccounts: {}", listed()),
                )
                .remedy("choose one with --managed-serviceaccount NAME"));
            }
        };
        let (cluster, account) = (cluster.to_owned(), account.to_owned());
        if self.synced.contains(&account) {
            let secret = format!("{cluster}-{account}");
            return Ok(Source::SyncedSecret { cluster, account, secret });
        }
        if let Some((_, secret)) = self.own.iter().find(|(name, _)| *name == account) {
            return Ok(Source::ManagedServiceAccount { cluster, account, secret: secret.clone() });
        }
        if self.without_token.contains(&account) {
            return Err(Error::new(
                Kind::NotFound,
                format!("ManagedServiceAccount {cluster}/{account} has no token yet"),
            )
            .remedy(format!("check the managed-serviceaccount add-on agent on {cluster}")));
        }
        let error = Error::new(Kind::NotFound, format!("{cluster} has no ManagedServiceAccount {account}"));
        Err(if names.is_empty() {
            error.remedy(
                "none can be seen; create one, or ask for permission to list them (docs/hub-setup.md)",
            )
        } else {
            error.remedy(format!("it has {}", listed()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn profile() -> ClusterProfile {
        serde_json::from_value(json!({"metadata": {"name": "a", "uid": "u1"}})).unwrap()
    }

    fn secret(name: &str, uid: &str) -> SecretMetadata {
        serde_json::from_value(json!({"metadata": {"name": name,
            "ownerReferences": [{"kind": "ClusterProfile", "uid": uid, "name": "a"}]}}))
        .unwrap()
    }

    fn own(names: &[&str]) -> Vec<ManagedServiceAccount> {
        names
            .iter()
            .map(|n| {
                serde_json::from_value(
                    json!({"metadata": {"name": n}, "status": {"tokenSecretRef": {"name": n}}}),
                )
                .unwrap()
            })
            .collect()
    }

    #[test]
    fn a_copy_that_belongs_to_another_profile_is_not_seen() {
        let mut accounts = Accounts::default();
        accounts.add_synced(&profile(), &[secret("a-x", "u1"), secret("a-b-c", "u2"), secret("b-x", "u1")]);
        assert_eq!(accounts.synced, BTreeSet::from(["x".to_owned()]));
    }

    #[test]
    fn the_copy_goes_before_the_accounts_own_secret() {
        let mut accounts = Accounts::default();
        accounts.add_synced(&profile(), &[secret("a-x", "u1")]);
        accounts.add_own(own(&["x"]));
        assert!(
            matches!(accounts.choose(&profile(), None).unwrap(), Source::SyncedSecret { secret, .. } if secret == "a-x")
        );
    }

    #[test]
    fn of_several_accounts_none_is_guessed() {
        let mut accounts = Accounts::default();
        accounts.add_own(own(&["x", "y"]));
        let error = accounts.choose(&profile(), None).unwrap_err();
        assert_eq!((error.kind, error.cause.contains("x, y")), (Kind::Usage, true), "{error}");
        assert_eq!(accounts.choose(&profile(), Some("y")).unwrap().managed(), Some(("a", "y")));
        let error = accounts.choose(&profile(), Some("z")).unwrap_err();
        assert_eq!((error.kind, error.remedy.contains("x, y")), (Kind::NotFound, true), "{error}");
    }
}
