//! A kubeconfig of its own: for one shell (`env`), or for a selection that others share (`kubeconfig`).

use std::process::Command;

use e2e::sealed::{Sealed, run, yaml};
use fleet::{Fleet, profile_path};
use serde_json::json;

/// Runs shell code with our plugin on PATH.
fn shell(sealed: &Sealed, code: &str) -> String {
    run(sealed.command("/bin/sh").args(["-c", code])).ok()
}

#[test]
fn a_shell_is_pointed_at_one_cluster_by_a_file_that_is_always_the_same() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    let before = sealed.read(".kube/config");
    let code = sealed.inventory(&["env", "cluster1", "--shell", "bash"]).ok();
    let file = code
        .trim()
        .strip_prefix("export KUBECONFIG='")
        .and_then(|rest| rest.strip_suffix('\''))
        .unwrap()
        .to_owned();
    assert!(file.starts_with(sealed.home().to_str().unwrap()) && file.ends_with("_cluster1.yaml"), "{file}");
    let text = std::fs::read_to_string(&file).unwrap();
    for _ in 0..3 {
        assert_eq!(sealed.inventory(&["env", "cluster1", "--shell", "zsh"]).ok(), code);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    assert_eq!(sealed.read(".kube/config"), before, "the person's own file is left alone");
    assert_ne!(sealed.inventory(&["env", "cluster2"]).ok(), code);
    assert_ne!(sealed.inventory(&["env", "cluster1", "--sa", "inventory"]).ok(), code);
    for secret in fleet.secrets().iter().filter(|secret| secret.len() > 8) {
        assert!(!text.contains(secret.as_str()));
    }

    // In that shell the inventory is still there, and so is a namespace that was set.
    let out = shell(
        &sealed,
        "eval \"$(kubectl-inventory env cluster1)\"; kubectl-inventory get -o name; kubectl-inventory env cluster2 >/dev/null",
    );
    assert!(out.contains("clusterprofile.multicluster.x-k8s.io/cluster2"), "{out}");
    let mut edited = yaml(&text);
    edited["contexts"][0]["context"]["namespace"] = json!("mine");
    std::fs::write(&file, edited.to_string()).unwrap();
    sealed.inventory(&["env", "cluster1"]).ok();
    assert_eq!(yaml(&std::fs::read_to_string(&file).unwrap())["contexts"][0]["context"]["namespace"], "mine");
    if let Some(kubectl) = sealed.kubectl(&["--kubeconfig", &file, "get", "ns", "-o", "name"]) {
        assert!(kubectl.ok().contains("namespace/cluster1"));
    }
    assert_eq!(sealed.inventory(&["env", "--unset", "--shell", "fish"]).ok(), "set -e KUBECONFIG\n");
    assert!(
        sealed.inventory(&["env", "cluster1", "--shell", "fish"]).ok().starts_with("set -gx KUBECONFIG '")
    );
    assert!(
        sealed.inventory(&["env", "cluster1", "--shell", "pwsh"]).ok().starts_with("$Env:KUBECONFIG = '")
    );
    sealed.inventory(&["env", "nowhere"]).fails(3);
    sealed.inventory(&["env"]).fails(2);
}

#[test]
fn one_kubeconfig_holds_the_selection_and_no_credential() {
    let fleet = Fleet::builder().spokes(3).edit("cluster2", |cluster| cluster.healthy = Some(false)).start();
    let sealed = Sealed::at(&fleet);
    let text = sealed.inventory(&["kubeconfig", "--healthy"]).ok();
    let written = yaml(&text);
    let names: Vec<_> = written["contexts"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["cluster1@hub", "cluster3@hub"]);
    assert!(written.get("current-context").is_none_or(|current| current == ""));
    assert_eq!(yaml(&sealed.inventory(&["kubeconfig", "cluster1"]).ok())["current-context"], "cluster1@hub");
    for secret in fleet.secrets().iter().filter(|secret| secret.len() > 8) {
        assert!(!text.contains(secret.as_str()));
    }
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster3"), |profile| {
        profile["status"]["accessProviders"] = json!([]);
    });
    let said = sealed.inventory(&["kubeconfig"]).fails(3);
    assert!(said.contains("1 clusters have no way in: cluster3"), "{said}");
}

#[test]
fn a_shared_kubeconfig_works_on_a_machine_that_knows_the_hub_by_another_name() {
    let fleet = Fleet::builder().spokes(1).start();
    let here = Sealed::at(&fleet);
    let shared = here.inventory(&["kubeconfig", "cluster1", "--shareable"]).ok();
    assert!(!shared.contains(here.home().to_str().unwrap()), "nothing of this machine: {shared}");
    assert_eq!(yaml(&shared)["users"][0]["user"]["exec"]["command"], "credential-exec");

    let there = Sealed::at(&fleet);
    let renamed = there.read(".kube/config").replace("\"hub\"", "\"our-hub\"");
    there.write(".kube/config", &renamed);
    there.write("shared.yaml", &shared);
    let args: Vec<String> = e2e::sealed::plugin_line(&yaml(&shared)["users"][0]);
    let mut plugin: Command = there.command(&args[0]);
    plugin.args(&args[1..]);
    assert_eq!(e2e::sealed::token(&run(&mut plugin).ok()), fleet.token("cluster1", "inventory"));
    // Where the hub is not known at all, the message says which is meant.
    let nowhere = Sealed::empty();
    nowhere.write(".kube/config", "apiVersion: v1\nkind: Config\n");
    let mut plugin: Command = nowhere.command(&args[0]);
    let ran = run(plugin.args(&args[1..]));
    assert!(ran.code != 0 && ran.stderr.contains("hub"), "{ran:?}");
}
