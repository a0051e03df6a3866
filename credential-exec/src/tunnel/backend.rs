//! From the Service to the Pods behind it that can be forwarded to, as `kubectl port-forward` finds them.

use std::collections::BTreeMap;

use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::error::{Error, Kind, Result};
use crate::hub::Client;
use crate::request::Tunnel;

/// A Pod and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The Pod's name.
    pub pod: String,
    /// The port that the Service leads to.
    pub port: u16,
}

/// The ready Pods behind the Service.
///
/// # Errors
/// [`Kind::NotFound`]: there is no Service. [`Kind::Refused`]: it may not be read.
/// [`Kind::Unreachable`]: no Pod is ready.
pub async fn find(client: &Client, tunnel: &Tunnel) -> Result<Vec<Backend>> {
    let Tunnel { namespace, service: name, .. } = tunnel;
    let what = format!("Service {namespace}/{name}");
    let answer = client.get(&format!("/api/v1/namespaces/{namespace}/services/{name}"), None).await?;
    if answer.status == StatusCode::NOT_FOUND && answer.is_status() {
        return Err(Error::new(Kind::NotFound, format!("the hub has no {what}")).remedy(format!(
            "install its user-server: helm upgrade cluster-proxy ocm/cluster-proxy -n {namespace} --reuse-values --set enableServiceProxy=true"
        )));
    }
    let service: Service = answer.json(&what).map_err(|error| permitted(error, namespace))?;
    if service.spec.selector.is_empty() {
        return Err(Error::new(Kind::Unreachable, format!("{what} selects no Pods"))
            .remedy("its Pods must be known to forward to one of them"));
    }
    let selector: Vec<String> =
        service.spec.selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let selector = utf8_percent_encode(&selector.join(","), NON_ALPHANUMERIC).to_string();
    let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}");
    let pods: Pods =
        client.get(&path, None).await?.json("Pods").map_err(|error| permitted(error, namespace))?;
    choose(&service, &pods.items, tunnel)
}

/// What to do where a permission for the tunnel is missing.
pub fn needed_rights(namespace: &str) -> String {
    format!(
        "in namespace {namespace} you need get on services, list on pods, and get and create on pods/portforward: the Role of docs/hub-setup.md"
    )
}

fn permitted(error: Error, namespace: &str) -> Error {
    match error.kind {
        Kind::Refused if !error.remedy.contains("log in") => error.remedy(needed_rights(namespace)),
        _ => error,
    }
}

fn choose(service: &Service, pods: &[Pod], tunnel: &Tunnel) -> Result<Vec<Backend>> {
    let what = format!("Service {}/{}", tunnel.namespace, tunnel.service);
    let port = service.spec.ports.iter().find(|port| port.port == tunnel.service_port).ok_or_else(|| {
        let ports: Vec<_> = service.spec.ports.iter().map(|port| port.port.to_string()).collect();
        Error::new(
            Kind::NotFound,
            format!("{what} has no port {}, but {}", tunnel.service_port, ports.join(", ")),
        )
        .remedy("run `kubectl inventory use` again: the published address may have changed")
    })?;
    let ready: Vec<_> = pods
        .iter()
        .filter(|pod| pod.is_ready())
        .filter_map(|pod| Some(Backend { pod: pod.metadata.name.clone(), port: port.on(pod)? }))
        .collect();
    if ready.is_empty() {
        let pods = pods.len();
        return Err(Error::new(
            Kind::Unreachable,
            format!("no Pod behind {what} is ready ({pods} {})", if pods == 1 { "exists" } else { "exist" }),
        )
        .remedy(format!("look at them on the hub: kubectl get pods -n {}", tunnel.namespace)));
    }
    Ok(ready)
}

#[derive(Deserialize)]
struct Service {
    #[serde(default)]
    spec: ServiceSpec,
}

#[derive(Default, Deserialize)]
struct ServiceSpec {
    #[serde(default)]
    selector: BTreeMap<String, String>,
    #[serde(default)]
    ports: Vec<ServicePort>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServicePort {
    port: u16,
    target_port: Option<IntOrName>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum IntOrName {
    Int(u16),
    Name(String),
}

impl ServicePort {
    /// The port on this Pod.
    fn on(&self, pod: &Pod) -> Option<u16> {
        match &self.target_port {
            None | Some(IntOrName::Int(0)) => Some(self.port),
            Some(IntOrName::Int(port)) => Some(*port),
            Some(IntOrName::Name(name)) => {
                let mut ports = pod.spec.containers.iter().flat_map(|container| &container.ports);
                ports.find(|port| port.name.as_ref() == Some(name)).map(|port| port.container_port)
            }
        }
    }
}

#[derive(Deserialize)]
struct Pods {
    items: Vec<Pod>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
struct PodSpec {
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    ports: Vec<ContainerPort>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerPort {
    name: Option<String>,
    container_port: u16,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: String,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Pod {
    fn is_ready(&self) -> bool {
        let ready = |condition: &Condition| condition.kind == "Ready" && condition.status == "True";
        self.metadata.deletion_timestamp.is_none()
            && self.status.phase == "Running"
            && self.status.conditions.iter().any(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(target: Value) -> Service {
        serde_json::from_value(
            json!({"spec": {"selector": {"a": "b"}, "ports": [{"port": 1}, {"port": 9092, "targetPort": target}]}}),
        )
        .unwrap()
    }

    fn pod(name: &str, ready: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {"containers": [{}, {"ports": [{"containerPort": 7}, {"name": "user", "containerPort": 8092}]}]},
            "status": {"phase": "Running", "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}]},
        })
    }

    fn chosen(target: Value, pods: Value) -> Result<Vec<Backend>> {
        let pods: Vec<Pod> = serde_json::from_value(pods).unwrap();
        choose(&service(target), &pods, &Tunnel::sample())
    }

    #[test]
    fn the_port_is_the_target_by_number_by_name_or_the_service_s_own() {
        for (target, port) in
            [(json!(8000), 8000), (json!("user"), 8092), (Value::Null, 9092), (json!(0), 9092)]
        {
            let found = chosen(target, json!([pod("one", "True")])).unwrap();
            assert_eq!(found, [Backend { pod: "one".into(), port }]);
        }
        assert_eq!(chosen(json!("other"), json!([pod("one", "True")])).unwrap_err().kind, Kind::Unreachable);
    }

    #[test]
    fn only_pods_that_are_ready_and_stay_are_forwarded_to() {
        let mut leaving = pod("leaving", "True");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut pending = pod("pending", "True");
        pending["status"]["phase"] = json!("Pending");
        let bare = json!({"metadata": {"name": "bare"}});
        let found = chosen(json!(1), json!([pod("no", "False"), leaving, pending, bare, pod("yes", "True")]));
        assert_eq!(found.unwrap(), [Backend { pod: "yes".into(), port: 1 }]);
        let error = chosen(json!(1), json!([pod("no", "False")])).unwrap_err();
        assert!(error.cause.contains("no Pod") && error.cause.contains("1 exists"), "{error}");
    }

    #[test]
    fn a_port_that_the_service_does_not_have_is_named() {
        let service = Service {
            spec: ServiceSpec {
                selector: BTreeMap::new(),
                ports: vec![ServicePort { port: 443, target_port: None }],
            },
        };
        let error = choose(&service, &[], &Tunnel::sample()).unwrap_err();
        assert!(error.cause.contains("9092") && error.cause.contains("443"), "{error}");
    }
}
