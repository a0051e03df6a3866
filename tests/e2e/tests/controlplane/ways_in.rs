//! The ways in that need no OCM account, each from a real hub into a real cluster with the real kubectl: who one
//! is there is what the cluster itself says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::controlplane::crds::{install_capi, install_crds, install_managed_clusters};
use e2e::controlplane::ocm::{INVENTORY, allow, allow_inventory, bind, profile, put_profile};
use e2e::controlplane::{ClusterGateway, ClusterProxy, ControlPlane};
use e2e::sealed::{Ran, Sealed};
use serde_json::{Value, json};

/// A person's home who is `viewer` at the hub.
pub fn viewer_of(hub: &ControlPlane) -> Sealed {
    let sealed = Sealed::empty();
    sealed.write(".kube/config", &hub.kubeconfig(&hub.token("viewer")));
    sealed
}

/// Lets a user of a cluster do everything there.
pub fn let_in(spoke: &ControlPlane, user: &str) {
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user });
    bind(spoke, None, &format!("{user}-admin"), "ClusterRole", "cluster-admin", &subject).unwrap();
}

/// A token of the cluster, and whose it is there.
pub fn account_token(spoke: &ControlPlane, account: &str) -> (String, String) {
    spoke.create_namespace("people").unwrap();
    let accounts = "/api/v1/namespaces/people/serviceaccounts";
    spoke.create(accounts, &json!({ "metadata": { "name": account } })).unwrap();
    let subject = json!({ "kind": "ServiceAccount", "name": account, "namespace": "people" });
    bind(spoke, None, account, "ClusterRole", "cluster-admin", &subject).unwrap();
    let token = spoke.create_token("people", account, 3600).unwrap();
    (token, format!("system:serviceaccount:people:{account}"))
}

pub fn put_secret(hub: &ControlPlane, namespace: &str, name: &str, labels: Value, key: &str, value: &str) {
    let secret =
        json!({ "metadata": { "name": name, "labels": labels }, "data": { key: STANDARD.encode(value) } });
    let collection = format!("/api/v1/namespaces/{namespace}/secrets");
    hub.create(&collection, &secret).unwrap();
    hub.request("PATCH", &format!("{collection}/{name}"), Some(&json!({ "data": secret["data"] }))).unwrap();
}

/// Lets the profile of `cluster1` publish this provider alone, at the cluster's own address.
pub fn publish(hub: &ControlPlane, spoke: &ControlPlane, provider: &str, told: Value) {
    let mut published = profile("cluster1", &spoke.server(), spoke.ca_pem());
    let access = &mut published["status"]["accessProviders"][0];
    access["name"] = json!(provider);
    access["cluster"]["extensions"] =
        json!([{ "name": "client.authentication.k8s.io/exec", "extension": told }]);
    put_profile(hub, INVENTORY, &published).unwrap();
}

/// Who kubectl is in the current context; also that it can work there.
#[track_caller]
fn whoami(sealed: &Sealed) -> Option<String> {
    let me = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"];
    let name = sealed.kubectl(&me)?.ok();
    assert!(sealed.kubectl(&["get", "ns", "-o", "name"])?.ok().contains("namespace/kube-system"));
    Some(name)
}

#[track_caller]
fn is(sealed: &Sealed, who: &str) {
    assert!(whoami(sealed).is_none_or(|me| me == who), "not {who}: {:?}", whoami(sealed));
}

