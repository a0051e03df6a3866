//! The forms that an `Accept` header asks for: whole objects, their metadata, or kubectl's tables.

use jiff::Timestamp;
use serde_json::{Value, json};

/// How objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Metadata,
    Table,
}

impl Form {
    /// The first form of the header that we know.
    pub(crate) fn of(accept: &str) -> Self {
        for part in accept.split(',').map(str::trim) {
            let asks = |what: &str| part.split(';').any(|p| p.trim().strip_prefix("as=") == Some(what));
            if asks("Table") && part.contains("v=v1") && !part.contains("v=v1beta1") {
                return Self::Table;
            }
            if asks("PartialObjectMetadata") || asks("PartialObjectMetadataList") {
                return Self::Metadata;
            }
        }
        Self::Whole
    }
}

/// The metadata of an object and nothing else.
pub(crate) fn metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

type Cell = fn(&Value) -> Value;

/// Name, whether only `-o wide` shows it, and the cell.
fn columns(resource: &str) -> Vec<(&'static str, bool, Cell)> {
    let name: (_, _, Cell) = ("Name", false, |o| o["metadata"]["name"].clone());
    let age: (_, _, Cell) = ("Age", false, |o| json!(age(&o["metadata"]["creationTimestamp"])));
    match resource {
        "namespaces" => vec![name, ("Status", false, |o| o["status"]["phase"].clone()), age],
        "pods" => vec![
            name,
            ("Ready", false, |o| json!(ready(o))),
            ("Status", false, |o| o["status"]["phase"].clone()),
            ("Restarts", false, |_| json!(0)),
            age,
            ("IP", true, |o| o["status"]["podIP"].clone()),
            ("Node", true, |o| o["spec"]["nodeName"].clone()),
        ],
        "nodes" => vec![
            name,
            ("Status", false, |o| json!(node_status(o))),
            ("Roles", false, |o| json!(roles(o))),
            age,
            ("Version", false, |o| o["status"]["nodeInfo"]["kubeletVersion"].clone()),
            ("Internal-IP", true, |o| o["status"]["addresses"][0]["address"].clone()),
            ("OS-Image", true, |o| o["status"]["nodeInfo"]["osImage"].clone()),
        ],
        "deployments" => vec![
            name,
            ("Ready", false, |o| {
                json!(format!(
                    "{}/{}",
                    o["status"]["readyReplicas"].as_u64().unwrap_or(0),
                    o["spec"]["replicas"]
                ))
            }),
            age,
        ],
        "configmaps" | "secrets" => {
            vec![name, ("Data", false, |o| json!(o["data"].as_object().map_or(0, |data| data.len()))), age]
        }
        _ => vec![name, age],
    }
}

/// A table of the objects; `include` is `None`, `Metadata` or `Object`.
pub(crate) fn table<'a>(
    resource: &str,
    objects: impl Iterator<Item = &'a Value>,
    include: &str,
    list: Value,
) -> Value {
    let columns = columns(resource);
    let head: Vec<Value> = columns
        .iter()
        .map(|(name, wide, _)| {
            let format = if *name == "Name" { "name" } else { "" };
            json!({"name": name, "type": "string", "format": format, "description": "", "priority": u8::from(*wide)})
        })
        .collect();
    let row = |object: &Value| {
        let cells: Vec<Value> = columns.iter().map(|(_, _, cell)| cell(object)).collect();
        let shown = match include {
            "None" => Value::Null,
            "Object" => object.clone(),
            _ => metadata(object),
        };
        json!({"cells": cells, "object": shown})
    };
    let rows: Vec<Value> = objects.map(row).collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list, "columnDefinitions": head, "rows": rows})
}

fn ready(pod: &Value) -> String {
    let empty = Vec::new();
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap_or(&empty);
    let ready = statuses.iter().filter(|s| s["ready"] == true).count();
    format!("{ready}/{}", pod["spec"]["containers"].as_array().map_or(0, Vec::len))
}

fn node_status(node: &Value) -> &'static str {
    let empty = Vec::new();
    let conditions = node["status"]["conditions"].as_array().unwrap_or(&empty);
    let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    if ready { "Ready" } else { "NotReady" }
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object();
    let names = labels.into_iter().flatten().filter_map(|(l, _)| l.strip_prefix("node-role.kubernetes.io/"));
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "<none>".to_owned() } else { names.join(",") }
}

fn age(created: &Value) -> String {
    let Some(created) = created.as_str().and_then(|t| t.parse::<Timestamp>().ok()) else {
        return "<unknown>".to_owned();
    };
    match Timestamp::now().as_second() - created.as_second() {
        seconds if seconds < 120 => format!("{}s", seconds.max(0)),
        seconds if seconds < 3 * 3600 => format!("{}m", seconds / 60),
        seconds if seconds < 2 * 86400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_form_of_an_accept_header_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(Form::of(kubectl), Form::Table);
        assert_eq!(
            Form::of("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Form::Metadata
        );
        assert_eq!(Form::of("application/json"), Form::Whole);
        assert_eq!(Form::of("application/json, */*"), Form::Whole);
    }

    #[test]
    fn a_pod_row_tells_ready_containers() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{}, {}]},
            "status": {"phase": "Running", "containerStatuses": [{"ready": true}]}});
        let table = table("pods", [&pod].into_iter(), "None", json!({}));
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(cells[..3], ["p", "1/2", "Running"]);
    }
}
