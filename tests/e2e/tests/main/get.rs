//! `get`: what it prints, and what it asks of the hub.

use std::process::Stdio;

use e2e::sealed::{Sealed, run, yaml};
use fleet::{ClusterSpec, Fault, Fleet};
use serde_json::{Value, json};

#[test]
fn on_a_hub_as_ocm_lays_it_out_no_flag_is_needed() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    let table = sealed.inventory(&["get"]).ok();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "HEALTHY", "JOINED", "VERSION", "CLUSTERSET", "MANAGER", "AGE"]);
    assert_eq!(rows[1][..6], ["cluster1", "True", "True", "v1.34.2", "default", "open-cluster-management"]);
    assert_eq!(rows.len(), 3, "{table}");
}

#[test]
fn every_format_is_one_pure_document() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    let json: Value = serde_json::from_str(&sealed.inventory(&["get", "-o", "json"]).ok()).unwrap();
    assert_eq!(json["kind"], "List");
    assert_eq!(json["items"].as_array().unwrap().len(), 2);
    assert_eq!(json["items"][0]["kind"], "ClusterProfile");
    assert_eq!(yaml(&sealed.inventory(&["get", "-o", "yaml"]).ok()), json);
    assert_eq!(
        sealed.inventory(&["get", "-o", "name"]).ok(),
        "clusterprofile.multicluster.x-k8s.io/cluster1\nclusterprofile.multicluster.x-k8s.io/cluster2\n"
    );
    let one: Value =
        serde_json::from_str(&sealed.inventory(&["get", "cluster2", "-o", "json"]).ok()).unwrap();
    assert_eq!((&one["kind"], &one["metadata"]["name"]), (&json!("ClusterProfile"), &json!("cluster2")));
    let wide = sealed.inventory(&["get", "-o", "wide"]).ok();
    assert!(wide.lines().next().unwrap().ends_with("PROVIDERS"), "{wide}");
    let bare = sealed.inventory(&["get", "--no-headers"]).ok();
    assert!(bare.starts_with("cluster1 "), "{bare}");
}

#[test]
fn an_empty_inventory_is_no_failure() {
    let fleet = Fleet::builder().start();
    let sealed = Sealed::at(&fleet);
    let ran = sealed.inventory(&["get"]);
    assert_eq!((ran.code, &*ran.stdout), (0, ""));
    assert!(ran.stderr.contains("No clusters found"), "{}", ran.stderr);
    let json: Value = serde_json::from_str(&sealed.inventory(&["get", "-o", "json"]).ok()).unwrap();
    assert_eq!(json["items"], json!([]));
    assert_eq!(sealed.inventory(&["get", "-o", "name"]).ok(), "");
}

#[test]
fn namespaces_names_and_labels_choose() {
    let mut other = ClusterSpec::named("other");
    other.namespaces = vec!["team-a".into()];
    other.labels = vec![("env".into(), "prod".into())];
    let fleet = Fleet::builder().spokes(1).cluster(other).start();
    let sealed = Sealed::at(&fleet);
    let names = |args: &[&str]| {
        let args = [&["get", "--no-headers"], args].concat();
        let table = sealed.inventory(&args).ok();
        table.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["cluster1", "other"]);
    assert_eq!(names(&["-n", "team-a"]), ["other"]);
    assert_eq!(names(&["-n", "cluster-inventory"]), ["cluster1"]);
    assert_eq!(names(&["-l", "env=prod"]), ["other"]);
    assert_eq!(names(&["-l", "env!=prod"]), ["cluster1"]);
    assert_eq!(names(&["team-a/other"]), ["other"]);
    assert_eq!(names(&["cluster1", "other"]), ["cluster1", "other"]);
    let all = sealed.inventory(&["get", "-A"]).ok();
    assert!(all.lines().next().unwrap().contains("NAMESPACE"), "{all}");

    let ran = sealed.inventory(&["get", "cluster1", "nobody", "--no-headers"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.starts_with("cluster1 ") && ran.stderr.contains("nobody"), "{ran:?}");
}

#[test]
fn it_talks_to_the_hub_only_reads_no_secret_and_writes_nothing() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    let before = sealed.read(".kube/config");
    for format in ["wide", "json", "yaml", "name"] {
        sealed.inventory(&["get", "-o", format]).ok();
        sealed.inventory(&["get", "cluster1", "-o", format]).ok();
    }
    for logged in fleet.hub().log() {
        assert_eq!(logged.method, "GET", "{logged:?}");
        assert!(logged.path.contains("/clusterprofiles"), "{logged:?}");
    }
    for cluster in ["cluster1", "cluster2"] {
        assert!(fleet.spoke(cluster).log().is_empty());
    }
    assert_eq!(sealed.read(".kube/config"), before);
}

#[test]
fn a_dead_cluster_does_not_delay_the_others() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    fleet.spoke("cluster1").mute(true);
    fleet.spoke("cluster2").stop();
    assert_eq!(sealed.inventory(&["get", "--no-headers", "--request-timeout", "5s"]).ok().lines().count(), 2);
}

