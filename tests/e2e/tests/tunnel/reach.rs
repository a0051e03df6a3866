//! Which way `use` chooses to a published address, and what may be chosen instead.

use std::net::TcpListener;

use e2e::sealed::{Sealed, run};
use fleet::{Fleet, tunnel};

use crate::laptop::{CONTEXT, Laptop, lives, until};

fn published() -> String {
    format!("https://{}.{}:{}", tunnel::SERVICE, tunnel::NAMESPACE, tunnel::PORT)
}

fn has_tunnel(sealed: &Sealed) -> bool {
    sealed.plugin_line(CONTEXT).iter().any(|word| word.starts_with("--tunnel"))
}

#[test]
fn an_address_within_the_hub_is_tunnelled_and_one_that_answers_is_not() {
    let within = Laptop::new();
    assert!(has_tunnel(&within.sealed));
    assert!(within.server().ends_with("/cluster1"), "{}", within.server());
    let entry = within.sealed.entry("clusters", CONTEXT);
    assert_eq!(entry["cluster"]["tls-server-name"], format!("{}.{}", tunnel::SERVICE, tunnel::NAMESPACE));
    assert!(within.sealed.tunnels().is_empty(), "use starts none");

    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    assert!(!has_tunnel(&sealed));
}

#[test]
fn direct_and_tunnel_are_obeyed() {
    let within = Laptop::new();
    within.sealed.inventory(&["use", "cluster1", "--reach", "direct"]).ok();
    assert_eq!(within.server(), format!("{}/cluster1", published()));
    assert!(!has_tunnel(&within.sealed));
    within.sealed.inventory(&["use", "cluster1", "--reach", "tunnel"]).ok();
    assert!(has_tunnel(&within.sealed));
    within.namespaces();

    // There is no Service behind a public address, and no tunnel to what a tenant names.
    let fleet = Fleet::builder().spokes(1).start();
    let public = Sealed::at(&fleet).inventory(&["use", "cluster1", "--reach", "tunnel"]).fails(4);
    assert!(public.contains("names no Service on the hub that a tunnel may lead to"), "{public}");
    let wrong = Sealed::at(&fleet).inventory(&["use", "cluster1", "--reach", "tunel"]).fails(2);
    assert!(wrong.contains("direct"), "{wrong}");
}

#[test]
fn no_tunnel_leads_to_a_service_that_only_a_profile_names() {
    let laptop = Laptop::of(Fleet::builder().spokes(1), "");
    let profile = fleet::profile_path(fleet::INVENTORY, "cluster1");
    laptop.fleet.hub().edit(profile, |profile| {
        for provider in profile["status"]["accessProviders"].as_array_mut().unwrap() {
            provider["cluster"]["server"] = "https://tokens-please.tenant:443/cluster1".into();
        }
    });
    let error = laptop.sealed.inventory(&["use", "cluster1", "--reach", "tunnel"]).fails(4);
    assert!(error.contains("tokens-please.tenant") && error.contains("trustedHosts"), "{error}");
    assert_eq!(laptop.sealed.config()["users"].as_array().unwrap().len(), 1, "nothing was written");

    // The token that OCM bound to this profile may go there, by the way that others go to it.
    let direct = laptop.sealed.inventory(&["use", "cluster1"]);
    assert_eq!(direct.code, 0, "{direct:?}");
    assert!(!has_tunnel(&laptop.sealed));
    assert_eq!(laptop.server(), "https://tokens-please.tenant:443/cluster1");
    assert!(
        direct.stderr.contains("note: tokens-please.tenant") && direct.stderr.contains("trustedHosts"),
        "{direct:?}"
    );

    laptop.sealed.write("config.yaml", "trustedHosts: [tokens-please.tenant]");
    laptop.use_cluster();
    assert!(has_tunnel(&laptop.sealed), "the person trusts it");
}

