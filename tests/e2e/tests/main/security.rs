//! What somebody who can write ClusterProfiles gains: nothing. And no secret is ever shown.

use std::fs;

use e2e::sealed::{Sealed, run, token};
use fleet::{AccountSpec, ClusterSpec, Fault, Fleet, profile_path};
use serde_json::{Value, json};

/// A profile in a tenant's namespace that says it is `cluster1`, at another server.
fn forge(fleet: &Fleet, change: impl FnOnce(&mut Value)) {
    let mut forged = fleet.hub().get(&*profile_path("cluster-inventory", "cluster1")).unwrap();
    forged["metadata"]["uid"] = json!("f0f0f0f0-0000-0000-0000-000000000000");
    forged["metadata"]["namespace"] = json!("tenant");
    let cluster = &mut forged["status"]["accessProviders"][0]["cluster"];
    cluster["server"] = json!(format!("{}/cluster1", fleet.spoke("evil").url()));
    let evil = fleet.hub().get(&*profile_path("elsewhere", "evil")).unwrap();
    cluster["certificate-authority-data"] =
        evil["status"]["accessProviders"][0]["cluster"]["certificate-authority-data"].clone();
    change(&mut forged);
    let name = forged["metadata"]["name"].as_str().unwrap().to_owned();
    fleet.hub().put(&*profile_path("tenant", &name), forged);
}

fn with_evil(synced: bool) -> Fleet {
    let mut evil = ClusterSpec::named("evil");
    evil.namespaces = vec!["elsewhere".into()];
    evil.accounts.clear();
    let account = AccountSpec { synced, ..AccountSpec::default() };
    Fleet::builder().spokes(1).account("cluster1", "inventory", account).cluster(evil).start()
}

#[test]
fn a_forged_profile_never_receives_the_real_clusters_token() {
    for synced in [true, false] {
        let fleet = with_evil(synced);
        let real = fleet.token("cluster1", "inventory");
        forge(&fleet, |_| {});
        for path in ["/cluster2", "/x/cluster1", ""] {
            forge(&fleet, |profile| {
                profile["metadata"]["name"] = json!(format!("forged{}", path.replace('/', "-")));
                let host = "https://cluster-proxy-addon-user.open-cluster-management-addon:9092";
                profile["status"]["accessProviders"][0]["cluster"]["server"] = json!(format!("{host}{path}"));
            });
        }
        let sealed = Sealed::at(&fleet);
        let verbs: [&[&str]; 8] = [
            &["get", "-A"],
            &["get", "tenant/cluster1", "-o", "yaml"],
            &["use", "tenant/cluster1"],
            &["use", "cluster1", "-n", "tenant"],
            &["use", "tenant/cluster1", "--sa", "inventory"],
            &["use", "tenant/cluster1", "--sa", "inventory", "--no-cache", "--force", "--allow-insecure"],
            &["use", "tenant/forged-cluster2", "--sa", "inventory", "--trust-server"],
            &["use", "tenant/cluster1", "--sa", "inventory", "-o", "-"],
        ];
        for verb in verbs {
            let ran = sealed.inventory(verb);
            if verb[0] == "use" {
                assert!(ran.code != 0 && ran.stdout.is_empty(), "{verb:?}: {ran:?}");
            }
        }
        // Whatever contexts there are now: none sends the token to the forger.
        for context in sealed.config()["contexts"].as_array().unwrap() {
            let name = context["name"].as_str().unwrap();
            if name != "hub" {
                assert_eq!(sealed.entry("clusters", name)["cluster"]["server"], fleet.server_url("cluster1"));
            }
        }
        assert_eq!(fleet.spoke("evil").requests_with(&real), 0);

        // The bare name means the one that can be used.
        let ran = sealed.inventory(&["use", "cluster1", "--sa", "inventory"]);
        if ran.code == 0 {
            let name = sealed.config()["current-context"].as_str().unwrap().to_owned();
            assert_eq!(sealed.entry("clusters", &name)["cluster"]["server"], fleet.server_url("cluster1"));
        } else {
            assert!(!synced, "{ran:?}");
        }
    }
}

