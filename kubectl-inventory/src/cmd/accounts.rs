//! What the hub shows of a cluster's accounts, and whether its server may be given their tokens.

use std::collections::{BTreeMap, BTreeSet};

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Client;
use credential_exec::request::{SecretKey, Source};
use serde::Deserialize;

use super::detect;
use super::list::{Item, Query, Scope, list};
use crate::access::trust::{DEFAULT_NAMESPACE, USER_SERVER};
use crate::inventory::ClusterProfile;
use crate::inventory::account::{
    self, API, Accounts, List, ManagedServiceAccount, SYNCED_LABEL, SecretMetadata,
};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

const SECRETS: &str = "Secrets";

/// What the hub shows of the accounts of many clusters, read at once and not cluster by cluster. What could not
/// be read at once is not in it, and is then asked for one by one.
#[derive(Debug, Default)]
pub struct Book {
    /// By cluster.
    own: Option<BTreeMap<String, Vec<ManagedServiceAccount>>>,
    /// OCM's copies by namespace and name.
    copies: BTreeMap<String, BTreeMap<String, SecretMetadata>>,
}

impl Item for ManagedServiceAccount {
    fn key(&self) -> String {
        format!("{}/{}", self.cluster(), self.name())
    }
}

impl Item for SecretMetadata {
    fn key(&self) -> String {
        self.name().to_owned()
    }
}

impl Book {
    /// Reads it for the profiles of these namespaces.
    ///
    /// # Errors
    /// Only a hub that cannot be reached.
    pub async fn read(client: &Client, hub: &str, namespaces: &BTreeSet<&str>) -> Result<Self> {
        let mut book = Self::default();
        let mut own: BTreeMap<String, Vec<ManagedServiceAccount>> = BTreeMap::new();
        let everywhere = Scope::All { explicit: true };
        let take = |page: Vec<ManagedServiceAccount>| {
            page.into_iter().for_each(|account| {
                own.entry(account.cluster().to_owned()).or_default().push(account);
            });
            Ok(())
        };
        let listed = list(client, hub, &everywhere, &Query::all(&API), take).await;
        if reached(listed)? {
            book.own = Some(own);
        }
        for namespace in namespaces {
            let mut copies = BTreeMap::new();
            let query = Query {
                labels: Some(SYNCED_LABEL.to_owned()),
                metadata_only: true,
                ..Query::all(&account::SECRETS)
            };
            let take = |page: Vec<SecretMetadata>| {
                copies.extend(page.into_iter().map(|secret| (secret.name().to_owned(), secret)));
                Ok(())
            };
            let there = Scope::Namespace((*namespace).to_owned());
            if reached(list(client, hub, &there, &query, take).await)? {
                book.copies.insert((*namespace).to_owned(), copies);
            }
        }
        Ok(book)
    }
}

/// Whether a list was read; that it may not be, or is not there, is an answer too.
fn reached(listed: Result<Option<String>>) -> Result<bool> {
    match listed {
        Ok(_) => Ok(true),
        Err(error) if error.kind == Kind::Unreachable => Err(error),
        Err(_) => Ok(false),
    }
}

/// Chooses the account, and where its token lies. No token is read: of Secrets only metadata.
///
/// # Errors
/// What [`Accounts::choose`] says; where nothing can be seen, the hub's own reason.
pub async fn choose(
    client: &Client,
    book: &Book,
    profile: &ClusterProfile,
    wanted: Option<&str>,
) -> Result<Source> {
    let (namespace, cluster) = (&profile.metadata.namespace, profile.managed_cluster());
    if !is_name(cluster) {
        let cause = format!("the profile of {} says it is cluster {cluster:?}", profile.metadata.name);
        return Err(Error::new(Kind::Refused, format!("{cause}, which is no name")).remedy(
            "ask the cluster's manager to correct the label open-cluster-management.io/cluster-name",
        ));
    }
    if let Some(account) = wanted.filter(|account| !is_name(account)) {
        return Err(Error::new(Kind::Usage, format!("{account:?} is no name of a ManagedServiceAccount"))
            .remedy("use the name that `kubectl get managedserviceaccounts` shows"));
    }
    let mut accounts = Accounts::default();
    let mut hidden = None;

    let own = match &book.own {
        Some(own) => Some(own.get(cluster).cloned().unwrap_or_default()),
        None => accounts_of(client, cluster, &mut hidden).await?.map(List::items),
    };
    let listed = own.is_some();
    accounts.add_own(own.unwrap_or_default());
    match wanted.or(accounts.only()).map(str::to_owned) {
        Some(account) => {
            let name = format!("{cluster}-{account}");
            let copy = match book.copies.get(namespace) {
                Some(copies) => copies.get(&name).cloned(),
                None => {
                    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
                    read(client, &path, METADATA, SECRETS, &mut hidden).await?
                }
            };
            accounts.add_synced(profile, copy.as_slice());
            let path = format!("/api/v1/namespaces/{cluster}/secrets/{account}");
            if !listed
                && !accounts.synced.contains(&account)
                && read::<SecretMetadata>(client, &path, METADATA, SECRETS, &mut hidden).await?.is_some()
            {
                accounts.own.push((account.clone(), account));
            }
        }
        // Where the accounts cannot be seen, their copies may be.
        None if accounts.own.is_empty() && accounts.without_token.is_empty() => {
            let mut not_listed = None;
            let copies = match book.copies.get(namespace) {
                Some(copies) => {
                    let prefix = format!("{cluster}-");
                    let its =
                        copies.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
                    Some(its.map(|(_, copy)| copy.clone()).collect())
                }
                None => {
                    let label = SYNCED_LABEL.replace('/', "%2F");
                    let path =
                        format!("/api/v1/namespaces/{namespace}/secrets?labelSelector={label}&limit=500");
                    let copies: Option<List<SecretMetadata>> =
                        read(client, &path, METADATA_LIST, SECRETS, &mut not_listed).await?;
                    copies.map(List::items)
                }
            };
            accounts.add_synced(profile, &copies.unwrap_or_default());
            hidden = hidden.or(not_listed);
        }
        None => {}
    }
    accounts.choose(profile, wanted).map_err(|error| match (error.kind, hidden) {
        (Kind::NotFound, Some(hidden)) if accounts.without_token.is_empty() => hidden,
        _ => error,
    })
}

