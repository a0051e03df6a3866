//! Reading an inventory from the hub: which namespaces, page by page, and one object by name.

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::detect;
use crate::inventory::cluster_profile::{Metadata, Object, Summary};
use crate::inventory::origin::Api;

const PAGE: usize = 500;

/// Which namespaces are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One, chosen by the person.
    Namespace(String),
    /// All; `default` where the hub allows no list across namespaces, unless all were asked for.
    All {
        /// Whether the person said so.
        explicit: bool,
    },
}

impl Scope {
    /// `-A`, `-n`, the hub context's namespace, the config file's, else all.
    pub fn new(flag: Option<&str>, all: bool, context: Option<&str>, config: Option<&str>) -> Self {
        if all {
            return Self::All { explicit: true };
        }
        match flag.or(context).or(config).filter(|n| !n.is_empty()) {
            Some(namespace) => Self::Namespace(namespace.to_owned()),
            None => Self::All { explicit: false },
        }
    }
}

/// An object of a list.
pub trait Item: DeserializeOwned {
    /// `namespace/name`: the order that the hub lists in.
    fn key(&self) -> String;
}

/// `namespace/name`.
pub(super) fn key_of(meta: &Metadata) -> String {
    format!("{}/{}", meta.namespace, meta.name)
}

impl<S, T> Item for Object<S, T>
where
    Self: DeserializeOwned,
{
    fn key(&self) -> String {
        key_of(&self.metadata)
    }
}