#[test]
fn lists_come_in_pages_and_outlive_an_expired_token() {
    let fleet = Fleet::builder().profiles(1200).start();
    let sealed = Sealed::at(&fleet);
    let gone = || fleet.hub().fault(|_| true, Fault::Gone);
    for format in ["wide", "name", "json"] {
        let whole = sealed.inventory(&["get", "-o", format]).ok();
        fleet.hub().clear_log();
        gone();
        let again = sealed.inventory(&["get", "-o", format]).ok();
        let count = |text: &str| text.matches("fleet-0").count();
        assert_eq!(count(&whole), count(&again), "{format}");
        let log = fleet.hub().log();
        assert!(log.iter().any(|logged| logged.status == 410), "the fault was met");
        assert!(log.iter().all(|logged| logged.query.contains("limit=500")), "{log:?}");
    }
}

#[test]
fn colour_is_the_only_difference_and_can_be_forbidden() {
    let fleet = Fleet::builder().spokes(1).edit("cluster1", |c| c.healthy = Some(false)).start();
    let sealed = Sealed::at(&fleet);
    let plain = sealed.inventory(&["get", "--no-headers"]).ok();
    let colored = sealed.inventory(&["get", "--no-headers", "--color", "always"]).ok();
    assert!(!plain.contains('\u{1b}') && colored.contains("\u{1b}[31mFalse"), "{colored:?}");
    let strip = |text: &str| {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            out.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        out + rest
    };
    let age = |text: &str| text.rsplit_once(' ').unwrap().0.trim_end().to_owned();
    assert_eq!(age(&strip(&colored)), age(&plain));
    for format in ["json", "yaml", "name"] {
        let document = sealed.inventory(&["get", "-o", format, "--color", "always"]).ok();
        assert!(!document.contains('\u{1b}'), "{document:?}");
    }
    let mut unset = sealed.inventory_command(&["get"]);
    assert!(!run(unset.env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1")).ok().contains('\u{1b}'));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let fleet = Fleet::builder().profiles(1500).start();
    let sealed = Sealed::at(&fleet);
    for format in ["wide", "json", "yaml", "name"] {
        let mut child = sealed
            .inventory_command(&["get", "-o", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{format}");
        assert_ne!(ended.status.code(), Some(101), "{format}");
    }
}

#[test]
fn each_thing_that_a_hub_may_lack_is_named_with_its_next_step() {
    let fleet = Fleet::builder()
        .without("multicluster.x-k8s.io")
        .without("cluster.open-cluster-management.io")
        .start();
    let said = Sealed::at(&fleet).inventory(&["get"]).fails(3);
    assert!(said.contains("ClusterProfile") && said.contains("try: "), "{said}");

    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    fleet.hub().forbid(|_| true);
    let said = sealed.inventory(&["get"]).fails(4);
    assert!(said.contains("viewer") && said.contains("try: "), "{said}");
    fleet.hub().allow_all();
    fleet.hub().fault(|_| true, Fault::Unauthorized);
    let said = sealed.inventory(&["get"]).fails(4);
    assert!(said.contains("hub") && said.contains("try: "), "{said}");
}

#[test]
fn where_only_one_namespace_may_be_listed_that_is_said() {
    let mut here = ClusterSpec::named("here");
    here.namespaces = vec!["default".into()];
    let fleet = Fleet::builder().spokes(1).cluster(here).start();
    let sealed = Sealed::at(&fleet);
    fleet.hub().forbid(|request| request.key.namespace.is_empty());
    let ran = sealed.inventory(&["get", "--no-headers"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("here ") && ran.stderr.contains("-n"), "{ran:?}");
    sealed.inventory(&["get", "-A"]).fails(4);

    sealed.write("config.yaml", "namespace: cluster-inventory\n");
    assert!(sealed.inventory(&["get", "--no-headers"]).ok().starts_with("cluster1 "));
}

#[test]
fn an_answer_that_is_no_json_is_quoted_in_one_line() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let long = format!("upstream connect error\u{1b}[31m {}\nsecond line", "x".repeat(500));
    for fault in [
        Fault::PlainText(502, long.clone()),
        Fault::PlainText(200, "<html>login</html>".into()),
        Fault::NotJson,
        Fault::Truncated,
        Fault::Close,
        Fault::Status(500, "{}".into()),
    ] {
        fleet.hub().clear_faults();
        fleet.hub().fault(|_| true, fault.clone());
        let ran = sealed.inventory(&["get"]);
        assert_ne!(ran.code, 0, "{fault:?}");
        let lines: Vec<_> = ran.stderr.lines().collect();
        assert!(lines.len() <= 2 && lines[0].starts_with("error: "), "{ran:?}");
        assert!(lines[0].len() < 400 && !ran.stderr.contains('\u{1b}'), "{ran:?}");
        assert!(!ran.stderr.contains("failed to parse"), "{ran:?}");
    }
}

#[test]
fn a_hub_that_never_answers_ends_in_time() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    fleet.hub().mute(true);
    let said = sealed.inventory(&["get", "--request-timeout", "1s"]).fails(5);
    assert!(said.contains("hub"), "{said}");
}

#[test]
fn the_deprecated_list_of_providers_is_honoured_and_noted_once() {
    let fleet = Fleet::builder().spokes(2).edit("cluster1", |c| c.deprecated_providers = true).start();
    let sealed = Sealed::at(&fleet);
    let ran = sealed.inventory(&["get", "-o", "wide"]);
    assert_eq!(ran.stderr.matches("credentialProviders").count(), 1, "{ran:?}");
    assert!(ran.stdout.lines().nth(1).unwrap().contains("open-cluster-management"), "{ran:?}");
    let ran = sealed.inventory(&["use", "cluster1"]);
    assert_eq!((ran.code, ran.stderr.matches("credentialProviders").count()), (0, 1), "{ran:?}");
}
