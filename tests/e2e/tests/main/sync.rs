//! A context for every cluster of the fleet: what is added, what goes, and what is never touched.

use e2e::sealed::{Sealed, run};
use fleet::{Fleet, profile_path};
use serde_json::{Value, json};

fn contexts(sealed: &Sealed) -> Vec<String> {
    let config = sealed.config();
    let names = config["contexts"].as_array().unwrap().iter();
    names.map(|context| context["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_cluster_that_is_meant_gets_a_context_and_a_second_run_writes_nothing() {
    let fleet = Fleet::builder().spokes(3).edit("cluster2", |cluster| cluster.healthy = Some(false)).start();
    let sealed = Sealed::at(&fleet);
    let said = sealed.inventory(&["sync", "--healthy"]).ok();
    assert!(said.ends_with("2 added, 0 updated, 0 removed, 0 unchanged\n"), "{said}");
    assert_eq!(contexts(&sealed), ["hub", "cluster1@hub", "cluster3@hub"]);
    assert_eq!(sealed.config()["current-context"], "hub", "sync switches to none");
    assert_eq!(sealed.token("cluster3@hub"), fleet.token("cluster3", "inventory"));

    let written = || std::fs::metadata(sealed.kubeconfig()).unwrap().modified().unwrap();
    let (before, text) = (written(), sealed.read(".kube/config"));
    let said = sealed.inventory(&["sync", "--healthy", "--prune"]).ok();
    assert!(said.ends_with("0 added, 0 updated, 0 removed, 2 unchanged\n"), "{said}");
    assert_eq!((written(), sealed.read(".kube/config")), (before, text));
    // What `use` writes is the same.
    sealed.inventory(&["use", "cluster1", "--no-switch"]).ok();
    assert_eq!(written(), before);
    let said = sealed.inventory(&["sync"]).ok();
    assert!(said.ends_with("1 added, 0 updated, 0 removed, 2 unchanged\n"), "{said}");
}

#[test]
fn pruning_takes_our_contexts_of_clusters_that_are_gone_and_no_others() {
    let fleet = Fleet::builder().spokes(3).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["sync"]).ok();
    let mut config = sealed.config();
    // Another hub's, a foreign one of the same name pattern, and one that a person made of ours.
    let mut other = config["contexts"][1].clone();
    other["name"] = json!("cluster9@elsewhere");
    other["context"]["extensions"][0]["extension"]["hub"] = json!("another");
    config["contexts"].as_array_mut().unwrap().push(other);
    config["contexts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "cluster2", "context": {"cluster": "hub", "user": "x"}}));
    config["contexts"].as_array_mut().unwrap()[1]["context"]["namespace"] = json!("mine");
    sealed.write(".kube/config", &config.to_string());
    sealed.inventory(&["use", "cluster2"]).ok();
    fleet.hub().delete(&*profile_path("cluster-inventory", "cluster2"));

    let said = sealed.inventory(&["sync"]).ok();
    assert!(said.contains("0 removed"), "only --prune removes: {said}");
    // A selection says what is added, not what is gone.
    let said = sealed.inventory(&["sync", "cluster1", "--prune"]).ok();
    assert!(said.contains("1 removed"), "{said}");
    assert!(said.contains("context cluster2@hub → none"), "{said}");
    assert_eq!(contexts(&sealed), ["hub", "cluster1@hub", "cluster3@hub", "cluster9@elsewhere", "cluster2"]);
    assert_eq!(sealed.entry("contexts", "cluster1@hub")["context"]["namespace"], "mine");
    let current = sealed.config()["current-context"].as_str().unwrap_or_default().to_owned();
    assert_eq!(current, "");
    for list in ["clusters", "users"] {
        assert!(!sealed.config()[list].to_string().contains("cluster2@hub"));
    }
}

#[test]
fn an_incomplete_list_is_not_an_empty_fleet() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["sync"]).ok();
    let before = sealed.read(".kube/config");
    // All is forbidden; then only lists across namespaces, with an empty `default`.
    fleet.hub().forbid(|request| request.key.resource == "clusterprofiles");
    sealed.inventory(&["sync", "--prune"]).fails(4);
    fleet.hub().allow_all();
    fleet
        .hub()
        .forbid(|request| request.key.resource == "clusterprofiles" && request.key.namespace.is_empty());
    let mut profile = fleet.hub().get(&*profile_path("cluster-inventory", "cluster1")).unwrap();
    let said = sealed.inventory(&["sync", "--prune"]).fails(3);
    assert!(said.contains("default"), "{said}");
    profile["metadata"] = json!({"name": "local", "namespace": "default"});
    fleet.hub().put(&*profile_path("default", "local"), profile);
    let ran = sealed.inventory(&["sync", "--prune"]);
    assert!(ran.stdout.contains("0 removed"), "{ran:?}");
    fleet.hub().allow_all();
    // Another namespace than that of the contexts.
    let ran = sealed.inventory(&["sync", "--prune", "-n", "default"]);
    assert!(ran.stdout.contains("0 removed"), "{ran:?}");
    assert!(
        sealed
            .read(".kube/config")
            .starts_with(before.split("contexts:").next().unwrap().lines().next().unwrap())
    );
    for name in ["cluster1@hub", "cluster2@hub"] {
        sealed.entry("contexts", name);
    }
}