#[test]
fn a_copy_of_another_profile_or_of_another_account_is_refused() {
    // `a-b` + `c` and `a` + `b-c` share one name.
    let fleet = Fleet::builder()
        .cluster(ClusterSpec::named("a"))
        .cluster(ClusterSpec::named("a-b"))
        .account("a-b", "c", AccountSpec::default())
        .start();
    let sealed = Sealed::at(&fleet);
    let said = sealed.inventory(&["use", "a", "--sa", "b-c"]).fails(3);
    assert!(said.contains("b-c"), "{said}");

    let fleet = Fleet::builder()
        .spokes(1)
        .account(
            "cluster1",
            "inventory",
            AccountSpec {
                subject: Some("system:serviceaccount:kube-system:root".into()),
                ..AccountSpec::default()
            },
        )
        .start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    let said = run(&mut sealed.plugin("cluster1@hub")).fails(4);
    assert!(said.contains("root"), "{said}");

    // The owner changes after `use`: the request pins its UID.
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    fleet.hub().edit("/api/v1/namespaces/cluster-inventory/secrets/cluster1-inventory", |secret| {
        secret["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    });
    run(&mut sealed.plugin("cluster1@hub")).fails(4);
}

#[test]
fn a_server_that_is_not_ocms_gets_the_accounts_own_token_only_when_trusted() {
    let account = AccountSpec { synced: false, ..AccountSpec::default() };
    let fleet = Fleet::builder()
        .spokes(2)
        .account("cluster1", "inventory", account.clone())
        .account("cluster2", "inventory", account)
        .start();
    let sealed = Sealed::at(&fleet);
    let said = sealed.inventory(&["use", "cluster1"]).fails(4);
    assert!(said.contains("--trust-server") && said.contains(&fleet.server_url("cluster1")), "{said}");
    sealed.inventory(&["use", "cluster1", "--trust-server"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), fleet.token("cluster1", "inventory"));
    sealed.inventory(&["use", "cluster1"]).ok(); // remembered
    sealed.inventory(&["use", "cluster2"]).fails(4);
    // Another CA at the same address is another server.
    let other = fleet.hub().get(&*profile_path("cluster-inventory", "cluster2")).unwrap();
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        profile["status"]["accessProviders"][0]["cluster"]["certificate-authority-data"] =
            other["status"]["accessProviders"][0]["cluster"]["certificate-authority-data"].clone();
    });
    sealed.inventory(&["use", "cluster1"]).fails(4);

    sealed.write("config.yaml", "trustedHosts: [127.0.0.1]\n");
    sealed.inventory(&["use", "cluster2"]).ok();
    assert_eq!(sealed.token("cluster2@hub"), fleet.token("cluster2", "inventory"));
}

/// Whoever answers in the place of a trusted address is not trusted: a proxy of the profile's own
/// choosing, or a certificate for another name.
#[test]
fn a_trusted_address_with_a_detour_is_asked_about() {
    let account = AccountSpec { synced: false, ..AccountSpec::default() };
    let fleet = Fleet::builder().spokes(1).account("cluster1", "inventory", account).start();
    let sealed = Sealed::at(&fleet);
    let user_server = "https://cluster-proxy-addon-user.open-cluster-management-addon:9092/cluster1";
    let publish = |field: &str, value: Value| {
        fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
            let cluster = &mut profile["status"]["accessProviders"][0]["cluster"];
            cluster["server"] = json!(user_server);
            cluster[field] = value;
        });
    };
    publish("server", json!(user_server));
    sealed.inventory(&["use", "cluster1", "-o", "-"]).ok();
    for (field, value) in [
        ("proxy-url", json!("http://127.0.0.1:3128")),
        ("tls-server-name", json!("evil.example")),
        ("insecure-skip-tls-verify", json!(true)),
    ] {
        publish(field, value);
        let said = sealed.inventory(&["use", "cluster1", "-o", "-", "--allow-insecure"]).fails(4);
        assert!(said.contains("--trust-server"), "{field}: {said}");
        publish(field, Value::Null);
    }

    // A copy that is bound to the profile is no reason to send it to another cluster's agent.
    let fleet = Fleet::builder().spokes(1).start();
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        profile["status"]["accessProviders"][0]["cluster"]["server"] =
            json!(user_server.replace("cluster1", "other"));
    });
    let said = Sealed::at(&fleet).inventory(&["use", "cluster1"]).fails(4);
    assert!(said.contains("other"), "{said}");
}

