//! Broken setups: `doctor` names the first broken link, and its remedy, applied, mends it.

use e2e::sealed::{Sealed, run};
use fleet::{Fault, Fleet, profile_path};
use serde_json::{Value, json};

fn report(sealed: &Sealed, args: &[&str]) -> (Value, i32) {
    let ran = sealed.inventory(&[&["doctor", "-o", "json"], args].concat());
    let report = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (report, ran.code)
}

/// The first broken link with its cause and remedy, and the exit code.
#[track_caller]
fn broken(sealed: &Sealed, args: &[&str], link: &str, code: i32) -> (String, String) {
    let (report, ended) = report(sealed, args);
    assert_eq!(report["firstBroken"], link, "{report:#}");
    assert_eq!(ended, code, "{report:#}");
    let items = report["items"].as_array().unwrap();
    let first = items.iter().find(|item| item["verdict"] == "broken").unwrap();
    let text = |field: &str| first[field].as_str().unwrap_or_default().to_owned();
    (text("cause"), text("remedy"))
}

#[track_caller]
fn holds(sealed: &Sealed, args: &[&str]) {
    let (report, code) = report(sealed, args);
    assert!(code == 0 && report["firstBroken"].is_null(), "{report:#}");
}

#[test]
fn all_links_of_a_good_setup_hold_and_are_named() {
    for fleet in [Fleet::builder().spokes(1).start(), Fleet::builder().spokes(1).tunnelled().start()] {
        let sealed = Sealed::at(&fleet);
        holds(&sealed, &[]);
        sealed.inventory(&["use", "cluster1"]).ok();
        let before = sealed.read(".kube/config");
        let ran = sealed.inventory(&["doctor", "cluster1"]);
        let text = ran.ok();
        for link in [
            "kubeconfig",
            "credential-exec",
            "hub API",
            "hub identity",
            "way in",
            "cluster API",
            "Everything holds.",
        ] {
            assert!(text.contains(link), "{link}: {text}");
        }
        assert!(text.contains("good for") && text.contains("contexts"), "{text}");
        assert_eq!(sealed.read(".kube/config"), before, "it changes nothing");
        for secret in fleet.secrets().iter().filter(|secret| secret.len() > 8) {
            assert!(!text.contains(secret.as_str()), "{text}");
        }
    }
}

#[test]
fn what_is_wrong_on_this_machine_is_found_before_any_hub_is_asked() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let config = sealed.read(".kube/config");

    std::fs::remove_file(sealed.kubeconfig()).unwrap();
    let (cause, _) = broken(&sealed, &["cluster1"], "kubeconfig", 3);
    assert!(cause.contains(".kube/config"), "{cause}");
    sealed.write(".kube/config", &config);
    holds(&sealed, &["cluster1"]);

    sealed.write("config.yaml", "hubb: x\n");
    let (cause, remedy) = broken(&sealed, &[], "config file", 2);
    assert!(cause.contains("config.yaml") && remedy.contains("hub,"), "{cause}; {remedy}");
    sealed.write("config.yaml", "hub: nowhere\n");
    let (cause, _) = broken(&sealed, &[], "hub context", 3);
    assert!(cause.contains("nowhere"), "{cause}");
    sealed.write("config.yaml", "hub: hub\n");
    holds(&sealed, &[]);

    // kubectl's own rule on plugins; what is to be added is said.
    sealed.write(
        ".kube/kuberc",
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
    );
    let (_, remedy) = broken(&sealed, &["cluster1"], "plugin policy", 4);
    let path = e2e::binaries::binaries().join("credential-exec").display().to_string();
    assert!(remedy.contains("credentialPluginPolicy: Allowlist") && remedy.contains(&path), "{remedy}");
    let ran = sealed.inventory(&["use", "cluster1"]);
    let stanza: String = ran
        .stderr
        .lines()
        .skip_while(|line| !line.starts_with("credentialPlugin"))
        .map(|line| format!("{line}\n"))
        .collect();
    sealed.write(
        ".kube/kuberc",
        &format!("apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n{stanza}"),
    );
    holds(&sealed, &["cluster1"]);
    assert_eq!(sealed.inventory(&["use", "cluster1"]).stderr, "");
    if let Some(kubectl) = sealed.kubectl(&["get", "ns", "-o", "name"]) {
        assert!(kubectl.ok().contains("namespace/cluster1"));
    }
}

#[test]
fn the_hubs_own_login_command_obeys_the_same_policy() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let login = sealed.write("login", &format!(
        "#!/bin/sh\necho '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"{}\"}}}}'\n",
        fleet.viewer_token()
    ));
    std::fs::set_permissions(&login, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut config = sealed.config();
    config["users"][0]["user"] = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
        "command": login, "interactiveMode": "Never"}});
    sealed.write(".kube/config", &config.to_string());
    sealed.inventory(&["get"]).ok();
    sealed.write(
        ".kube/kuberc",
        "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- name: other\n",
    );
    let said = sealed.inventory(&["get"]).fails(4);
    assert!(
        said.contains("login") && said.contains("kuberc") && said.contains("credentialPluginAllowlist"),
        "{said}"
    );
    sealed.write(
        ".kube/kuberc",
        &format!(
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- name: {}\n",
            login.display()
        ),
    );
    sealed.inventory(&["get"]).ok();
}