/// The metadata of a Secret; `None` where it may not be seen, which the one who reads it will say.
///
/// # Errors
/// A Secret that is not there, and a hub that cannot be reached.
pub async fn secret_metadata(client: &Client, secret: &SecretKey) -> Result<Option<SecretMetadata>> {
    let SecretKey { namespace, name, .. } = secret;
    if !is_name(name) || !is_name(namespace) {
        return Err(Error::new(Kind::Refused, format!("{secret} is no name of a Secret"))
            .remedy("ask the cluster's manager to correct what the profile tells plugins"));
    }
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    let answer = client.get(&path, Some(METADATA)).await?;
    if answer.status == http::StatusCode::NOT_FOUND && answer.is_status() {
        return Err(Error::new(Kind::NotFound, format!("{secret} is not on the hub"))
            .remedy("it is to hold the cluster's credential; whoever keeps it there must create it"));
    }
    Ok(answer.json(SECRETS).ok())
}

/// Whether this can be the name of an object: it becomes a part of paths.
fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.chars().all(inner) && edge(name.chars().next()) && edge(name.chars().last()) && !name.contains("..")
}

/// The cluster's accounts, as far as they may be seen.
async fn accounts_of(
    client: &Client,
    cluster: &str,
    hidden: &mut Option<Error>,
) -> Result<Option<List<ManagedServiceAccount>>> {
    let path = format!("{}/namespaces/{cluster}/{}?limit=500", API.path(), API.plural);
    let found = read(client, &path, "application/json", API.words, hidden).await?;
    // An API server asks what a person may do before it looks whether it has such a thing.
    if found.is_none() && !detect::serves(client, &API).await.unwrap_or(true) {
        *hidden =
            Some(Error::new(Kind::NotFound, format!("the hub serves no {}", API.words)).remedy(API.install));
    }
    Ok(found)
}

/// Reads something that the caller may not be allowed to see, or that is not there. The reason why
/// nothing was seen goes into `hidden`, should it turn out to be needed.
async fn read<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &str,
    accept: &str,
    what: &str,
    hidden: &mut Option<Error>,
) -> Result<Option<T>> {
    match client.get(path, Some(accept)).await?.json::<T>(what) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind == Kind::NotFound => Ok(None),
        Err(error) if error.kind == Kind::Refused => {
            // That there are no accounts at all goes before that this one's Secret may not be read.
            if hidden.as_ref().is_none_or(|hidden| hidden.kind == Kind::Refused) {
                *hidden = Some(if error.remedy.is_empty() {
                    error.remedy("ask for the viewer's rights of docs/hub-setup.md")
                } else {
                    error
                });
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[derive(Deserialize)]
struct ProxyConfiguration {
    spec: Option<ProxySpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProxySpec {
    proxy_server: Option<ProxyServer>,
}

#[derive(Deserialize)]
struct ProxyServer {
    namespace: Option<String>,
}

/// The namespace of OCM's user-server: the one that ManagedProxyConfiguration `cluster-proxy`
/// names, else the usual one.
///
/// # Errors
/// Only a hub that cannot be reached.
pub async fn user_server_namespace(client: &Client) -> Result<String> {
    let path = "/apis/proxy.open-cluster-management.io/v1alpha1/managedproxyconfigurations/cluster-proxy";
    let answer = client.get(path, None).await?;
    let configured = answer.json::<ProxyConfiguration>("ManagedProxyConfiguration cluster-proxy").ok();
    let namespace = configured.and_then(|c| c.spec?.proxy_server?.namespace).filter(|n| !n.is_empty());
    Ok(namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()))
}

/// A warning where an address is published for a user-server that is not installed.
///
/// # Errors
/// Only a hub that cannot be reached.
pub async fn missing_user_server(client: &Client, namespace: &str) -> Result<Option<Error>> {
    let path = format!("/api/v1/namespaces/{namespace}/services/{USER_SERVER}");
    let answer = client.get(&path, Some(METADATA)).await?;
    Ok((answer.status == http::StatusCode::NOT_FOUND).then(|| {
        Error::new(
            Kind::NotFound,
            format!("there is no Service {namespace}/{USER_SERVER} behind the published address"),
        )
        .remedy("upgrade cluster-proxy on the hub with --set enableServiceProxy=true (docs/hub-setup.md)")
    }))
}
