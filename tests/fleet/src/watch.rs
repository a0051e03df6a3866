//! A watch: what is there (when asked from the start), then every change until somebody hangs up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Sender};

use crate::answer::{Body, Channel};
use crate::key::Key;
use crate::selector::Selector;
use crate::server::Inner;
use crate::store::Stored;
use crate::table::{self, Form};

/// What one watch is about.
pub(crate) struct Watch {
    pub(crate) of: Key,
    pub(crate) selector: Selector,
    pub(crate) form: Form,
    pub(crate) include: String,
    pub(crate) since: Option<u64>,
    pub(crate) timeout: Option<Duration>,
}

/// Starts it; the body ends with the server, the reader or the timeout.
pub(crate) fn start(inner: Arc<Inner>, watch: Watch) -> Response<Body> {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let timeout = watch.timeout.unwrap_or(Duration::from_secs(1800));
        let _ = tokio::time::timeout(timeout, follow(&inner, &watch, &sender)).await;
    });
    let mut response = Response::new(Channel(receiver).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn follow(inner: &Inner, watch: &Watch, sender: &Sender<Bytes>) {
    let mut changes = inner.changes();
    let mut seen = match watch.since {
        Some(revision) => revision,
        None => {
            let (objects, revision) = inner.with_store(|store| {
                let all: Vec<Arc<Stored>> = store.all(&watch.of).cloned().collect();
                (all, store.revision())
            });
            for object in objects {
                if !watch.send(sender, "ADDED", &object.value).await {
                    return;
                }
            }
            revision
        }
    };
    loop {
        changes.mark_unchanged();
        for event in inner.with_store(|store| store.events_after(seen, &watch.of)) {
            seen = event.revision;
            if !watch.send(sender, event.kind, &event.object.value).await {
                return;
            }
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = sender.closed() => return,
        }
    }
}

impl Watch {
    async fn send(&self, sender: &Sender<Bytes>, kind: &str, object: &Value) -> bool {
        if !self.selector.matches(object) {
            return true;
        }
        let shown = match self.form {
            Form::Whole => object.clone(),
            Form::Metadata => table::metadata(object),
            Form::Table => {
                let list = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                table::table(&self.of.resource, std::iter::once(object), &self.include, list)
            }
        };
        let line = format!("{}\n", json!({"type": kind, "object": shown}));
        sender.send(line.into()).await.is_ok()
    }
}
