//! The kubeconfig as a file: which one, what survives an edit, and what a crash leaves.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Stdio;
use std::time::Duration;

use e2e::sealed::{Sealed, run, yaml};
use fleet::{ClusterSpec, Fleet};
use serde_json::{Value, json};

#[test]
fn the_same_name_from_two_hubs_gives_distinct_entries() {
    let (one, two) = (Fleet::builder().spokes(1).start(), Fleet::builder().spokes(1).start());
    let mut config = one.kubeconfig();
    let other =
        two.kubeconfig().to_string().replace(r#""hub""#, r#""hub2""#).replace(r#""viewer""#, r#""viewer2""#);
    let other: Value = serde_json::from_str(&other).unwrap();
    for list in ["clusters", "users", "contexts"] {
        let more = other[list].as_array().unwrap().clone();
        config[list].as_array_mut().unwrap().extend(more);
    }
    let sealed = Sealed::with(&config);
    sealed.inventory(&["use", "cluster1", "--context", "hub"]).ok();
    sealed.inventory(&["use", "cluster1", "--context", "hub2"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), one.token("cluster1", "inventory"));
    assert_eq!(sealed.token("cluster1@hub2"), two.token("cluster1", "inventory"));
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let first = sealed.inventory(&["use", "cluster1", "-o", "-"]).ok();
    for _ in 0..50 {
        assert_eq!(sealed.inventory(&["use", "cluster1", "-o", "-"]).ok(), first);
    }
    sealed.inventory(&["use", "cluster1"]).ok();
    let before = (sealed.read(".kube/config"), fs::metadata(sealed.kubeconfig()).unwrap().ino());
    sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(before.0, sealed.read(".kube/config"));
}

#[test]
fn only_use_changes_the_current_context() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1", "--no-switch"]).ok();
    let before = sealed.read(".kube/config");
    sealed.inventory(&["get"]).ok();
    sealed.inventory(&["version"]).ok();
    sealed.token("cluster1@hub");
    sealed.inventory(&["cache", "clear"]).ok();
    assert_eq!(sealed.read(".kube/config"), before);
    assert_eq!(sealed.config()["current-context"], "hub");
}

#[test]
fn missing_files_of_the_list_are_skipped_and_all_missing_are_named() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let list = format!("/nowhere/a:{}:/nowhere/b", sealed.kubeconfig().display());
    let mut command = sealed.inventory_command(&["use", "cluster1"]);
    run(command.env("KUBECONFIG", &list)).ok();
    assert_eq!(sealed.config()["current-context"], "cluster1@hub", "the first that exists is written");
    let mut command = sealed.inventory_command(&["get"]);
    let said = run(command.env("KUBECONFIG", "/nowhere/a:/nowhere/b"));
    assert!(
        said.code != 0 && said.stderr.contains("/nowhere/a") && said.stderr.contains("/nowhere/b"),
        "{said:?}"
    );
}

#[test]
fn what_we_do_not_understand_survives() {
    let fleet = Fleet::builder().spokes(1).start();
    let mut config = fleet.kubeconfig();
    config["preferences"] = json!({"colors": true});
    config["extensions"] = json!([{"name": "x", "extension": {"deep": [1, "2", null, 3.5]}}]);
    config["future-field"] = json!({"a": "yes", "b": "0123", "c": "1e3"});
    config["users"].as_array_mut().unwrap().push(json!({"name": "eks", "user": {"exec": {
        "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws",
        "args": ["eks", "get-token", "--cluster-name", "on"], "env": [{"name": "AWS_PROFILE", "value": "no"}],
        "interactiveMode": "Never"}}}));
    let sealed = Sealed::with(&config);
    sealed.inventory(&["use", "cluster1"]).ok();
    let mut after = sealed.config();
    // Without what is ours it is what it was.
    for list in ["clusters", "users", "contexts"] {
        after[list].as_array_mut().unwrap().retain(|item| item["name"] != "cluster1@hub");
    }
    after["current-context"] = json!("hub");
    if let Some(items) = after["extensions"].as_array_mut() {
        items.retain(|item| item["name"] != "kubectl-inventory");
    }
    assert_eq!(after, config);
}

