//! Who one is at the cluster, through OCM's cluster-proxy: one's own self at the hub where that is asked for;
//! and a ManagedCluster, which publishes nothing itself.

use fleet::{Fleet, profile_path};
use serde_json::json;

use crate::laptop::{CONTEXT, Laptop};

/// The user-server hands a hub's token on, and the agent at the cluster lets it in.
fn let_the_hubs_token_in(laptop: &Laptop) {
    let token = laptop.fleet.viewer_token();
    laptop.fleet.spoke("cluster1").accept(token, "viewer@hub");
    laptop.fleet.tunnel().user_server().accept(token, "viewer@hub");
}

#[test]
fn the_hub_identity_goes_to_the_user_server_only_when_asked_and_with_a_warning() {
    let laptop = Laptop::of(Fleet::builder().spokes(1), "");
    let_the_hubs_token_in(&laptop);
    let ran = laptop.sealed.inventory(&["use", "cluster1", "--hub-identity"]);
    assert!(ran.stderr.contains("the agent on cluster1 sees your token for the hub"), "{ran:?}");
    ran.ok();
    assert_eq!(laptop.sealed.token(CONTEXT), laptop.fleet.viewer_token());
    assert!(laptop.namespaces().contains("cluster1"));
    let args = laptop.sealed.plugin_line(CONTEXT).join(" ");
    assert!(args.contains("--source=hub-identity") && !args.contains(laptop.fleet.viewer_token()), "{args}");

    let text = laptop.sealed.inventory(&["describe", "cluster1", "--hub-identity"]).ok();
    assert!(text.contains("hub-identity") && text.contains("sees your token"), "{text}");
    for flags in [["--sa", "inventory"], ["--provider", "google"], ["--as", "admin"]] {
        let mut args = vec!["use", "cluster1", "--hub-identity"];
        args.extend(flags);
        laptop.sealed.inventory(&args).fails(2);
    }
}

#[test]
fn the_hub_identity_reaches_no_server_but_ocms_and_no_other_clusters_agent() {
    let laptop = Laptop::of(Fleet::builder().spokes(2), "");
    let before = laptop.sealed.read(".kube/config");
    let publish = |server: &str| {
        laptop.fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
            profile["status"]["accessProviders"][0]["cluster"]["server"] = json!(server);
        });
    };
    let url = laptop.fleet.server_url("cluster2");
    publish(&url);
    let said = laptop.sealed.inventory(&["use", "cluster1", "--hub-identity"]).fails(4);
    assert!(said.contains("another cluster"), "{said}");
    publish("https://127.0.0.1:1/cluster1");
    let said = laptop.sealed.inventory(&["use", "cluster1", "--hub-identity"]).fails(4);
    assert!(said.contains("your own token at the hub would be sent to"), "{said}");
    // That this server may have the cluster's token says nothing about the hub's.
    laptop.sealed.inventory(&["use", "cluster1", "--trust-server", "--no-switch"]).ok();
    laptop.sealed.inventory(&["use", "cluster1", "--hub-identity"]).fails(4);
    assert!(before.len() < laptop.sealed.read(".kube/config").len());
}

#[test]
fn the_warning_names_the_cluster_whose_agent_sees_the_token_and_not_what_the_profile_is_called() {
    let laptop = Laptop::of(Fleet::builder().spokes(2), "");
    let url = laptop.fleet.server_url("cluster2");
    laptop.fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        profile["metadata"]["labels"]["open-cluster-management.io/cluster-name"] = json!("cluster2");
        profile["status"]["accessProviders"][0]["cluster"]["server"] = json!(url);
    });
    let ran = laptop.sealed.inventory(&["use", "cluster1", "--hub-identity"]);
    assert!(ran.stderr.contains("the agent on cluster2 sees your token for the hub"), "{ran:?}");
    ran.ok();
}

#[test]
fn a_hub_login_without_a_bearer_token_is_refused_at_once() {
    let laptop = Laptop::of(Fleet::builder().spokes(1), "");
    let password = laptop.fleet.password("viewer");
    let mut config = laptop.sealed.config();
    config["users"][0]["user"] = json!({"username": "viewer", "password": password});
    laptop.sealed.write(".kube/config", &config.to_string());
    let said = laptop.sealed.inventory(&["use", "cluster1", "--hub-identity"]).fails(4);
    assert!(said.contains("without a bearer token"), "{said}");
}

#[test]
fn a_managed_cluster_is_reached_through_cluster_proxy_with_the_ca_of_the_config_file() {
    let laptop = Laptop::of(Fleet::builder().spokes(2).without("multicluster.x-k8s.io"), "");
    let said = laptop.sealed.inventory(&["use", "cluster1"]).fails(3);
    assert!(said.contains("clusterProxy.certificateAuthority"), "{said}");

    laptop.sealed.write("config.yaml", "clusterProxy: {certificateAuthority: user-server.crt}\n");
    let said = laptop.sealed.inventory(&["use", "cluster1"]).fails(2);
    assert!(said.contains("user-server.crt"), "{said}");
    laptop.sealed.write("user-server.crt", &laptop.fleet.tunnel().user_server().ca_pem());
    laptop.sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(laptop.sealed.token(CONTEXT), laptop.fleet.token("cluster1", "inventory"));
    assert!(laptop.namespaces().contains("cluster1"));
    laptop.sealed.inventory(&["use", "cluster1", "--sa", "inventory"]).ok();
    let said = laptop.sealed.inventory(&["use", "cluster1", "--provider", "cluster-gateway"]).fails(3);
    assert!(said.contains("does not serve cluster-gateway"), "{said}");
    let said = laptop.sealed.inventory(&["use", "cluster1", "--provider", "google"]).fails(3);
    assert!(said.contains("cluster-gateway and open-cluster-management"), "{said}");

    let_the_hubs_token_in(&laptop);
    laptop.sealed.inventory(&["use", "cluster1", "--hub-identity"]).ok();
    assert_eq!(laptop.sealed.token("cluster1:hub-identity@hub"), laptop.fleet.viewer_token());
    assert_ne!(laptop.sealed.token(CONTEXT), laptop.fleet.viewer_token(), "the other one stays");

    let text = laptop.sealed.inventory(&["describe", "cluster1"]).ok();
    for line in ["Accepted:", "HubAcceptedManagedCluster", "cluster-gateway:", "Contexts:"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.contains("yes, as managed service account inventory through a tunnel"), "{text}");
    assert!(text.contains("no: the hub does not serve cluster-gateway"), "{text}");
    assert!(text.contains(CONTEXT), "{text}");
}

#[test]
fn the_users_token_of_one_hub_is_not_kept_for_another_login() {
    let laptop = Laptop::of(Fleet::builder().spokes(1), "");
    let_the_hubs_token_in(&laptop);
    laptop.sealed.inventory(&["use", "cluster1", "--hub-identity"]).ok();
    assert_eq!(laptop.sealed.token(CONTEXT), laptop.fleet.viewer_token());
    let mut config = laptop.sealed.config();
    let users = config["users"].as_array_mut().unwrap();
    let hub = users.iter_mut().find(|user| user["user"].get("token").is_some()).unwrap();
    laptop.fleet.hub().accept("another-login-of-the-same-hub", "other");
    hub["user"] = json!({"token": "another-login-of-the-same-hub"});
    laptop.sealed.write(".kube/config", &config.to_string());
    assert_eq!(laptop.sealed.token(CONTEXT), "another-login-of-the-same-hub");
}
