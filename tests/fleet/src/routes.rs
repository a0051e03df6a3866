//! What each request is answered, once it is known who asks and that they may.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Response};
use serde_json::{Value, json};

use crate::answer::{Answer, Body};
use crate::auth::User;
use crate::key::Key;
use crate::patch::merge;
use crate::request::Request;
use crate::selector::Selector;
use crate::server::Inner;
use crate::store::{Page, Query, Stored};
use crate::table::{self, Form};
use crate::watch::{self, Watch};

/// An answer that is complete, or one that streams.
pub(crate) enum Outcome {
    Whole(Answer),
    Stream(Response<Body>),
}

pub(crate) fn route(
    inner: &Arc<Inner>,
    request: &Request,
    user: &User,
    headers: &HeaderMap,
    body: &[u8],
) -> Outcome {
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if request.verb == "watch" && inner.resource(&request.key).is_some() {
        return watch(inner, request, header("accept"));
    }
    Outcome::Whole(fixed(inner, request).unwrap_or_else(|| {
        let form = Form::of(header("accept"));
        let key = &request.key;
        let parsed = || serde_json::from_slice::<Value>(body);
        if request.method == "POST" && key.group == "authentication.k8s.io" {
            return whoami(key, user);
        }
        if !body.is_empty() && header("content-type").contains("protobuf") {
            return Answer::failure(415, "UnsupportedMediaType", "the fleet's servers read JSON only");
        }
        if request.method == "POST" && key.group == "authorization.k8s.io" {
            return parsed()
                .map_or_else(|_| bad("the body is not JSON"), |review| may_i(inner, request, review));
        }
        if inner.resource(key).is_none() {
            return Answer::text(404, "404 page not found\n");
        }
        match request.verb.as_str() {
            "list" => list(inner, request, form),
            "get" if request.subresource == "log" => Answer::text(200, "hello from the fleet\n"),
            "get" => match inner.with_store(|store| store.get(key)) {
                Some(stored) => show(request, form, &stored, 200),
                None => Answer::about(404, "NotFound", key, "not found"),
            },
            "delete" => delete(inner, key),
            "create" | "update" | "patch" => match parsed() {
                Ok(object) => write(inner, request, form, header("content-type"), object),
                Err(_) => bad("the body is not JSON"),
            },
            _ => Answer::failure(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            ),
        }
    }))
}

fn fixed(inner: &Inner, request: &Request) -> Option<Answer> {
    match request.path.as_str() {
        "/healthz" | "/livez" | "/readyz" => Some(Answer::text(200, "ok")),
        "/version" => {
            let version = inner.version();
            let mut parts = version.trim_start_matches('v').split('.');
            let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            Some(Answer::json(
                200,
                &json!({"major": major, "minor": minor, "gitVersion": version,
                "gitCommit": "", "gitTreeState": "clean", "buildDate": "2025-01-01T00:00:00Z",
                "goVersion": "", "compiler": "", "platform": "linux/amd64"}),
            ))
        }
        // An empty protobuf document: kubectl then has nothing to validate against.
        "/openapi/v2" => Some(Answer {
            status: 200,
            content_type: "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
            bytes: Vec::new(),
        }),
        path => inner.discovery(path).map(|document| Answer::json(200, &document)),
    }
}

fn bad(message: &str) -> Answer {
    Answer::failure(400, "BadRequest", message)
}

fn selector(request: &Request) -> Result<Selector, Answer> {
    let selector = Selector::parse(&request.parameter("labelSelector"), &request.parameter("fieldSelector"));
    let mut selector = selector.map_err(|message| bad(&message))?;
    if !request.key.name.is_empty() {
        selector.only_name(&request.key.name);
    }
    Ok(selector)
}

fn watch(inner: &Arc<Inner>, request: &Request, accept: &str) -> Outcome {
    let selector = match selector(request) {
        Ok(selector) => selector,
        Err(answer) => return Outcome::Whole(answer),
    };
    let watch = Watch {
        of: Key { name: String::new(), ..request.key.clone() },
        selector,
        form: Form::of(accept),
        include: request.parameter("includeObject"),
        since: request.parameter("resourceVersion").parse().ok().filter(|revision| *revision > 0),
        timeout: request.parameter("timeoutSeconds").parse().ok().map(Duration::from_secs),
    };
    Outcome::Stream(watch::start(inner.clone(), watch))
}

fn list(inner: &Inner, request: &Request, form: Form) -> Answer {
    let selector = match selector(request) {
        Ok(selector) => selector,
        Err(answer) => return answer,
    };
    let after = request.parameter("continue");
    let limit = request.parameter("limit").parse().unwrap_or_default();
    let query = Query { selector, limit, after: &after };
    let Some(page) = inner.with_store(|store| store.page(&request.key, &query)) else {
        return bad("continue key is not valid");
    };
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = json!(next);
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    let objects = page.items.iter().map(|stored| &stored.value);
    match form {
        Form::Table => {
            let include = request.parameter("includeObject");
            Answer::json(200, &table::table(&request.key.resource, objects, &include, metadata))
        }
        Form::Metadata => {
            let items: Vec<Value> = objects.map(table::metadata).collect();
            // As the real API server: an empty list of this form has no items at all.
            let items = if items.is_empty() { Value::Null } else { items.into() };
            Answer::json(
                200,
                &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata, "items": items}),
            )
        }
        Form::Whole => whole_list(inner, request, &metadata, &page),
    }
}