#[test]
fn a_namespace_and_foreign_extensions_of_a_context_stay_and_nothing_else_does() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    let mut config = sealed.config();
    for item in config["contexts"].as_array_mut().unwrap().iter_mut().filter(|c| c["name"] == "cluster1@hub")
    {
        item["context"]["namespace"] = json!("my-team");
        item["context"]["extensions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "k9s", "extension": {"a": 1}}));
    }
    for item in config["users"].as_array_mut().unwrap().iter_mut().filter(|c| c["name"] == "cluster1@hub") {
        item["user"]["token"] = json!("stale");
    }
    sealed.write(".kube/config", &config.to_string());
    sealed.inventory(&["use", "cluster1"]).ok();
    let context = &sealed.entry("contexts", "cluster1@hub")["context"];
    assert_eq!(context["namespace"], "my-team");
    assert!(context["extensions"].as_array().unwrap().iter().any(|e| e["name"] == "k9s"), "{context}");
    assert_eq!(sealed.entry("users", "cluster1@hub")["user"]["token"], Value::Null);
}

#[test]
fn an_entry_that_is_not_ours_is_replaced_only_by_force() {
    let fleet = Fleet::builder().spokes(1).start();
    for list in ["clusters", "users", "contexts"] {
        let mut config = fleet.kubeconfig();
        let body = match list {
            "clusters" => json!({"name": "cluster1@hub", "cluster": {"server": "https://mine"}}),
            "users" => json!({"name": "cluster1@hub", "user": {"token": "mine"}}),
            _ => json!({"name": "cluster1@hub", "context": {"cluster": "hub", "user": "viewer"}}),
        };
        config[list].as_array_mut().unwrap().push(body);
        let sealed = Sealed::with(&config);
        let before = sealed.read(".kube/config");
        let said = sealed.inventory(&["use", "cluster1", "--context-name", "cluster1@hub"]).fails(2);
        assert!(said.contains("--force") && said.contains("cluster1@hub"), "{said}");
        assert_eq!(sealed.read(".kube/config"), before);
        sealed.inventory(&["use", "cluster1", "--context-name", "cluster1@hub", "--force"]).ok();
        assert_eq!(sealed.entry("users", "cluster1@hub")["user"]["token"], Value::Null);
        assert_eq!(sealed.token("cluster1@hub"), fleet.token("cluster1", "inventory"));
    }
}

#[test]
fn links_modes_and_new_files_are_as_they_should_be() {
    let fleet = Fleet::builder().spokes(1).start();
    let hub = |sealed: &Sealed| sealed.write("hub", &fleet.kubeconfig().to_string()).display().to_string();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;

    // A link stays one; its target keeps its mode.
    let sealed = Sealed::empty();
    let real = sealed.write("dotfiles/config", &fleet.kubeconfig().to_string());
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("../dotfiles/config", sealed.kubeconfig()).unwrap();
    sealed.inventory(&["use", "cluster1"]).ok();
    assert!(fs::symlink_metadata(sealed.kubeconfig()).unwrap().is_symlink());
    assert_eq!(mode(&real), 0o640);
    assert!(fs::read_to_string(&real).unwrap().contains("cluster1@hub"));

    // A link to nothing: its target is made. New files and folders are the user's alone.
    for target in ["dangling", "plain"] {
        let sealed = Sealed::empty();
        let list = format!("{}:{}", sealed.path("deep/er/config").display(), hub(&sealed));
        let file = sealed.path("deep/er/config");
        if target == "dangling" {
            fs::create_dir_all(sealed.path("deep/er")).unwrap();
            symlink(sealed.path("deep/target"), &file).unwrap();
        }
        let mut command = sealed.command("/bin/sh");
        let plugin = e2e::binaries::binaries().join("kubectl-inventory");
        command.args(["-c", r#"umask 000; "$0" use cluster1 -o "$1"; exit $?"#]).arg(plugin).arg(&file);
        run(command.env("KUBECONFIG", &list)).ok();
        assert_eq!(mode(&file), 0o600, "{target}");
        match target {
            "dangling" => assert!(fs::symlink_metadata(&file).unwrap().is_symlink()),
            _ => assert_eq!(mode(file.parent().unwrap()), 0o700),
        }
    }
}

#[test]
fn a_foreign_lock_is_waited_for_then_named_with_its_age_and_left() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let lock = sealed.write(".kube/config.lock", "");
    let said = sealed.inventory(&["use", "cluster1"]).fails(1);
    assert!(said.contains("config.lock"), "{said}");
    assert!(lock.exists(), "a lock of somebody else is theirs to remove");

    // Released in time: no failure.
    let waiting = sealed.inventory_command(&["use", "cluster1"]).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    fs::remove_file(&lock).unwrap();
    assert!(waiting.wait_with_output().unwrap().status.success());
    assert!(!lock.exists());
}

#[test]
fn killed_at_any_point_the_file_is_the_old_one_or_the_new_one() {
    let fleet = Fleet::builder().spokes(2).start();
    let mut config = fleet.kubeconfig();
    let filler: Vec<_> = (0..2000)
        .map(|i| json!({"name": format!("c{i}"), "context": {"cluster": "hub", "user": "viewer"}}))
        .collect();
    config["contexts"].as_array_mut().unwrap().extend(filler);
    let sealed = Sealed::with(&config);
    let names = |text: &str| {
        let config = yaml(text);
        config["contexts"].as_array().unwrap().len()
    };
    for i in 0..200_u32 {
        let name = format!("k{i}");
        let mut child = sealed
            .inventory_command(&["use", "cluster1", "--context", "hub", "--context-name", &name])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(u64::from(i) * 400));
        let _ = child.kill();
        child.wait().unwrap();
        if i % 20 == 0 {
            assert!(names(&sealed.read(".kube/config")) >= 2001, "after {i}");
        }
    }
    assert!(names(&sealed.read(".kube/config")) >= 2001);
    sealed.inventory(&["use", "cluster2", "--context", "hub"]).ok();
    let left: Vec<_> = fs::read_dir(sealed.path(".kube")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!sealed.path(".kube/config.lock").exists(), "{left:?}");
}