#[test]
fn a_rule_moves_an_address_and_keeps_the_name_that_is_checked() {
    let laptop = Laptop::of(Fleet::builder().spokes(1), "");
    let real = laptop.fleet.tunnel().user_server().url();
    laptop.sealed.write("config.yaml", &format!("reach:\n- from: {}\n  to: {real}\n", published()));
    laptop.use_cluster();
    assert_eq!(laptop.server(), format!("{real}/cluster1"));
    assert!(!has_tunnel(&laptop.sealed));
    laptop.namespaces();
    if let Some(kubectl) = laptop.sealed.kubectl(&["get", "ns", "-o", "name"]) {
        assert!(kubectl.ok().contains("namespace/cluster1"));
    }
    // The person's own word goes before the config file's.
    laptop.sealed.inventory(&["use", "cluster1", "--reach", "tunnel"]).ok();
    assert!(has_tunnel(&laptop.sealed));
}

#[test]
fn a_kubeconfig_that_was_copied_works_where_its_port_is_free() {
    let laptop = Laptop::new();
    let elsewhere = Sealed::empty();
    elsewhere.write(
        ".kube/config",
        &laptop
            .sealed
            .read(".kube/config")
            .replace(&laptop.sealed.home().display().to_string(), &elsewhere.home().display().to_string()),
    );
    elsewhere.token(CONTEXT);
    let pid = elsewhere.tunnel_pid();
    elsewhere.inventory(&["tunnel", "stop"]).ok();
    until("the tunnel is gone", || !lives(pid));
    let _stranger = TcpListener::bind(("127.0.0.1", laptop.port())).unwrap();
    let error = run(&mut elsewhere.plugin(CONTEXT)).fails(5);
    assert!(error.contains(&laptop.port().to_string()), "{error}");
}

#[test]
fn tunnels_are_listed_and_stopped() {
    let laptop = Laptop::new();
    let empty = laptop.sealed.inventory(&["tunnel", "list"]);
    assert!(empty.code == 0 && empty.stdout.is_empty() && empty.stderr.contains("No tunnels"), "{empty:?}");
    assert!(laptop.sealed.tunnels().is_empty());

    laptop.namespaces();
    let table = laptop.sealed.inventory(&["tunnel", "list"]).ok();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..5], ["HUB", "SERVICE", "PORT", "PID", "SINCE"]);
    let port = laptop.port().to_string();
    assert_eq!(lines[1][..3], ["hub", "open-cluster-management-addon/cluster-proxy-addon-user:9092", &*port]);
    let listed = laptop.sealed.tunnel();
    assert!(listed["receivedBytes"].as_u64() > Some(0) && listed["sentBytes"].as_u64() > Some(0), "{listed}");
    assert_eq!(listed["ports"], serde_json::json!([laptop.port()]));

    let unknown = laptop.sealed.inventory(&["tunnel", "stop", "other"]).fails(3);
    assert!(unknown.contains("there are hub"), "{unknown}");
    assert_eq!(laptop.sealed.inventory(&["tunnel", "stop", "hub"]).ok(), "stopped 1 tunnel\n");
    assert!(laptop.sealed.tunnels().is_empty());

    let other = Fleet::builder().spokes(1).tunnelled().start();
    let mut config = laptop.sealed.config();
    for (list, key) in [("clusters", "cluster"), ("users", "user"), ("contexts", "context")] {
        let mut entry = other.kubeconfig()[list][0].clone();
        entry["name"] = "other".into();
        if key == "context" {
            entry["context"] = serde_json::json!({"cluster": "other", "user": "other"});
        }
        config[list].as_array_mut().unwrap().push(entry);
    }
    laptop.sealed.write(".kube/config", &config.to_string());
    laptop.sealed.inventory(&["use", "cluster1", "--context", "other"]).ok();
    laptop.sealed.token("cluster1@other");
    laptop.sealed.token(CONTEXT);
    assert_eq!(laptop.sealed.tunnels().len(), 2);
    let which = laptop.sealed.inventory(&["tunnel", "stop"]).fails(2);
    assert!(which.contains("hub, other") || which.contains("other, hub"), "{which}");
    assert_eq!(laptop.sealed.inventory(&["tunnel", "stop", "--all"]).ok(), "stopped 2 tunnels\n");
    assert!(laptop.sealed.tunnels().is_empty());
}
