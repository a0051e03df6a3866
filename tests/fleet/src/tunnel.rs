//! The way to addresses that exist only inside the hub: OCM's user-server, the Service and the Pods
//! in front of it, and what can go wrong with port-forwards to them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::certs::CertSpec;
use crate::faults::{Fault, FaultRule};
use crate::portforward::OLD_SERVER;
use crate::server::Server;

/// The namespace of [`SERVICE`].
pub const NAMESPACE: &str = "open-cluster-management-addon";

/// The Service in front of the user-server.
pub const SERVICE: &str = "cluster-proxy-addon-user";

/// Its port, and that of its Pods.
pub const PORT: u16 = 9092;

const LABEL: &str = "proxy.open-cluster-management.io/component-name";

/// The user-server and the way to it. Pods and the Service are objects of the hub like any other:
/// `hub().edit` gives the Service a named `targetPort` (the Pods call theirs `user-port`) or the Pods
/// another `containerPort`, on which they then listen.
#[derive(Clone)]
pub struct Tunnel {
    hub: Server,
    user_server: Server,
}

impl Tunnel {
    pub(crate) fn new(hub: &Server, user_server: &Server) -> Self {
        let tunnel = Self { hub: hub.clone(), user_server: user_server.clone() };
        tunnel.add_pod("cluster-proxy-5d8f6c9b7-k2x4p");
        tunnel
    }

    /// OCM's user-server, which listens on a port of its own too: its certificate
    /// ([`Server::present`]), its log, its faults.
    pub fn user_server(&self) -> &Server {
        &self.user_server
    }

    /// The API path of the Service.
    pub fn service_path(&self) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}")
    }

    /// The API path of a Pod.
    pub fn pod_path(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}")
    }

    /// The names of the Pods.
    pub fn pods(&self) -> Vec<String> {
        let pods = self.hub.list(self.pod_path("").trim_end_matches('/'));
        pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect()
    }

    /// Adds a Pod that is ready.
    pub fn add_pod(&self, name: &str) {
        self.hub.put(self.pod_path(name), pod());
    }

    /// Deletes a Pod and breaks what is forwarded to it, as deleting the object in any other way does.
    pub fn delete_pod(&self, name: &str) {
        assert!(self.hub.delete(self.pod_path(name)), "no Pod {name}");
    }

    /// Whether a Pod that is deleted breaks the streams alone and leaves the connection open, on which
    /// each new stream is then refused in words. So do container runtimes that outlive the Pod.
    pub fn linger(&self, linger: bool) {
        self.hub.inner.forwards().set_linger(linger);
    }

    /// Sets the condition Ready of a Pod. What is forwarded to it stays.
    pub fn set_ready(&self, name: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        self.hub.edit(self.pod_path(name), |pod| {
            for condition in pod["status"]["conditions"].as_array_mut().into_iter().flatten() {
                condition["status"] = json!(status);
            }
            pod["status"]["containerStatuses"][0]["ready"] = json!(ready);
        });
    }

    /// Deletes the Service.
    pub fn delete_service(&self) {
        assert!(self.hub.delete(self.service_path()), "no Service");
    }

    /// Port-forwards that are open: one connection to the hub each.
    pub fn connections(&self) -> usize {
        self.hub.inner.forwards().counts().0
    }

    /// Connections to Pods that are open: one pair of streams each.
    pub fn streams(&self) -> usize {
        self.hub.inner.forwards().counts().1
    }

    /// Connections to Pods so far.
    pub fn streams_ever(&self) -> usize {
        self.hub.inner.forwards().counts().2
    }

    /// Refuses the WebSocket form as an API server before Kubernetes 1.30 does.
    pub fn refuse_websocket(&self) -> FaultRule {
        self.hub.fault(
            |request| request.is_portforward() && request.method == "GET",
            Fault::PlainText(400, OLD_SERVER.to_owned()),
        )
    }

    /// Answers each port-forward as behind a proxy that takes the `Upgrade` out of it.
    pub fn refuse_upgrades(&self) -> FaultRule {
        let status = crate::answer::failure(400, "BadRequest", "Upgrade request required");
        self.hub.fault(|request| request.is_portforward(), Fault::Status(400, status.to_string()))
    }

    /// Answers 502 at the user-server, as when a spoke's agent is away.
    pub fn lose_agents(&self) -> FaultRule {
        let text = "proxy to anp-proxy-server failed because context deadline exceeded\n";
        self.user_server.fault(|_| true, Fault::PlainText(502, text.to_owned()))
    }

    /// Makes connections to the hub take so long, each way, from now on.
    pub fn delay(&self, delay: Duration) {
        self.hub.delay(delay);
    }
}

/// The published address of a cluster.
pub(crate) fn server_url(cluster: &str) -> String {
    format!("https://{SERVICE}.{NAMESPACE}:{PORT}/{cluster}")
}

/// The user-server's certificate: good for the published names and no other.
pub fn certificate() -> CertSpec {
    let names = vec![format!("{SERVICE}.{NAMESPACE}"), format!("{SERVICE}.{NAMESPACE}.svc")];
    CertSpec { names, ..CertSpec::default() }
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": {LABEL: "proxy-server"}},
        "spec": {"nodeName": "hub-control-plane", "containers": [{"name": "user-server", "image": "cluster-proxy:1",
            "ports": [{"name": "user-port", "containerPort": PORT, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "podIP": "10.1.0.3",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
            "containerStatuses": [{"name": "user-server", "ready": true, "restartCount": 0,
                "image": "cluster-proxy:1", "imageID": "", "state": {"running": {"startedAt": "2025-01-01T00:00:00Z"}}}]}})
}