#[test]
fn a_changed_server_is_taken_only_when_that_is_said() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["sync"]).ok();
    let before = sealed.read(".kube/config");
    let moved = format!("{}/", fleet.server_url("cluster1"));
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        profile["status"]["accessProviders"][0]["cluster"]["server"] = json!(moved);
    });
    let ran = sealed.inventory(&["sync"]);
    assert!(
        ran.stderr.contains("cluster1@hub (server") && ran.stderr.contains("--accept-changed"),
        "{ran:?}"
    );
    ran.ok();
    assert_eq!(sealed.read(".kube/config"), before);
    let said = sealed.inventory(&["sync", "--accept-changed"]).ok();
    assert!(said.contains("1 updated"), "{said}");
    assert_eq!(sealed.entry("clusters", "cluster1@hub")["cluster"]["server"], moved);
}

#[test]
fn clusters_without_a_way_in_are_named_after_the_others_were_written() {
    let fleet = Fleet::builder().spokes(3).start();
    let sealed = Sealed::at(&fleet);
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster2"), |profile| {
        profile["status"]["accessProviders"] = json!([]);
    });
    let ran = sealed.inventory(&["sync"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("2 added"), "{ran:?}");
    assert!(
        ran.stderr.contains("1 clusters were left out: cluster2 (cluster2 publishes no access"),
        "{ran:?}"
    );
}

#[test]
fn very_many_contexts_want_a_word() {
    let fleet = Fleet::builder().spokes(501).start();
    let sealed = Sealed::at(&fleet);
    let before = sealed.read(".kube/config");
    let said = sealed.inventory(&["sync"]).fails(2);
    assert!(said.contains("501 contexts") && said.contains("foreach") && said.contains("--yes"), "{said}");
    assert_eq!(sealed.read(".kube/config"), before);
    sealed.inventory(&["sync", "--yes"]).ok();
    assert_eq!(contexts(&sealed).len(), 502);
    // Few requests, however many clusters.
    assert!(fleet.hub().log().len() < 40, "{}", fleet.hub().log().len());
}

#[test]
fn syncs_and_uses_at_once_lose_nothing() {
    let fleet = Fleet::builder().spokes(8).start();
    let sealed = Sealed::at(&fleet);
    std::thread::scope(|scope| {
        for number in 1..=8 {
            let sealed = &sealed;
            scope.spawn(move || {
                let name = format!("cluster{number}");
                let args: &[&str] = match number % 2 {
                    0 => &["sync", name.as_str()],
                    _ => &["use", name.as_str(), "--no-switch"],
                };
                for _ in 0..3 {
                    sealed.inventory(args).ok();
                }
            });
        }
    });
    assert_eq!(contexts(&sealed).len(), 9);
}

#[test]
fn other_inventories_are_synced_and_pruned_by_themselves() {
    let fleet = Fleet::builder().spokes(2).with(fleet::cluster_gateway()).start();
    let sealed = Sealed::at(&fleet);
    let sync =
        |flags: &[&str]| sealed.inventory(&[&["sync", "--context", "hub", "--prune"], flags].concat()).ok();
    sync(&[]);
    let said = sync(&["--source", "managedcluster"]);
    assert!(said.contains("2 added") && said.contains("0 removed"), "{said}");
    assert_eq!(contexts(&sealed).len(), 5);
    let said = sync(&[]);
    assert!(said.contains("2 unchanged") && said.contains("0 removed"), "{said}");
}

#[test]
fn a_watch_follows_the_hub() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let mut command = sealed.inventory_command(&["sync", "--watch", "--prune"]);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let until = |wanted: &dyn Fn(&Value) -> bool, what: &str| {
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let config = sealed.config();
            if wanted(&config) {
                return;
            }
            assert!(std::time::Instant::now() < patience, "{what}: {config:#}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    let has = |name: &'static str| move |config: &Value| config["contexts"].to_string().contains(name);
    until(&has("cluster1@hub"), "the first sync");
    let mut profile = fleet.hub().get(&*profile_path("cluster-inventory", "cluster1")).unwrap();
    profile["metadata"]["name"] = json!("again");
    profile["status"]["accessProviders"][0]["name"] = json!("open-cluster-management");
    fleet.hub().put(&*profile_path("cluster-inventory", "again"), profile);
    let _ = run(&mut sealed.inventory_command(&["get"]));
    fleet.hub().delete(&*profile_path("cluster-inventory", "cluster1"));
    until(&|config| !has("cluster1@hub")(config), "it is gone");
    child.kill().unwrap();
    child.wait().unwrap();
}
