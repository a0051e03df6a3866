//! What `kubectl inventory <TAB>` offers, and that it never waits, asks or complains.

use std::time::{Duration, Instant};

use e2e::sealed::{Ran, Sealed, run};
use fleet::{Fault, Fleet, profile_path};
use serde_json::json;

fn offered(sealed: &Sealed, words: &[&str]) -> Vec<String> {
    let ran = sealed.inventory(&[&["__complete"], words].concat());
    let Ran { code, stderr, .. } = &ran;
    assert!(*code == 0 && stderr.is_empty(), "{ran:?}");
    let mut lines: Vec<String> =
        ran.stdout.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
    assert_eq!(lines.pop().as_deref(), Some(":4"), "{ran:?}");
    lines
}

#[test]
fn verbs_flags_values_and_live_names_are_offered() {
    let fleet = Fleet::builder().spokes(3).start();
    let sealed = Sealed::at(&fleet);
    assert_eq!(offered(&sealed, &["desc"]), ["describe"]);
    assert!(offered(&sealed, &[""]).contains(&"foreach".to_owned()));
    assert!(!offered(&sealed, &[""]).contains(&"__complete".to_owned()));
    assert_eq!(offered(&sealed, &["use", ""]), ["cluster1", "cluster2", "cluster3"]);
    assert_eq!(offered(&sealed, &["use", "cluster2"]), ["cluster2"]);
    assert_eq!(offered(&sealed, &["describe", "cluster1", "cluster3"]), ["cluster3"]);
    assert_eq!(offered(&sealed, &["use", "--no-s"]), ["--no-switch"]);
    assert_eq!(offered(&sealed, &["get", "--source", ""]), ["clusterprofile", "managedcluster", "capi"]);
    assert_eq!(offered(&sealed, &["get", "--source=m"]), ["--source=managedcluster"]);
    assert_eq!(offered(&sealed, &["get", "-o", "wi"]), ["wide"]);
    assert_eq!(offered(&sealed, &["foreach", "--output", "j"]), ["json"]);
    assert_eq!(offered(&sealed, &["get", "--context", "h"]), ["hub"]);
    assert_eq!(offered(&sealed, &["-n", "cluster-inventory", "use", "cluster3"]), ["cluster3"]);
    assert_eq!(offered(&sealed, &["get", "--source", "managedcluster", "cluster3"]), ["cluster3"]);
    assert_eq!(offered(&sealed, &["tunnel", "s"]), ["stop"]);
    assert_eq!(offered(&sealed, &["foreach", "--", "get", ""]), [""; 0]);
    assert!(offered(&sealed, &["color", "--color", ""]).contains(&"always".to_owned()));

    // The same name in two namespaces.
    let profile = fleet.hub().get(&*profile_path("cluster-inventory", "cluster1")).unwrap();
    fleet.hub().put(&*profile_path("team-a", "cluster1"), profile);
    assert_eq!(offered(&sealed, &["use", "t"]), ["team-a/cluster1"]);
}

#[test]
fn a_hub_that_is_down_silent_or_wants_a_person_gives_nothing_at_once() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let quick = |sealed: &Sealed| {
        let started = Instant::now();
        assert_eq!(offered(sealed, &["use", ""]), [""; 0]);
        assert!(started.elapsed() < Duration::from_secs(10), "it is bounded");
    };
    fleet.hub().fault(|_| true, Fault::Silent);
    quick(&sealed);
    let mut config = sealed.config();
    config["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    sealed.write(".kube/config", &config.to_string());
    quick(&sealed);
    quick(&Sealed::empty());
    sealed.write("config.yaml", "not: [a config");
    quick(&sealed);
}

#[test]
fn kubectl_finds_it_by_the_program_that_is_printed() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    let script = sealed.inventory(&["completion", "kubectl"]).ok();
    let path = sealed.write("bin/kubectl_complete-inventory", &script);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let Some(kubectl) = fleet::machine::kubectl() else { return };
    let mut command = sealed.command(kubectl);
    let folders =
        format!("{}:{}:/usr/bin:/bin", path.parent().unwrap().display(), e2e::binaries::binaries().display());
    let ran = run(command.env("PATH", folders).args(["__complete", "inventory", "use", "cl"]));
    assert!(ran.stdout.contains("cluster1") && ran.stdout.contains("cluster2"), "{ran:?}");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = sealed.inventory(&["completion", shell]).ok();
        assert!(script.contains("kubectl-inventory") && script.contains("foreach"), "{shell}");
    }
}