#[test]
fn a_hub_that_is_away_a_stranger_or_not_ours_is_told_apart() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let good = sealed.config();
    let edited = |change: &dyn Fn(&mut Value)| {
        let mut config = good.clone();
        change(&mut config);
        sealed.write(".kube/config", &config.to_string());
    };
    edited(&|config| config["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1"));
    broken(&sealed, &["cluster1"], "hub API", 5);
    edited(&|config| {
        use base64::Engine as _;
        let other = fleet.spoke("cluster1").ca_pem();
        let other = base64::engine::general_purpose::STANDARD.encode(other);
        config["clusters"][0]["cluster"]["certificate-authority-data"] = json!(other);
    });
    let (report, _) = report(&sealed, &["cluster1"]);
    assert_eq!(report["firstBroken"], "hub API", "{report:#}");
    edited(&|config| config["users"][0]["user"] = json!({"token": "of-yesterday"}));
    let (_, remedy) = broken(&sealed, &["cluster1"], "hub identity", 4);
    assert!(remedy.contains("log in to the hub"), "{remedy}");
    edited(&|config| config["users"][0]["user"] = json!({"token": fleet.viewer_token()}));
    holds(&sealed, &["cluster1"]);

    // Not the hub: the remedy is to name the one that is.
    let other = Fleet::builder()
        .without("multicluster.x-k8s.io")
        .without("cluster.open-cluster-management.io")
        .start();
    let sealed = Sealed::at(&other);
    let mut config = sealed.config();
    for (list, of) in [("clusters", "cluster"), ("users", "user"), ("contexts", "context")] {
        let mut named = good[list][0].clone();
        named["name"] = json!("real-hub");
        if of == "context" {
            named[of] = json!({"cluster": "real-hub", "user": "real-hub"});
        }
        config[list].as_array_mut().unwrap().push(named);
    }
    sealed.write(".kube/config", &config.to_string());
    let (_, remedy) = broken(&sealed, &["cluster1"], "inventory", 3);
    assert!(remedy.contains("install") && remedy.contains("--context"), "{remedy}");
    holds(&sealed, &["cluster1", "--context", "real-hub"]);
}

#[test]
fn what_is_missing_on_the_hub_is_named_by_what_must_be_asked_for() {
    let fleet = Fleet::builder().spokes(1).tunnelled().start();
    let sealed = Sealed::at(&fleet);
    fleet.hub().forbid(|request| request.key.resource == "clusterprofiles");
    let (cause, remedy) = broken(&sealed, &["cluster1"], "hub permission", 4);
    assert!(
        cause.contains("get clusterprofiles.multicluster.x-k8s.io") && remedy.contains("step 6"),
        "{cause}"
    );
    fleet.hub().allow_all();
    holds(&sealed, &["cluster1"]);

    let (cause, _) = broken(&sealed, &["cluster7"], "cluster", 3);
    assert!(cause.contains("cluster7"), "{cause}");

    fleet.hub().forbid(|request| request.key.resource == "secrets");
    let (cause, _) = broken(&sealed, &["cluster1"], "hub permission", 4);
    assert!(cause.contains("get secrets"), "{cause}");
    fleet.hub().allow_all();

    fleet.hub().forbid(|request| request.subresource == "portforward");
    let (cause, _) = broken(&sealed, &["cluster1"], "hub permission", 4);
    assert!(cause.contains("create pods/portforward"), "{cause}");
    fleet.hub().allow_all();
    // A failure is remembered for two seconds.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    holds(&sealed, &["cluster1"]);
}

#[test]
fn a_cluster_without_a_way_in_a_dead_one_and_one_that_refuses_are_told_apart() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let profile = profile_path("cluster-inventory", "cluster1");
    let good = fleet.hub().get(&*profile).unwrap();
    fleet.hub().edit(&*profile, |profile| profile["status"]["accessProviders"] = json!([]));
    let (_, remedy) = broken(&sealed, &["cluster1"], "way in", 3);
    assert!(remedy.contains("cluster-proxy"), "{remedy}");
    fleet.hub().put(&*profile, good);
    holds(&sealed, &["cluster1"]);

    // The account was made anew: what is kept is refused, and the remedy clears it.
    let old = fleet.token("cluster1", "inventory");
    sealed.inventory(&["use", "cluster1"]).ok();
    sealed.token("cluster1@hub");
    fleet.rotate("cluster1", "inventory");
    fleet.spoke("cluster1").revoke(&old);
    let (_, remedy) = broken(&sealed, &["cluster1"], "cluster identity", 4);
    assert!(remedy.contains("kubectl inventory cache clear"), "{remedy}");
    sealed.inventory(&["cache", "clear"]).ok();
    holds(&sealed, &["cluster1"]);

    fleet.spoke("cluster1").fault(|_| true, Fault::Close);
    let (report, code) = report(&sealed, &["cluster1", "--request-timeout", "3s"]);
    assert_eq!((&report["firstBroken"], code), (&json!("cluster API"), 5), "{report:#}");
}

#[test]
fn a_plugin_of_the_provider_file_is_run_as_kubectl_would() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        profile["status"]["accessProviders"][0]["name"] = json!("ours");
    });
    let file = json!({"providers": [{"name": "ours", "execConfig": {"command": "no-such-plugin", "installHint": "install it from x"}}]});
    let path = sealed.write("providers.json", &file.to_string()).display().to_string();
    let (_, remedy) =
        broken(&sealed, &["cluster1", "--clusterprofile-provider-file", &path], "credential", 3);
    assert_eq!(remedy, "install it from x");
    let (_, remedy) = broken(&sealed, &["cluster1"], "way in", 3);
    assert!(remedy.contains("provider file"), "{remedy}");
    let ran = run(&mut sealed.inventory_command(&["doctor", "cluster1"]));
    assert!(ran.stdout.ends_with("The first broken link is: way in\n"), "{ran:?}");
}