#[test]
fn a_hub_that_is_not_the_one_pinned_is_refused_and_both_are_named() {
    let (fleet, other) = (Fleet::builder().spokes(1).start(), Fleet::builder().spokes(1).start());
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    let mut moved = sealed.config();
    moved["clusters"][0]["cluster"]["server"] = json!(other.hub().url());
    sealed.write(".kube/config", &moved.to_string());
    let said = run(&mut sealed.plugin("cluster1@hub")).stderr;
    assert!(said.contains(&fleet.hub().url()) && said.contains(&other.hub().url()), "{said}");
    assert!(other.hub().log().is_empty() && fleet.hub().log().iter().all(|l| l.user == "viewer"));

    // The pinned file gone: the same hub is found by its fingerprint.
    sealed.write(
        "other/config",
        &fleet
            .kubeconfig()
            .to_string()
            .replace(r#""name":"hub""#, r#""name":"renamed""#)
            .replace(r#""cluster":"hub""#, r#""cluster":"renamed""#),
    );
    let mut line = sealed.plugin_line("cluster1@hub");
    fs::remove_file(sealed.kubeconfig()).unwrap();
    let mut command = sealed.command(line.remove(0));
    let ran = run(command.args(&line).env("KUBECONFIG", sealed.path("other/config")));
    assert_eq!(token(&ran.ok()), fleet.token("cluster1", "inventory"));
}

#[test]
fn a_hostile_profile_changes_nothing_and_reaches_no_terminal() {
    let fleet = Fleet::builder().spokes(1).start();
    let escape = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\n\u{202e}";
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        profile["spec"]["displayName"] = json!(escape);
        profile["spec"]["clusterManager"]["name"] = json!(escape);
        profile["status"]["version"]["kubernetes"] = json!(escape);
        profile["status"]["properties"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "clusterset.k8s.io", "value": "x".repeat(1 << 20)}));
        let cluster = &mut profile["status"]["accessProviders"][0]["cluster"];
        cluster["extensions"] = json!([
            {"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": "cluster1", "command": "/bin/evil"}},
            {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": ["--evil", "-x"]},
            {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs",
             "extension": {"LD_PRELOAD": "/evil.so", "PATH": "/evil", "KUBECONFIG": "/evil"}},
        ]);
    });
    let sealed = Sealed::at(&fleet);
    for args in [&["get"][..], &["get", "-o", "wide"], &["get", "-o", "name"], &["use", "cluster1"]] {
        let ran = sealed.inventory(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        for text in [&ran.stdout, &ran.stderr] {
            let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(bad), "{args:?}: {:.300}", text.escape_debug().to_string());
            assert!(text.lines().all(|line| line.len() < 2000), "{args:?}");
        }
    }
    let written = sealed.read(".kube/config");
    for word in ["evil", "LD_PRELOAD", "clusterName"] {
        assert!(!written.contains(word), "{word} in {written}");
    }
    assert_eq!(token(&run(&mut sealed.plugin("cluster1@hub")).ok()), fleet.token("cluster1", "inventory"));
}

#[test]
fn names_that_could_be_paths_or_flags_are_refused() {
    let fleet = Fleet::builder().spokes(1).start();
    let real = fleet.hub().get(&*profile_path("cluster-inventory", "cluster1")).unwrap();
    let sealed = Sealed::at(&fleet);
    let before = sealed.read(".kube/config");
    for label in ["../kube-system", "-x", "a b", "x\u{1b}[0m", "%2e%2e", "a\nb"] {
        let mut profile = real.clone();
        profile["metadata"]["labels"]["open-cluster-management.io/cluster-name"] = json!(label);
        fleet.hub().put(&*profile_path("cluster-inventory", "cluster1"), profile);
        fleet.hub().clear_log();
        let ran = sealed.inventory(&["use", "cluster1", "--sa", "inventory"]);
        assert_ne!(ran.code, 0, "{label:?}: {ran:?}");
        let asked = |l: &fleet::Logged| l.path.contains("kube-system") || l.path.contains("..");
        assert!(!fleet.hub().log().iter().any(asked), "{label:?}: {:?}", fleet.hub().log());
    }
    assert_eq!(sealed.read(".kube/config"), before);
}

#[test]
fn no_output_of_any_command_holds_a_secret() {
    let fleet = Fleet::builder().spokes(2).account("cluster1", "second", AccountSpec::default()).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster2"]).ok();
    let mut said = String::new();
    let mut collect = |ran: e2e::sealed::Ran| said.push_str(&format!("{}{}", ran.stdout, ran.stderr));
    for fault in [
        None,
        Some(Fault::Unauthorized),
        Some(Fault::Forbidden),
        Some(Fault::NotJson),
        Some(Fault::Truncated),
        Some(Fault::Close),
        Some(Fault::Status(500, String::new())),
    ] {
        fleet.hub().clear_faults();
        if let Some(fault) = fault {
            fleet.hub().fault(|_| true, fault);
        }
        for args in [
            &["get", "-o", "yaml"][..],
            &["get", "-o", "wide"],
            &["use", "cluster1"],
            &["use", "cluster1", "--sa", "second", "-o", "-"],
            &["use", "cluster2"],
            &["use", "nobody"],
            &["version"],
            &["cache", "clear"],
        ] {
            let mut command = sealed.inventory_command(args);
            collect(run(command.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full")));
        }
        let mut plugin = sealed.plugin("cluster2@hub");
        let ran = run(plugin.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full"));
        if ran.code != 0 {
            collect(ran);
        } else {
            collect(e2e::sealed::Ran { stdout: String::new(), ..ran });
        }
    }
    // What could be seen in a process list.
    said.push_str(&sealed.plugin_line("cluster2@hub").join(" "));
    for secret in fleet.secrets().iter().filter(|secret| secret.len() > 8) {
        assert!(!said.contains(secret.as_str()), "a secret was shown");
    }
}
