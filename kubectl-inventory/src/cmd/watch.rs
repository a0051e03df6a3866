//! Following the hub's inventory: waiting until something in it changes.

use std::time::Duration;

use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Client;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, WatchParams};
use kube::core::{GroupVersionKind, PartialObjectMeta, WatchEvent};

use super::detect;
use super::list::Scope;
use crate::inventory::Origin;

/// How long it must have been quiet before what changed is looked at.
const QUIET: Duration = Duration::from_millis(500);
/// How long is waited for quiet at most.
const AT_MOST: Duration = Duration::from_secs(5);
/// How long is waited after a watch that failed.
const PAUSE: Duration = Duration::from_secs(5);

type Event = std::result::Result<WatchEvent<PartialObjectMeta<DynamicObject>>, kube::Error>;

/// The changes from a moment on.
pub struct Changes {
    events: BoxStream<'static, Event>,
}

impl Changes {
    /// From now on, of the inventory that the hub has.
    ///
    /// # Errors
    /// The hub's.
    pub async fn of(client: &Client, source: Option<Origin>, scope: Scope) -> Result<Self> {
        let mut of = detect::first(client, source).await?;
        if source.is_none() && !detect::serves(client, of.api()).await.unwrap_or(true) {
            let none = Error::new(Kind::NotFound, "the hub serves no ClusterProfiles");
            of = detect::instead(client, source, of, none).await?;
        }
        let api = of.api();
        let kind = GroupVersionKind::gvk(api.group, api.version, api.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, api.plural);
        let client = kube::Client::new(client.service(), "default");
        let objects: Api<DynamicObject> = match scope {
            Scope::Namespace(namespace) if api.namespaced => {
                Api::namespaced_with(client, &namespace, &resource)
            }
            _ => Api::all_with(client, &resource),
        };
        let listed = objects.list_metadata(&ListParams::default().limit(1)).await.map_err(failed)?;
        let since = listed.metadata.resource_version.unwrap_or_default();
        let events = objects.watch_metadata(&WatchParams::default(), &since).await.map_err(failed)?;
        Ok(Self { events: events.boxed() })
    }

    /// Waits for the next change, and until it is quiet after it. A watch that ends counts as a change: what
    /// happened meanwhile is not known.
    pub async fn next(&mut self) {
        loop {
            match self.events.next().await {
                Some(Ok(WatchEvent::Bookmark(_))) => {}
                Some(Ok(WatchEvent::Error(_)) | Err(_)) => return tokio::time::sleep(PAUSE).await,
                Some(Ok(_)) => break,
                None => return,
            }
        }
        let quiet = async {
            while tokio::time::timeout(QUIET, self.events.next()).await.is_ok_and(|event| event.is_some()) {}
        };
        let _ = tokio::time::timeout(AT_MOST, quiet).await;
    }
}

fn failed(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => {
            Error::new(Kind::Refused, format!("the inventory cannot be watched: {}", status.message))
                .remedy("ask for the verb watch as well (docs/hub-setup.md)")
        }
        other => Error::new(Kind::Unreachable, format!("the inventory cannot be watched: {other}")),
    }
}
