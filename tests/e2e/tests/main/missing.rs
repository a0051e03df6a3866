//! What each kind of hub says where an API or a permission is missing: each verb names what is missing and the
//! next step. An API server asks what one may do before it looks whether it has such a thing, so a missing API
//! shows as 404 to some and as 403 to others.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::sealed::Sealed;
use fleet::{Fleet, Resource, cluster_gateway};
use serde_json::json;

const PROFILES: &str = "multicluster.x-k8s.io";
const MANAGED: &str = "cluster.open-cluster-management.io";
const CAPI: &str = "cluster.x-k8s.io";

/// A hub of one kind, with a cluster `cluster1` that can be used.
struct Kind {
    /// Its inventory for `--source`.
    source: &'static str,
    /// Its inventory on the hub.
    resource: &'static str,
    group: &'static str,
    /// Whether the person has the CA of its user-server.
    user_server: bool,
    start: fn() -> Fleet,
}

const KINDS: [Kind; 4] = [
    Kind {
        source: "clusterprofile",
        resource: "clusterprofiles",
        group: PROFILES,
        user_server: false,
        start: ocm,
    },
    Kind {
        source: "managedcluster",
        resource: "managedclusters",
        group: MANAGED,
        user_server: false,
        start: gateway,
    },
    Kind {
        source: "managedcluster",
        resource: "managedclusters",
        group: MANAGED,
        user_server: true,
        start: managed,
    },
    Kind { source: "capi", resource: "clusters", group: CAPI, user_server: false, start: capi },
];

const VERBS: [&[&str]; 3] = [&["get", "cluster1"], &["describe", "cluster1"], &["use", "cluster1"]];

fn ocm() -> Fleet {
    Fleet::builder().spokes(1).start()
}

fn gateway() -> Fleet {
    Fleet::builder().spokes(1).without(PROFILES).with(cluster_gateway()).start()
}

fn managed() -> Fleet {
    Fleet::builder().spokes(1).without(PROFILES).tunnelled().start()
}

