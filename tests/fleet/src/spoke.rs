//! What runs on a spoke: enough for `kubectl get namespaces|nodes|pods|deployments`.

use serde_json::{Value, json};

use crate::server::Server;
use crate::spec::ClusterSpec;

pub(crate) fn fill(server: &Server, spec: &ClusterSpec) {
    for name in ["default", "kube-system", &spec.name] {
        server.put(format!("/api/v1/namespaces/{name}"), namespace());
    }
    let node = format!("{}-control-plane", spec.name);
    server.put(format!("/api/v1/nodes/{node}"), self::node(&spec.version));
    let pods =
        [("default", "web-6d4cf56db6-x2b8z", "web"), ("kube-system", "coredns-674b8bbfcf-qv7nl", "coredns")];
    for (namespace, name, app) in pods {
        server.put(format!("/api/v1/namespaces/{namespace}/pods/{name}"), pod(app, &node));
        server.put(format!("/apis/apps/v1/namespaces/{namespace}/deployments/{app}"), deployment(app));
    }
    let cluster = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"name": spec.name}});
    server.put("/api/v1/namespaces/default/configmaps/cluster", cluster);
}

pub(crate) fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
}

fn node(version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
    "metadata": {"labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/os": "linux"}},
    "spec": {},
    "status": {
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "nodeInfo": {"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.1", "kubeProxyVersion": version, "kubeletVersion": version, "machineID": "",
            "operatingSystem": "linux", "osImage": "Linux", "systemUUID": ""},
    }})
}

fn pod(app: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": app, "image": format!("{app}:1")}]},
        "status": {"phase": "Running", "podIP": "10.1.0.2",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": app, "ready": true, "restartCount": 0, "image": format!("{app}:1"),
                "imageID": "", "state": {"running": {"startedAt": "2025-01-01T00:00:00Z"}}}]}})
}

fn deployment(app: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"labels": {"app": app}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": app, "image": format!("{app}:1")}]}}},
        "status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1}})
}