#[test]
fn what_a_profile_publishes_leads_into_a_real_cluster() {
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    install_crds(&hub).unwrap();
    hub.create_namespace(INVENTORY).unwrap();
    allow_inventory(&hub, "viewer").unwrap();

    // A plugin of the provider file, which kubectl runs itself.
    let (token, subject) = account_token(&spoke, "plugin");
    let sealed = viewer_of(&hub);
    sealed.write("plugins/token", &token);
    let plugin = sealed.write(
        "plugins/plugin",
        "#!/bin/sh\nprintf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\
         \"status\":{\"token\":\"%s\"}}' \"$(cat \"$(dirname \"$0\")/$1\")\"\n",
    );
    make_executable(&plugin);
    let exec =
        json!({ "apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": ["token"] });
    let file = json!({ "providers": [{ "name": "ours", "execConfig": exec }] });
    let file = sealed.write("plugins/providers.json", &file.to_string()).display().to_string();
    publish(&hub, &spoke, "ours", json!({}));
    sealed.inventory(&["use", "cluster1", "--clusterprofile-provider-file", &file]).ok();
    is(&sealed, &subject);

    // A token in a Secret.
    let (token, subject) = account_token(&spoke, "secret");
    put_secret(&hub, INVENTORY, "cluster1", json!({}), "token", &token);
    publish(&hub, &spoke, "secretreader", json!({ "clusterName": "cluster1" }));
    let sealed = viewer_of(&hub);
    sealed.inventory(&["use", "cluster1"]).fails(4);
    sealed.inventory(&["use", "cluster1", "--trust-server"]).ok();
    is(&sealed, &subject);

    // A client certificate, out of a kubeconfig in a Secret.
    let_in(&spoke, "carol");
    let (certificate, key) = spoke.client_certificate("carol", None, None);
    let kubeconfig = spoke.kubeconfig_with_certificate(&certificate, &key);
    put_secret(&hub, INVENTORY, "access", json!({}), "config", &kubeconfig);
    publish(&hub, &spoke, "kubeconfig-secretreader", json!({ "name": "access", "key": "config" }));
    let sealed = viewer_of(&hub);
    sealed.inventory(&["use", "cluster1"]).ok();
    is(&sealed, "carol");
    // One that the cluster's authority did not sign is the cluster's to refuse.
    let (certificate, key) = hub.client_certificate("carol", Some("system:masters"), None);
    let kubeconfig = spoke.kubeconfig_with_certificate(&certificate, &key);
    put_secret(&hub, INVENTORY, "access", json!({}), "config", &kubeconfig);
    if let Some(ran) = sealed.kubectl(&["get", "ns"]) {
        assert!(ran.code != 0 && ran.stderr.contains("logged in"), "{ran:?}");
    }
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A Cluster of Cluster API, as far as a real definition wants it.
fn put_capi_cluster(hub: &ControlPlane, namespace: &str, name: &str) {
    hub.create_namespace(namespace).unwrap();
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": { "name": name },
        "spec": {
            "infrastructureRef": { "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerCluster", "name": name },
            "controlPlaneRef": { "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name },
        },
    });
    let collection = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/clusters");
    hub.create(&collection, &cluster).unwrap();
    let condition = json!({ "type": "Available", "status": "True", "reason": "Available", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let status = json!({ "status": { "phase": "Provisioned", "conditions": [condition] } });
    hub.request("PATCH", &format!("{collection}/{name}/status"), Some(&status)).unwrap();
}

#[test]
fn a_cluster_api_cluster_is_used_by_certificate_renewed_expired_and_moved() {
    let Some((hub, spoke)) = ControlPlane::start_two("management", "workload").unwrap() else { return };
    install_capi(&hub).unwrap();
    put_capi_cluster(&hub, "team-a", "blue");
    let rule = |group, resource, verbs: &[&str]| json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
    allow(&hub, None, "viewer", "clusters", &json!([rule("cluster.x-k8s.io", "clusters", &["get", "list"])]))
        .unwrap();
    let sealed = viewer_of(&hub);
    let table = sealed.inventory(&["get"]).ok();
    assert!(table.contains("Provisioned") && table.contains("KubeadmControlPlane"), "{table}");
    assert!(sealed.inventory(&["use", "blue"]).fails(4).contains("secrets"));

    allow(&hub, Some("team-a"), "viewer", "secrets", &json!([rule("", "secrets", &["get"])])).unwrap();
    assert!(sealed.inventory(&["use", "blue"]).fails(3).contains("phase is Provisioned"));
    let put_certificate = |user: &str, ended| {
        let (certificate, key) = spoke.client_certificate(user, Some("system:masters"), ended);
        let kubeconfig = spoke.kubeconfig_with_certificate(&certificate, &key);
        let labels = json!({ "cluster.x-k8s.io/cluster-name": "blue" });
        put_secret(&hub, "team-a", "blue-kubeconfig", labels, "value", &kubeconfig);
    };
    put_certificate("first-admin", None);
    let ran = sealed.inventory(&["use", "blue"]);
    assert!(ran.stderr.contains("administrator's credential"), "{ran:?}");
    ran.ok();
    is(&sealed, "first-admin");

    // Cluster API renews it: the next kubectl uses the new one.
    put_certificate("second-admin", None);
    is(&sealed, "second-admin");

    // It was not renewed in time.
    put_certificate("second-admin", Some((2025, 3, 4)));
    if let Some(ran) = sealed.kubectl(&["get", "ns"]) {
        assert!(ran.code != 0 && ran.stderr.contains("expired on 2025-03-04"), "{ran:?}");
    }
    assert!(sealed.inventory(&["use", "blue"]).fails(1).contains("expired on 2025-03-04"));
    put_certificate("third-admin", None);
    // A failure is remembered for two seconds.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    is(&sealed, "third-admin");

    // It now leads to another API server: that one gets nothing.
    let (certificate, key) = hub.client_certificate("mallory", Some("system:masters"), None);
    let elsewhere = hub.kubeconfig_with_certificate(&certificate, &key);
    put_secret(&hub, "team-a", "blue-kubeconfig", json!({}), "value", &elsewhere);
    if let Some(ran) = sealed.kubectl(&["get", "ns"]) {
        assert!(ran.code != 0 && ran.stderr.contains("now leads to"), "{ran:?}");
    }
}

fn put_managed_cluster(hub: &ControlPlane, name: &str) {
    let collection = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": { "name": name },
        "spec": { "hubAcceptsClient": true },
    });
    hub.create(collection, &cluster).unwrap();
    let conditions: Vec<Value> =
        ["HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"]
            .iter()
            .map(|kind| {
                json!({ "type": kind, "status": "True", "reason": kind, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
            })
            .collect();
    let status = json!({ "status": { "conditions": conditions, "version": { "kubernetes": "v1.36.3" } } });
    hub.request("PATCH", &format!("{collection}/{name}/status"), Some(&status)).unwrap();
}

#[test]
fn cluster_gateway_leads_in_with_the_hubs_own_rights() {
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    install_managed_clusters(&hub).unwrap();
    put_managed_cluster(&hub, "cluster1");
    let Some(_gateway) = ClusterGateway::install(&hub, &[("cluster1", &spoke)]).unwrap() else { return };
    let rule = |group, resource, verbs: &[&str]| json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
    let group = "cluster.open-cluster-management.io";
    allow(&hub, None, "viewer", "managed", &json!([rule(group, "managedclusters", &["get", "list"])]))
        .unwrap();

    let sealed = viewer_of(&hub);
    assert!(sealed.inventory(&["get"]).ok().contains("cluster1"));
    assert!(sealed.inventory(&["describe", "cluster1"]).ok().contains("cluster-gateway"));
    // The hub's own rules decide who goes through.
    let ran = sealed.inventory(&["use", "cluster1"]);
    assert!(ran.stderr.contains("refuses you clustergateways/proxy of cluster1"), "{ran:?}");
    ran.ok();
    if let Some(ran) = sealed.kubectl(&["get", "ns"]) {
        assert!(ran.code != 0 && ran.stderr.contains("(Forbidden)"), "{ran:?}");
    }
    let proxy = rule("cluster.core.oam.dev", "clustergateways/proxy", &["get", "create"]);
    allow(&hub, None, "viewer", "gateway", &json!([proxy])).unwrap();
    assert!(!sealed.inventory(&["use", "cluster1"]).stderr.contains("refuses"));
    // The gateway is the cluster's administrator here.
    is(&sealed, "admin");
    assert!(sealed.inventory(&["get"]).ok().contains("cluster1"), "the hub is still known");

    // A kubeconfig of its own carries no credential of the hub's: it is fetched.
    let file = sealed.path("alone.yaml").display().to_string();
    sealed.inventory(&["use", "cluster1", "-o", &file]).ok();
    assert!(!sealed.read("alone.yaml").contains(&hub.token("viewer")));
    if let Some(ran) = sealed.kubectl(&["--kubeconfig", &file, "get", "ns", "-o", "name"]) {
        assert!(ran.ok().contains("namespace/kube-system"));
    }
    // With a client certificate of the hub as well: the peer is the hub.
    let (certificate, key) = hub.client_certificate("viewer", None, None);
    sealed.write(".kube/config", &hub.kubeconfig_with_certificate(&certificate, &key));
    sealed.inventory(&["use", "cluster1", "-o", &file]).ok();
    if let Some(ran) = sealed.kubectl(&["--kubeconfig", &file, "get", "ns", "-o", "name"]) {
        assert!(ran.ok().contains("namespace/kube-system"));
    }
}

#[test]
fn the_hub_identity_is_the_same_person_at_a_real_cluster() {
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    install_crds(&hub).unwrap();
    hub.create_namespace(INVENTORY).unwrap();
    allow_inventory(&hub, "viewer").unwrap();
    let Some(proxy) = ClusterProxy::install(&hub, &[("cluster1", &spoke)]).unwrap() else { return };
    proxy.publish("cluster1").unwrap();
    proxy.allow("viewer").unwrap();

    let sealed = viewer_of(&hub);
    let ran = sealed.inventory(&["use", "cluster1", "--hub-identity"]);
    assert!(ran.stderr.contains("sees your token for the hub"), "{ran:?}");
    ran.ok();
    // Known there, and allowed nothing yet.
    if let Some(Ran { code, stderr, .. }) = sealed.kubectl(&["get", "ns"]) {
        assert!(code != 0 && stderr.contains("\"viewer\" cannot list"), "{stderr}");
    }
    let_in(&spoke, "viewer");
    is(&sealed, "viewer");

    // Somebody without a token at the hub has nothing that travels.
    let (certificate, key) = hub.client_certificate("viewer", None, None);
    sealed.write(".kube/config", &hub.kubeconfig_with_certificate(&certificate, &key));
    assert!(sealed.inventory(&["use", "cluster1", "--hub-identity"]).fails(4).contains("bearer token"));
}
