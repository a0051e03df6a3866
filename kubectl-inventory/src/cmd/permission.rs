//! Asking the hub what one may do there (SelfSubjectAccessReview), before kubectl finds out.

use std::fmt;

use credential_exec::hub::Client;
use serde::Deserialize;
use serde_json::json;

/// Something that may be allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Permission<'a> {
    /// What is done, such as `get`.
    pub verb: &'a str,
    /// The API group; empty for the core's.
    pub group: &'a str,
    /// The resource's plural.
    pub resource: &'a str,
    /// A part of the resource, such as `proxy`; empty for itself.
    pub subresource: &'a str,
    /// Empty for all of them, and for what lives in none.
    pub namespace: &'a str,
    /// Empty for all objects.
    pub name: &'a str,
}

impl fmt::Display for Permission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, subresource, namespace, name } = self;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        write!(f, "{verb} {resource}{group}{part}")?;
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        match namespace.is_empty() {
            true => Ok(()),
            false => write!(f, " in namespace {namespace}"),
        }
    }
}

#[derive(Deserialize)]
struct Review {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    allowed: bool,
}

/// Whether the hub refuses this. A hub that does not say so does not refuse: whoever asks then will see.
pub async fn refuses(client: &Client, asked: &Permission<'_>) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": asked.verb, "group": asked.group, "resource": asked.resource,
            "subresource": asked.subresource, "namespace": asked.namespace, "name": asked.name,
        }},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let Ok(answer) = client.post(path, review.to_string().into_bytes()).await else { return false };
    answer.json::<Review>("the access review").is_ok_and(|review| !review.status.allowed)
}