#[test]
fn twenty_at_once_are_all_there() {
    let fleet = Fleet::builder().spokes(20).start();
    let sealed = Sealed::at(&fleet);
    let all: Vec<_> = (1..=20)
        .map(|i| {
            let mut command = sealed.inventory_command(&["use", &format!("cluster{i}"), "--context", "hub"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in all {
        let ran: e2e::sealed::Ran = child.wait_with_output().unwrap().into();
        ran.ok();
    }
    for i in 1..=20 {
        sealed.entry("contexts", &format!("cluster{i}@hub"));
    }
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let before = sealed.read(".kube/config");
    // A limit on the size of files is the disk's end as a process sees it.
    let mut command = sealed.command("/bin/sh");
    let plugin = e2e::binaries::binaries().join("kubectl-inventory");
    command.args(["-c", r#"trap '' XFSZ; ulimit -f 1; "$0" use cluster1"#]).arg(plugin);
    let ran = run(&mut command);
    assert!(ran.code != 0 && ran.stdout.is_empty(), "{ran:?}");
    assert_eq!(sealed.read(".kube/config"), before);
    assert!(!sealed.path(".kube/config.lock").exists());
    let left = fs::read_dir(sealed.path(".kube")).unwrap().count();
    assert_eq!(left, 1, "nothing else is left");
}

#[test]
fn ten_thousand_contexts_can_be_edited() {
    let fleet = Fleet::builder().cluster(ClusterSpec::named("cluster1")).start();
    let mut config = fleet.kubeconfig();
    for list in ["clusters", "users", "contexts"] {
        let more: Vec<_> = (0..10_000)
            .map(|i| match list {
                "clusters" => json!({"name": format!("x{i}"), "cluster": {"server": format!("https://x{i}")}}),
                "users" => json!({"name": format!("x{i}"), "user": {"token": format!("t{i}")}}),
                _ => json!({"name": format!("x{i}"), "context": {"cluster": format!("x{i}"), "user": format!("x{i}")}}),
            })
            .collect();
        config[list].as_array_mut().unwrap().extend(more);
    }
    let sealed = Sealed::with(&config);
    sealed.inventory(&["use", "cluster1"]).ok();
    let after = sealed.config();
    assert_eq!(after["contexts"].as_array().unwrap().len(), 10_002);
    assert_eq!(after["users"][10_000], config["users"][10_000]);
}