fn capi() -> Fleet {
    let clusters = Resource::new(CAPI, "v1beta2", "clusters", "Cluster", true);
    let fleet = Fleet::builder().spokes(1).without(PROFILES).without(MANAGED).with(clusters).start();
    fleet.hub().put(
        "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/clusters/cluster1",
        json!({"kind": "Cluster", "status": {"phase": "Provisioned"}}),
    );
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": fleet.server_url("cluster1"),
            "certificate-authority-data": STANDARD.encode(fleet.spoke("cluster1").ca_pem())}}],
        "users": [{"name": "c", "user": {"token": fleet.token("cluster1", "inventory")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    fleet.hub().put(
        "/api/v1/namespaces/fleet/secrets/cluster1-kubeconfig",
        json!({"kind": "Secret", "data": {"value": STANDARD.encode(kubeconfig.to_string())}}),
    );
    fleet
}

fn home(fleet: &Fleet, kind: &Kind) -> Sealed {
    let sealed = Sealed::at(fleet);
    if kind.user_server {
        sealed.write("user-server.crt", &fleet.tunnel().user_server().ca_pem());
        sealed.write("config.yaml", "clusterProxy: {certificateAuthority: user-server.crt}\n");
    }
    sealed
}

#[test]
fn every_verb_works_on_every_kind_of_hub_and_misses_a_cluster_that_is_not_there() {
    for kind in KINDS {
        let fleet = (kind.start)();
        let sealed = home(&fleet, &kind);
        for verb in VERBS {
            let said = sealed.inventory(verb).ok();
            assert!(said.contains("cluster1"), "{} {verb:?}: {said}", kind.source);
            let said = sealed.inventory(&[verb[0], "nowhere"]).fails(3);
            assert!(said.contains("nowhere") && said.contains("try: "), "{} {verb:?}: {said}", kind.source);
        }
    }
}

#[test]
fn every_verb_names_the_permission_that_the_inventory_needs() {
    for kind in KINDS {
        let fleet = (kind.start)();
        fleet.hub().forbid(move |request| request.key.resource == kind.resource);
        let sealed = home(&fleet, &kind);
        let before = sealed.read(".kube/config");
        for verb in VERBS {
            let said = sealed.inventory(verb).fails(4);
            let needed = format!("{}.{}", kind.resource, kind.group);
            assert!(said.contains(&needed) && said.contains("try: ask for the verbs"), "{verb:?}: {said}");
        }
        assert_eq!(sealed.read(".kube/config"), before);
    }
}

#[test]
fn an_inventory_that_is_not_served_is_told_from_one_that_is_forbidden() {
    for hidden in [false, true] {
        let hide = |fleet: &Fleet, group: &'static str| {
            if hidden {
                fleet
                    .hub()
                    .forbid(move |request| !request.key.resource.is_empty() && request.key.group == group);
            }
        };
        // The kind that the hub has is found past the one that it does not have.
        for kind in KINDS {
            let fleet = (kind.start)();
            for missing in [PROFILES, MANAGED, CAPI].into_iter().filter(|group| *group != kind.group) {
                if kind.group != PROFILES || missing == CAPI {
                    hide(&fleet, missing);
                }
            }
            let sealed = home(&fleet, &kind);
            for verb in VERBS {
                sealed.inventory(verb).ok();
            }
            for other in KINDS.iter().filter(|other| other.group != kind.group) {
                if kind.group == PROFILES && other.group == MANAGED {
                    continue; // An OCM hub has both.
                }
                for verb in VERBS {
                    let mut args = verb.to_vec();
                    args.extend(["--source", other.source]);
                    let said = sealed.inventory(&args).fails(3);
                    assert!(said.contains("serves no") && said.contains("try: "), "{args:?}: {said}");
                }
            }
        }
        // None at all: one message for all of them.
        let fleet = Fleet::builder().without(PROFILES).without(MANAGED).start();
        for group in [PROFILES, MANAGED, CAPI] {
            hide(&fleet, group);
        }
        for verb in VERBS {
            let said = Sealed::at(&fleet).inventory(verb).fails(3);
            assert!(said.contains("ClusterProfiles, ManagedClusters or Cluster API clusters"), "{said}");
            assert!(said.contains("install") && said.contains("docs/hub-setup.md"), "{said}");
        }
    }
}

#[test]
fn what_stands_behind_a_way_in_is_named_where_it_is_missing() {
    let accounts = "authentication.open-cluster-management.io";
    // No add-on for accounts, seen by somebody with and without rights on it; no right on Secrets.
    for (without, forbid, code, named) in [
        (Some(accounts), None, 3, "install the managed-serviceaccount add-on"),
        (Some(accounts), Some("managedserviceaccounts"), 3, "install the managed-serviceaccount add-on"),
        (None, Some("secrets"), 4, "secrets"),
    ] {
        let mut builder = Fleet::builder().spokes(1).tunnelled();
        if let Some(group) = without {
            builder = builder.without(group);
        }
        let fleet = builder.start();
        if without.is_some() {
            fleet.hub().delete("/api/v1/namespaces/cluster-inventory/secrets/cluster1-inventory");
        }
        if let Some(resource) = forbid {
            fleet.hub().forbid(move |request| request.key.resource == resource);
        }
        let sealed = Sealed::at(&fleet);
        let ran = sealed.inventory(&["use", "cluster1"]);
        // What may not be looked at is found out by the one who reads it.
        if ran.code == 0 {
            let said = e2e::sealed::run(&mut sealed.plugin("cluster1@hub")).fails(code);
            assert!(said.contains(named), "{said}");
            continue;
        }
        let said = ran.fails(code);
        assert!(said.contains(named) && said.contains("try: "), "{said}");
        let text = sealed.inventory(&["describe", "cluster1"]).ok();
        assert!(text.contains("Usable:") && text.contains("no: ") && text.contains(named), "{text}");
    }

    let fleet = capi();
    fleet.hub().forbid(|request| request.key.resource == "secrets");
    let sealed = Sealed::at(&fleet);
    let said = sealed.inventory(&["use", "cluster1"]).fails(4);
    assert!(said.contains("secrets") && said.contains("try: "), "{said}");
    let text = sealed.inventory(&["describe", "cluster1"]).ok();
    assert!(text.contains("no: ") && text.contains("secrets"), "{text}");

    let fleet = gateway();
    fleet.hub().forbid(|request| request.key.resource == "clustergateways");
    let sealed = Sealed::at(&fleet);
    for verb in [&["use", "cluster1"][..], &["describe", "cluster1"]] {
        let ran = sealed.inventory(verb);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("refuses you clustergateways/proxy of cluster1"), "{said}");
    }
    assert!(sealed.inventory(&["describe", "cluster1"]).ok().contains("INTERNAL_ERROR"));
}
