//! Objects of the hub in the shapes that OCM writes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::spec::{AccountSpec, ClusterSpec};
use crate::store::{from_now, now};

/// The API group of ManagedServiceAccount.
pub const MSA_GROUP: &str = "authentication.open-cluster-management.io";

/// The access provider's and the cluster manager's name.
pub const MANAGER: &str = "open-cluster-management";

/// A ClusterProfile; `server` and the CA are what it publishes.
pub fn cluster_profile(spec: &ClusterSpec, namespace: &str, server: &str, ca_pem: &str) -> Value {
    let cluster = json!({
        "certificate-authority-data": STANDARD.encode(ca_pem),
        "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": spec.name}},
        ],
        "server": server,
    });
    let access = json!([{"name": MANAGER, "cluster": cluster}]);
    let list = if spec.deprecated_providers { "credentialProviders" } else { "accessProviders" };
    let properties: Vec<Value> =
        spec.properties.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let mut object = json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ClusterProfile",
        "metadata": {
            "name": spec.name,
            "namespace": namespace,
            "generation": 1,
            "labels": {
                "multicluster.x-k8s.io/clusterset": spec.cluster_set,
                "open-cluster-management.io/cluster-name": spec.name,
                "x-k8s.io/cluster-manager": MANAGER,
            },
            "managedFields": managed_fields(spec, list),
        },
        "spec": {"clusterManager": {"name": MANAGER}, "displayName": spec.name},
        "status": {
            list: access,
            "conditions": [
                condition("ControlPlaneHealthy", spec.healthy, "ManagedClusterAvailable", "Managed cluster is available"),
                condition("Joined", spec.joined, "ManagedClusterJoined", "Managed cluster joined"),
            ],
            "properties": properties,
            "version": {"kubernetes": spec.version},
        },
    });
    for (name, value) in &spec.labels {
        object["metadata"]["labels"][name] = json!(value);
    }
    object
}

fn condition(kind: &str, status: Option<bool>, reason: &str, message: &str) -> Value {
    let status = match status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()})
}

fn managed_fields(spec: &ClusterSpec, list: &str) -> Value {
    let entry = |fields: Value, subresource: &str| {
        let mut entry = json!({"manager": "registration", "operation": "Update", "time": now(),
            "apiVersion": "multicluster.x-k8s.io/v1alpha1", "fieldsType": "FieldsV1", "fieldsV1": fields});
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    };
    let mut properties = json!({".": {}});
    for (name, _) in &spec.properties {
        let key = format!("k:{}", json!({"name": name}));
        properties[key] = json!({".": {}, "f:name": {}, "f:value": {}});
    }
    let labels = json!({".": {}, "f:multicluster.x-k8s.io/clusterset": {},
        "f:open-cluster-management.io/cluster-name": {}, "f:x-k8s.io/cluster-manager": {}});
    let condition = json!({".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {}, "f:type": {}});
    json!([
        entry(
            json!({"f:metadata": {"f:labels": labels},
            "f:spec": {".": {}, "f:clusterManager": {".": {}, "f:name": {}}, "f:displayName": {}}}),
            ""
        ),
        entry(
            json!({"f:status": {".": {}, format!("f:{list}"): {},
            "f:conditions": {".": {}, "k:{\"type\":\"ControlPlaneHealthy\"}": condition, "k:{\"type\":\"Joined\"}": condition},
            "f:properties": properties, "f:version": {".": {}, "f:kubernetes": {}}}}),
            "status"
        ),
    ])
}

/// A ManagedServiceAccount whose token was reported.
pub fn managed_service_account(cluster: &str, account: &str, spec: &AccountSpec) -> Value {
    let mut object = json!({
        "apiVersion": format!("{MSA_GROUP}/v1beta1"),
        "kind": "ManagedServiceAccount",
        "metadata": {"name": account, "namespace": cluster, "generation": 1, "labels": {}},
        "spec": {"rotation": {"enabled": true, "validity": "8640h0m0s"}},
        "status": {"conditions": [
            condition("SecretCreated", Some(spec.own_secret), "SecretCreated", ""),
            condition("TokenReported", Some(spec.own_secret), "TokenReported", ""),
        ]},
    });
    if spec.synced {
        object["metadata"]["labels"][format!("{MSA_GROUP}/sync-to-clusterprofile")] = json!("true");
    }
    if spec.own_secret {
        object["status"]["tokenSecretRef"] = json!({"name": account, "lastRefreshTimestamp": now()});
        let until = spec.token.expires_in().unwrap_or(8640 * 3600);
        object["status"]["expirationTimestamp"] = json!(from_now(until));
    }
    object
}

/// The account's own Secret, in the namespace named after the cluster.
pub fn token_secret(cluster: &str, account: &str, token: &str, ca_pem: &str) -> Value {
    let label = format!("{MSA_GROUP}/is-managed-serviceaccount");
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": account, "namespace": cluster, "labels": {label: "true"}},
        "data": {"ca.crt": STANDARD.encode(ca_pem), "token": STANDARD.encode(token)}})
}

/// The copy `<cluster>-<account>` beside the profile, owned by it.
pub fn synced_secret(profile: &Value, account: &str, token: &str, ca_pem: &str) -> Value {
    let metadata = &profile["metadata"];
    let name = format!("{}-{account}", metadata["name"].as_str().unwrap_or_default());
    let label = format!("{MSA_GROUP}/synced-from");
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": metadata["namespace"], "labels": {label: name},
            "ownerReferences": [{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
                "name": metadata["name"], "uid": metadata["uid"]}]},
        "data": {"ca.crt": STANDARD.encode(ca_pem), "token": STANDARD.encode(token)}})
}

/// The ManagedCluster behind a profile.
pub fn managed_cluster(spec: &ClusterSpec) -> Value {
    let claims: Vec<Value> =
        spec.properties.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": spec.name, "labels": {"cluster.open-cluster-management.io/clusterset": spec.cluster_set}},
        "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 60},
        "status": {
            "clusterClaims": claims,
            "conditions": [
                condition("HubAcceptedManagedCluster", Some(true), "HubClusterAdminAccepted", "Accepted by hub cluster admin"),
                condition("ManagedClusterJoined", spec.joined, "ManagedClusterJoined", "Managed cluster joined"),
                condition("ManagedClusterConditionAvailable", spec.healthy, "ManagedClusterAvailable", "Managed cluster is available"),
            ],
            "version": {"kubernetes": spec.version},
        },
    })
}

/// What cluster-proxy with its service proxy leaves on a hub: paths and objects.
pub(crate) fn cluster_proxy() -> Vec<(&'static str, Value)> {
    vec![
        (
            "/api/v1/namespaces/open-cluster-management-addon/services/cluster-proxy-addon-user",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"labels": {}},
                "spec": {"ports": [{"name": "user-port", "port": 9092, "protocol": "TCP", "targetPort": 9092}],
                    "selector": {"proxy.open-cluster-management.io/component-name": "proxy-server"}}}),
        ),
        (
            "/apis/proxy.open-cluster-management.io/v1alpha1/managedproxyconfigurations/cluster-proxy",
            json!({"apiVersion": "proxy.open-cluster-management.io/v1alpha1", "kind": "ManagedProxyConfiguration",
                "metadata": {}, "spec": {"proxyServer": {"namespace": "open-cluster-management-addon"}}}),
        ),
    ]
}