impl Item for Box<RawValue> {
    fn key(&self) -> String {
        serde_json::from_str::<Summary>(self.get())
            .map(|profile| key_of(&profile.metadata))
            .unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Page<T> {
    items: Option<Vec<T>>,
}

#[derive(Deserialize, Default)]
struct Next {
    #[serde(default)]
    metadata: NextMeta,
}

#[derive(Deserialize, Default)]
struct NextMeta {
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

/// What is listed.
#[derive(Clone, Debug)]
pub struct Query {
    /// The kind of object.
    pub of: &'static Api,
    /// Label selector.
    pub labels: Option<String>,
    /// Only the profile of this name.
    pub name: Option<String>,
    /// Whether the objects' metadata is all that is to come.
    pub metadata_only: bool,
}

impl Query {
    /// All objects of a kind.
    pub fn all(of: &'static Api) -> Self {
        Self { of, labels: None, name: None, metadata_only: false }
    }

    fn accept(&self) -> Option<&'static str> {
        self.metadata_only.then_some("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    }
}

/// Lists page by page; `take` gets each page once, in the hub's order. Answers the namespace that
/// was looked at instead of all, where the hub forbade those.
///
/// # Errors
/// The hub's, each with its next step; those of `take`.
pub async fn list<T: Item>(
    client: &Client,
    hub: &str,
    scope: &Scope,
    query: &Query,
    mut take: impl FnMut(Vec<T>) -> Result<()>,
) -> Result<Option<String>> {
    match scope {
        _ if !query.of.namespaced => pages(client, hub, None, query, &mut take).await.map(|()| None),
        Scope::Namespace(namespace) => {
            pages(client, hub, Some(namespace), query, &mut take).await.map(|()| None)
        }
        Scope::All { explicit } => match pages(client, hub, None, query, &mut take).await {
            Err(error) if error.kind == Kind::Refused && !explicit && is_forbidden(&error) => {
                let fallback = "default";
                pages(client, hub, Some(fallback), query, &mut take).await.map_err(|_| error)?;
                Ok(Some(fallback.to_owned()))
            }
            other => other.map(|()| None),
        },
    }
}

/// 403 and not 401: who we are is known.
fn is_forbidden(error: &Error) -> bool {
    error.cause.contains("forbidden") || error.cause.contains("Forbidden")
}

async fn pages<T: Item>(
    client: &Client,
    hub: &str,
    namespace: Option<&str>,
    query: &Query,
    take: &mut dyn FnMut(Vec<T>) -> Result<()>,
) -> Result<()> {
    let base = path(namespace, query);
    let mut last_key = String::new();
    let mut restarted = false;
    let mut answer = client.get(&base, query.accept()).await?;
    loop {
        if answer.status == http::StatusCode::GONE {
            // The hub compacted what the token stood for. Its answer may carry a token to go on
            // with; else the list starts again, and what was printed already is passed over.
            let token = serde_json::from_slice::<Next>(&answer.body).unwrap_or_default().metadata.token;
            if restarted && token.is_none() {
                return Err(answer.error(query.of.words));
            }
            restarted |= token.is_none();
            let path = token.map_or_else(|| base.clone(), |token| next_path(&base, &token));
            answer = client.get(&path, query.accept()).await?;
            if answer.status == http::StatusCode::GONE {
                continue;
            }
        }
        if !answer.status.is_success() {
            let error = explain(answer.error(query.of.words), answer.status, hub, namespace, query.of);
            // An API server asks what a person may do before it looks whether it has such a thing.
            let hidden = answer.status == http::StatusCode::FORBIDDEN;
            return Err(match hidden && !detect::serves(client, query.of).await.unwrap_or(true) {
                true => not_served(hub, query.of),
                false => error,
            });
        }
        let metadata = match last_metadata(&answer.body) {
            Some(metadata) => metadata,
            None => answer.json::<Next>(query.of.words)?.metadata,
        };
        let next = metadata.token.filter(|token| !token.is_empty());
        let coming = next.map(|token| {
            let (client, path, accept) = (client.clone(), next_path(&base, &token), query.accept());
            tokio::spawn(async move { client.get(&path, accept).await })
        });
        // Lets the next request leave before this page keeps the processor busy.
        tokio::task::yield_now().await;
        let mut items = answer.json::<Page<T>>(query.of.words)?.items.unwrap_or_default();
        if restarted {
            items.retain(|item| item.key() > last_key);
        }
        if let Some(last) = items.last() {
            last_key = last.key();
        }
        take(items)?;
        match coming {
            None => return Ok(()),
            Some(coming) => {
                answer = coming
                    .await
                    .map_err(|e| Error::new(Kind::Failed, format!("the next page was lost: {e}")))??;
            }
        }
    }
}

/// The list's own metadata where it is the list's last field, as API servers write it for custom
/// resources. Found from the end, so that the next page is asked for before this one is read:
/// whatever is followed by one closing brace and nothing more stands at the outermost level, and
/// no string can hold a quote without a backslash.
fn last_metadata(body: &[u8]) -> Option<NextMeta> {
    const KEY: &[u8] = b"\"metadata\":";
    let tail = &body[body.len().saturating_sub(4096)..];
    let at = tail.windows(KEY.len()).rposition(|window| window == KEY)?;
    let mut values = serde_json::Deserializer::from_slice(&tail[at + KEY.len()..]).into_iter();
    let metadata = values.next()?.ok()?;
    let rest = &tail[at + KEY.len() + values.byte_offset()..];
    (rest.trim_ascii() == b"}").then_some(metadata)
}

fn path(namespace: Option<&str>, query: &Query) -> String {
    let scope = namespace.map(|n| format!("/namespaces/{}", encoded(n))).unwrap_or_default();
    let of = query.of;
    let mut path = format!("{}{scope}/{}?limit={PAGE}", of.path(), of.plural);
    if let Some(labels) = &query.labels {
        path.push_str(&format!("&labelSelector={}", encoded(labels)));
    }
    if let Some(name) = &query.name {
        path.push_str(&format!("&fieldSelector=metadata.name%3D{}", encoded(name)));
    }
    path
}

fn next_path(base: &str, token: &str) -> String {
    format!("{base}&continue={}", encoded(token))
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The hub's refusal, with what to do about it.
fn explain(error: Error, status: http::StatusCode, hub: &str, namespace: Option<&str>, of: &Api) -> Error {
    match status.as_u16() {
        404 => not_served(hub, of),
        403 => {
            let (plural, group) = (of.plural, of.group);
            let place = match namespace {
                _ if !of.namespaced => String::new(),
                Some(namespace) => format!(" in namespace {namespace}, or choose another with -n"),
                None => " in all namespaces, or choose a namespace with -n".to_owned(),
            };
            error.remedy(format!(
                "ask for the verbs get, list, watch on {plural}.{group}{place} (docs/hub-setup.md)"
            ))
        }
        _ => error,
    }
}

fn not_served(hub: &str, of: &Api) -> Error {
    let cause = format!("hub context {hub} serves no {} ({}/{})", of.words, of.group, of.version);
    Error::new(Kind::NotFound, cause)
        .remedy(format!("if it is the hub, {}; if not, name the hub with --context", of.install))
}

/// The objects that `NAME` or `NAMESPACE/NAME` means: one for each namespace that has it.
///
/// # Errors
/// [`Kind::NotFound`] when there is none; the hub's.
pub async fn find<T: Item>(
    client: &Client,
    hub: &str,
    scope: &Scope,
    of: &'static Api,
    name: &str,
) -> Result<Vec<T>> {
    look_up(client, hub, scope, of, name).await?
}

/// As [`find`]; that there is no such object is an answer here, and no failure.
///
/// # Errors
/// The hub's.
pub async fn look_up<T: Item>(
    client: &Client,
    hub: &str,
    scope: &Scope,
    of: &'static Api,
    name: &str,
) -> Result<Result<Vec<T>>> {
    let (scope, name) = match name.split_once('/') {
        Some((namespace, name)) => (Scope::Namespace(namespace.to_owned()), name),
        None => (scope.clone(), name),
    };
    if name.is_empty() || scope == Scope::Namespace(String::new()) {
        return Err(
            Error::new(Kind::Usage, "a cluster's name is empty").remedy("write NAME or NAMESPACE/NAME")
        );
    }
    let mut found = Vec::new();
    let query = Query { name: Some(name.to_owned()), ..Query::all(of) };
    let looked_at = list(client, hub, &scope, &query, |page| {
        found.extend(page);
        Ok(())
    })
    .await?;
    if !found.is_empty() {
        return Ok(Ok(found));
    }
    let place = match (&scope, looked_at) {
        _ if !of.namespaced => String::new(),
        (Scope::Namespace(namespace), _) => format!(" in namespace {namespace}"),
        (_, Some(only)) => format!(" in namespace {only} (you may not list all of them; choose one with -n)"),
        _ => " in any namespace".to_owned(),
    };
    let cause = format!("no {} {name}{place} of hub context {hub}", of.kind);
    Ok(Err(Error::new(Kind::NotFound, cause).remedy("`kubectl inventory get -A` lists what there is")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Origin;

    #[test]
    fn the_first_place_that_names_a_namespace_decides() {
        let scope = |flag, all, context, config| Scope::new(flag, all, context, config);
        assert_eq!(scope(Some("a"), false, Some("b"), Some("c")), Scope::Namespace("a".into()));
        assert_eq!(scope(None, false, Some("b"), Some("c")), Scope::Namespace("b".into()));
        assert_eq!(scope(None, false, None, Some("c")), Scope::Namespace("c".into()));
        assert_eq!(scope(None, false, None, None), Scope::All { explicit: false });
        assert_eq!(scope(Some("a"), true, Some("b"), None), Scope::All { explicit: true });
    }

    #[test]
    fn the_list_s_own_metadata_is_found_from_its_end_or_not_at_all() {
        let token = |body: &str| last_metadata(body.as_bytes()).map(|metadata| metadata.token);
        let last = r#"{"items":[{"metadata":{"continue":"no"}}],"kind":"L","metadata":{"continue":"yes"}}"#;
        assert_eq!(token(last), Some(Some("yes".into())));
        assert_eq!(token(&format!("{last}\n")), Some(Some("yes".into())));
        assert_eq!(token(r#"{"items":[],"metadata":{"resourceVersion":"1"}}"#), Some(None));
        for other in [
            r#"{"metadata":{"continue":"yes"},"items":[{"metadata":{"continue":"no"}}]}"#,
            r#"{"metadata":{"continue":"yes"},"items":[{"a":"\"metadata\":{}}"}]}"#,
            r#"{"items":[],"metadata":{"continue":"cut"#,
            r#"{"items":[]}"#,
            "",
        ] {
            assert_eq!(token(other), None, "{other}");
        }
    }

    #[test]
    fn selectors_and_names_cannot_leave_their_place_in_the_query() {
        let query = Query {
            of: Origin::ClusterProfile.api(),
            labels: Some("a=b&limit=1".into()),
            name: Some("x/../y".into()),
            metadata_only: false,
        };
        assert_eq!(
            path(Some("a/b"), &query),
            "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/a%2Fb/clusterprofiles?limit=500\
             &labelSelector=a%3Db%26limit%3D1&fieldSelector=metadata.name%3Dx%2F%2E%2E%2Fy"
        );
    }
}