/// Joins the stored JSON of the items: thousands of them cost no second rendering.
fn whole_list(inner: &Inner, request: &Request, metadata: &Value, page: &Page) -> Answer {
    let kind = inner.resource(&request.key).map(|r| r.kind).unwrap_or_default();
    let head = format!(
        r#"{{"apiVersion":"{}","kind":"{kind}List","metadata":{metadata},"items":["#,
        request.key.api_version()
    );
    let mut bytes = head.into_bytes();
    for (at, item) in page.items.iter().enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(item.json());
    }
    bytes.extend_from_slice(b"]}\n");
    Answer { status: 200, content_type: "application/json", bytes }
}

fn show(request: &Request, form: Form, stored: &Stored, status: u16) -> Answer {
    match form {
        Form::Whole => Answer { status, content_type: "application/json", bytes: stored.json().to_vec() },
        Form::Metadata => Answer::json(status, &table::metadata(&stored.value)),
        Form::Table => {
            let list = json!({"resourceVersion": stored.value["metadata"]["resourceVersion"]});
            let include = request.parameter("includeObject");
            Answer::json(
                status,
                &table::table(&request.key.resource, std::iter::once(&stored.value), &include, list),
            )
        }
    }
}

fn delete(inner: &Inner, key: &Key) -> Answer {
    match inner.change(|store| store.delete(key)) {
        Some(last) => Answer::json(
            200,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Success", "details": {"name": key.name, "kind": key.resource, "group": key.group,
            "uid": last.value["metadata"]["uid"]}}),
        ),
        None => Answer::about(404, "NotFound", key, "not found"),
    }
}

fn write(inner: &Inner, request: &Request, form: Form, content_type: &str, body: Value) -> Answer {
    let mut key = request.key.clone();
    let (create, apply) = (request.verb == "create", content_type.contains("apply-patch"));
    if create {
        let name = body["metadata"]["name"].as_str().map(str::to_owned);
        let prefix = body["metadata"]["generateName"].as_str();
        let generated = prefix.map(|prefix| format!("{prefix}{}", &crate::tokens::word()[..5]));
        match name.or(generated) {
            Some(name) => key.name = name,
            None => {
                return Answer::failure(
                    422,
                    "Invalid",
                    "metadata.name: Required value: name or generateName is required",
                );
            }
        }
    }
    let kind = inner.resource(&key).map(|r| r.kind).unwrap_or_default();
    let dry_run = !request.parameter("dryRun").is_empty();
    let old = inner.with_store(|store| store.get(&key));
    let status = if old.is_none() { 201 } else { 200 };
    let mut object = match (&old, request.verb.as_str()) {
        (Some(_), "create") => return Answer::about(409, "AlreadyExists", &key, "already exists"),
        (None, "update") => return Answer::about(404, "NotFound", &key, "not found"),
        (None, "patch") if !apply => return Answer::about(404, "NotFound", &key, "not found"),
        (Some(old), "update") => {
            let (theirs, ours) =
                (&body["metadata"]["resourceVersion"], &old.value["metadata"]["resourceVersion"]);
            if theirs.is_string() && theirs != ours {
                return Answer::about(
                    409,
                    "Conflict",
                    &key,
                    "was changed: please apply your changes to the latest version",
                );
            }
            body
        }
        (Some(old), "patch") => {
            let mut object = old.value.clone();
            merge(&mut object, &body, apply || content_type.contains("strategic"));
            object
        }
        _ => body,
    };
    object["kind"] = json!(kind);
    if dry_run {
        object["metadata"]["name"] = json!(key.name);
        return Answer::json(status, &object);
    }
    let stored = inner.change(|store| store.put(key, object));
    show(request, form, &stored, status)
}

fn whoami(key: &Key, user: &User) -> Answer {
    Answer::json(
        201,
        &json!({"kind": "SelfSubjectReview", "apiVersion": key.api_version(), "metadata": {},
        "status": {"userInfo": {"username": user.name, "groups": user.groups}}}),
    )
}

fn may_i(inner: &Inner, request: &Request, mut review: Value) -> Answer {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let asked = review["spec"]["resourceAttributes"].clone();
    let question = Request {
        user: request.user.clone(),
        verb: text(&asked["verb"]),
        key: Key {
            group: text(&asked["group"]),
            version: text(&asked["version"]),
            resource: text(&asked["resource"]),
            namespace: text(&asked["namespace"]),
            name: text(&asked["name"]),
        },
        subresource: text(&asked["subresource"]),
        ..Request::default()
    };
    review["status"] = json!({"allowed": !inner.is_forbidden(&question)});
    Answer::json(201, &review)
}
