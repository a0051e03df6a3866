//! The objects of one server, their revisions, the pages of a list and the events of a watch.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::key::Key;
use crate::selector::Selector;

/// One revision of one object.
pub(crate) struct Stored {
    pub(crate) key: Key,
    pub(crate) value: Value,
    json: OnceLock<Vec<u8>>,
}

impl Stored {
    /// The object as JSON, rendered once.
    pub(crate) fn json(&self) -> &[u8] {
        self.json.get_or_init(|| self.value.to_string().into_bytes())
    }
}

/// One change, as a watch tells it.
#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) kind: &'static str,
    pub(crate) object: Arc<Stored>,
}

/// What a list request asks for.
#[derive(Default)]
pub(crate) struct Query<'a> {
    pub(crate) selector: Selector,
    pub(crate) limit: usize,
    pub(crate) after: &'a str,
}

/// One page of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

#[derive(Default)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Arc<Stored>>,
    events: Vec<Event>,
    revision: u64,
}

impl Store {
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        self.objects.get(key).cloned()
    }

    /// Creates or replaces; fills in what a real server would (uid, creation time, names).
    pub(crate) fn put(&mut self, key: Key, mut value: Value) -> Arc<Stored> {
        self.revision += 1;
        let old = self.objects.get(&key);
        if !value["metadata"].is_object() {
            value["metadata"] = json!({});
        }
        let metadata = &mut value["metadata"];
        metadata["name"] = json!(key.name);
        if !key.namespace.is_empty() {
            metadata["namespace"] = json!(key.namespace);
        }
        for (field, fresh) in [("uid", crate::tokens::uuid()), ("creationTimestamp", now())] {
            if metadata[field].is_null() {
                metadata[field] = old.map_or(json!(fresh), |old| old.value["metadata"][field].clone());
            }
        }
        metadata["resourceVersion"] = json!(self.revision.to_string());
        if value["apiVersion"].is_null() {
            value["apiVersion"] = json!(key.api_version());
        }
        let kind = if old.is_some() { "MODIFIED" } else { "ADDED" };
        self.record(kind, key, value)
    }

    pub(crate) fn delete(&mut self, key: &Key) -> Option<Arc<Stored>> {
        let old = self.objects.remove(key)?;
        self.revision += 1;
        let mut value = old.value.clone();
        value["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let last = self.record("DELETED", key.clone(), value);
        self.objects.remove(key);
        Some(last)
    }

    fn record(&mut self, kind: &'static str, key: Key, value: Value) -> Arc<Stored> {
        let object = Arc::new(Stored { key: key.clone(), value, json: OnceLock::new() });
        self.events.push(Event { revision: self.revision, kind, object: object.clone() });
        self.objects.insert(key, object.clone());
        object
    }

    /// Everything of the collection (and namespace, unless `""`), in key order.
    pub(crate) fn all<'a>(&'a self, of: &'a Key) -> impl Iterator<Item = &'a Arc<Stored>> {
        let first = Key { name: String::new(), ..of.clone() };
        self.objects.range(first..).map(|(_, stored)| stored).take_while(move |stored| {
            stored.key.same_collection(of)
                && (of.namespace.is_empty() || stored.key.namespace == of.namespace)
        })
    }

    /// One page; `None` when the continue token cannot be read.
    pub(crate) fn page(&self, of: &Key, query: &Query) -> Option<Page> {
        let after = match query.after {
            "" => None,
            token => Some(read_token(token)?),
        };
        let passed = |stored: &Stored| match &after {
            Some((namespace, name)) => (&stored.key.namespace, &stored.key.name) > (namespace, name),
            None => true,
        };
        let mut rest = self.all(of).filter(|s| passed(s) && query.selector.matches(&s.value));
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let items: Vec<_> = rest.by_ref().take(limit).cloned().collect();
        let remaining = rest.count();
        let next = (remaining > 0).then(|| items.last().map(|last| write_token(&last.key))).flatten();
        let remaining = (next.is_some() && query.selector.is_empty()).then_some(remaining);
        Some(Page { items, revision: self.revision, next, remaining })
    }

    /// The events of the collection after a revision.
    pub(crate) fn events_after(&self, revision: u64, of: &Key) -> Vec<Event> {
        let start = self.events.partition_point(|event| event.revision <= revision);
        let ours = |event: &&Event| {
            let key = &event.object.key;
            key.same_collection(of) && (of.namespace.is_empty() || key.namespace == of.namespace)
        };
        self.events[start..].iter().filter(ours).cloned().collect()
    }
}

/// The current time as the API writes it.
pub(crate) fn now() -> String {
    from_now(0)
}

/// The time so many seconds from now as the API writes it.
pub(crate) fn from_now(seconds: i64) -> String {
    let second = Timestamp::now().as_second() + seconds;
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX).to_string()
}

fn write_token(key: &Key) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}/{}", key.namespace, key.name))
}

fn read_token(token: &str) -> Option<(String, String)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (namespace, name) = text.split_once('/')?;
    Some((namespace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Store {
        let mut store = Store::default();
        for (namespace, name) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("b", "3")] {
            store.put(("g", "v1", "things", namespace, name).into(), json!({"kind": "Thing"}));
        }
        store.put(("g", "v1", "thinks", "a", "x").into(), json!({}));
        store
    }

    fn names(page: &Page) -> Vec<String> {
        page.items.iter().map(|s| format!("{}/{}", s.key.namespace, s.key.name)).collect()
    }

    #[test]
    fn pages_follow_each_other_and_count_what_is_left() {
        let (store, of) = (filled(), Key::from(("g", "v1", "things", "", "")));
        let first = store.page(&of, &Query { limit: 2, ..Query::default() }).unwrap();
        assert_eq!((names(&first), first.remaining), (vec!["a/1".into(), "a/2".into()], Some(3)));
        let next = first.next.unwrap();
        let second = store.page(&of, &Query { limit: 2, after: &next, ..Query::default() }).unwrap();
        let next = second.next.clone().unwrap();
        assert_eq!((names(&second), second.remaining), (vec!["b/1".into(), "b/2".into()], Some(1)));
        let last = store.page(&of, &Query { limit: 2, after: &next, ..Query::default() }).unwrap();
        assert_eq!((names(&last), last.next, last.remaining), (vec!["b/3".to_owned()], None, None));
        assert!(store.page(&of, &Query { after: "?", ..Query::default() }).is_none());
    }

    #[test]
    fn a_namespace_holds_only_its_own() {
        let page = filled().page(&("g", "v1", "things", "a", "").into(), &Query::default()).unwrap();
        assert_eq!(names(&page), ["a/1", "a/2"]);
    }

    #[test]
    fn a_watch_sees_what_came_after_its_revision() {
        let mut store = filled();
        let (of, since) = (Key::from(("g", "v1", "things", "b", "")), store.revision());
        store.put(("g", "v1", "things", "a", "1").into(), json!({}));
        store.put(("g", "v1", "things", "b", "9").into(), json!({}));
        store.delete(&("g", "v1", "things", "b", "9").into());
        let kinds: Vec<_> = store.events_after(since, &of).iter().map(|e| e.kind).collect();
        assert_eq!(kinds, ["ADDED", "DELETED"]);
    }

    #[test]
    fn a_replaced_object_keeps_its_uid() {
        let mut store = filled();
        let key = Key::from(("g", "v1", "things", "a", "1"));
        let uid = store.get(&key).unwrap().value["metadata"]["uid"].clone();
        assert_eq!(store.put(key, json!({})).value["metadata"]["uid"], uid);
    }
}
