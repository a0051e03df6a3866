//! One command on many clusters: whose output is whose, who is waited for, what ends with the run, and what is
//! asked before something is changed.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use e2e::sealed::{Ran, Sealed, run, run_with_input};
use fleet::machine::kubectl;
use fleet::{Fault, Fleet, profile_path};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// `foreach FLAGS -- ARGS`, with the real kubectl on PATH where there is one.
fn foreach(sealed: &Sealed, flags: &[&str], args: &[&str]) -> Command {
    let mut command = sealed.inventory_command(&[&["foreach"], flags, &["--"], args].concat());
    if let Some(kubectl) = kubectl() {
        let bin = sealed.path("bin");
        let _ = std::fs::create_dir(&bin);
        let _ = std::os::unix::fs::symlink(kubectl, bin.join("kubectl"));
        let path = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
        let path = format!("{}:{}", bin.display(), path.unwrap_or_default().to_string_lossy());
        command.env("PATH", path);
    }
    command
}

/// Runs a shell's script everywhere.
fn script(sealed: &Sealed, flags: &[&str], script: &str) -> Ran {
    run(&mut foreach(sealed, &[&["--command"], flags].concat(), &["sh", "-c", script]))
}

fn documents(ran: &Ran) -> Vec<Value> {
    ran.stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[test]
fn kubectl_runs_on_each_cluster_as_that_cluster() {
    let fleet = Fleet::builder().spokes(3).start();
    let sealed = Sealed::at(&fleet);
    if kubectl().is_none() {
        return;
    }
    let before = sealed.read(".kube/config");
    let ran = run(&mut foreach(&sealed, &["--in-order"], &["get", "ns", "-o", "name"]));
    let out = ran.ok();
    for name in ["cluster1", "cluster2", "cluster3"] {
        assert!(out.lines().any(|line| line == format!("{name}: namespace/{name}")), "{out}");
    }
    assert_eq!(sealed.read(".kube/config"), before, "no context is written or switched");
    // Each token was read once, and is kept.
    let reads = || fleet.hub().log().iter().filter(|l| l.path.contains("/secrets/")).count();
    let first = reads();
    assert_eq!(first, 3, "{:#?}", fleet.hub().log());
    run(&mut foreach(&sealed, &["cluster2"], &["get", "ns"])).ok();
    assert!(reads() <= first + 1, "only the metadata of the one copy");
}

#[test]
fn each_form_of_output_says_whose_it_is() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    let say = "echo $KUBECTL_INVENTORY_CLUSTER; echo second; echo bad >&2; test $KUBECTL_INVENTORY_CLUSTER = cluster1";
    let ran = script(&sealed, &["--in-order"], say);
    assert_eq!(ran.stdout, "cluster1: cluster1\ncluster1: second\ncluster2: cluster2\ncluster2: second\n");
    assert_eq!(ran.stderr, "cluster1: bad\ncluster2: bad\n1 of 2 clusters failed: cluster2 (exit code 1)\n");
    assert_eq!(ran.code, 1);
    let ran = script(&sealed, &["--in-order", "--output", "group"], say);
    assert_eq!(
        ran.stdout,
        "==> cluster1 <==\ncluster1\nsecond\n==> cluster2 (exit code 1) <==\ncluster2\nsecond\n"
    );
    let ran = script(&sealed, &["--in-order", "--output", "raw"], "printf $KUBECTL_INVENTORY_CLUSTER");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code), ("cluster1\ncluster2\n", "", 0));
    let ran = script(&sealed, &["--output", "json"], say);
    let mut documents = documents(&ran);
    documents.sort_by_key(|document| document["name"].to_string());
    assert_eq!(documents[1]["name"], "cluster2");
    assert_eq!(documents[1]["namespace"], "cluster-inventory");
    assert_eq!((&documents[1]["exitCode"], &documents[0]["exitCode"]), (&json!(1), &json!(0)));
    assert_eq!(
        (&documents[1]["stdout"], &documents[1]["stderr"]),
        (&json!("cluster2\nsecond\n"), &json!("bad\n"))
    );
    assert!(documents[1]["durationSeconds"].is_f64() && ran.stderr.is_empty(), "{ran:?}");
    for (codes, merged) in
        [("7", 7), ("$(test $KUBECTL_INVENTORY_CLUSTER = cluster1 && echo 3 || echo 4)", 1), ("0", 0)]
    {
        assert_eq!(script(&sealed, &[], &format!("exit {codes}")).code, merged, "{codes}");
    }
}

#[test]
fn no_line_of_one_cluster_is_torn_by_another() {
    let fleet = Fleet::builder().spokes(12).start();
    let sealed = Sealed::at(&fleet);
    let many = r#"i=0; while [ $i -lt 200 ]; do echo "$KUBECTL_INVENTORY_CLUSTER $i $KUBECTL_INVENTORY_CLUSTER"; i=$((i+1)); done"#;
    let out = script(&sealed, &["-P", "12"], many).ok();
    assert_eq!(out.lines().count(), 12 * 200);
    let mut next = std::collections::BTreeMap::new();
    for line in out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [prefix, first, number, last] = words[..] else { panic!("{line}") };
        assert!(prefix == format!("{first}:") && first == last, "{line}");
        let expected = next.entry(first.to_owned()).or_insert(0);
        assert_eq!(number.parse::<i32>(), Ok(*expected), "{line}");
        *expected += 1;
    }
    // Whole outputs are whole.
    let out = script(&sealed, &["-P", "12", "--output", "raw"], many).ok();
    let owners: Vec<&str> = out.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let changes = owners.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!((owners.len(), changes), (12 * 200, 11));
}

#[test]
fn a_dead_a_slow_and_a_refused_cluster_say_so_and_hold_nobody_up() {
    let fleet = Fleet::builder().spokes(6).start();
    let sealed = Sealed::at(&fleet);
    if kubectl().is_none() {
        return;
    }
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        profile["status"]["accessProviders"][0]["cluster"]["server"] = json!("https://127.0.0.1:1/cluster1");
    });
    fleet.spoke("cluster2").fault(|_| true, Fault::Silent);
    fleet.spoke("cluster3").revoke(&fleet.token("cluster3", "inventory"));
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster4"), |profile| {
        profile["status"]["accessProviders"] = json!([]);
    });
    let flags = ["--output", "json", "--timeout", "4s", "-P", "6"];
    let ran = run(&mut foreach(&sealed, &flags, &["get", "ns", "-o", "name"]));
    assert_eq!(ran.code, 1, "{ran:?}");
    let documents = documents(&ran);
    assert_eq!(documents.len(), 6);
    let of = |name: &str| documents.iter().find(|document| document["name"] == name).unwrap();
    for (name, field, words) in [
        ("cluster1", "stderr", "refused"),
        ("cluster2", "error", "timed out after 4 s"),
        ("cluster3", "stderr", "logged in"),
        ("cluster4", "error", "publishes no access provider"),
    ] {
        assert!(of(name)[field].as_str().is_some_and(|said| said.contains(words)), "{name}: {}", of(name));
    }
    assert_eq!((&of("cluster2")["exitCode"], &of("cluster4")["exitCode"]), (&json!(5), &json!(3)));
    for name in ["cluster5", "cluster6"] {
        assert!(of(name)["stdout"].as_str().unwrap().contains(name));
    }
    let order: Vec<_> = documents.iter().map(|document| document["name"].as_str().unwrap()).collect();
    assert_eq!(order.last(), Some(&"cluster2"), "the slow one is the last: {order:?}");
}

/// The processes that run `sleep` for this many seconds.
fn sleepers(seconds: &str) -> usize {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{seconds}\0").as_bytes()).count()
}

#[test]
fn everything_that_was_started_ends_with_an_interrupted_run() {
    let fleet = Fleet::builder().spokes(4).start();
    for (signal, seconds) in [(Signal::INT, "61.41"), (Signal::TERM, "61.42"), (Signal::HUP, "61.43")] {
        let sealed = Sealed::at(&fleet);
        let sleep = format!("sleep {seconds} & sleep {seconds}; wait");
        let mut command = foreach(&sealed, &["--command", "-P", "4"], &["sh", "-c", &sleep]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while sleepers(seconds) < 8 {
            assert!(Instant::now() < patience, "{} sleep", sleepers(seconds));
            thread::sleep(Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let patience = Instant::now() + Duration::from_secs(20);
        while sleepers(seconds) > 0 {
            assert!(Instant::now() < patience, "{} sleep still", sleepers(seconds));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_limit_ends_a_command_and_what_it_started() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    let ran = script(&sealed, &["--timeout", "1s"], "trap '' TERM; echo begun; sleep 61.44 & sleep 61.44");
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.stdout.contains("cluster1: begun") && ran.stderr.contains("timed out after 1 s"), "{ran:?}");
    assert_eq!(sleepers("61.44"), 0);
    // What is left behind by one that ended does not hold it up.
    let ran = script(&sealed, &[], "sleep 61.45 & echo done");
    assert!(ran.ok().contains("cluster2: done"));
    assert_eq!(sleepers("61.45"), 0);
}

#[test]
fn the_first_failure_ends_all_where_that_is_wanted() {
    let fleet = Fleet::builder().spokes(4).start();
    let sealed = Sealed::at(&fleet);
    let fail = "test $KUBECTL_INVENTORY_CLUSTER = cluster2 && exit 9; sleep 61.46";
    let ran = script(&sealed, &["--fail-fast", "-P", "4", "--output", "json"], fail);
    let documents = documents(&ran);
    let codes: Vec<_> = documents.iter().map(|document| document["exitCode"].as_i64().unwrap()).collect();
    assert_eq!((codes.len(), codes.iter().filter(|code| **code == 130).count()), (4, 3), "{codes:?}");
    assert!(codes.contains(&9) && sleepers("61.46") == 0);
}

#[test]
fn each_command_reads_the_same_stdin_where_its_arguments_name_it() {
    let fleet = Fleet::builder().spokes(3).start();
    let sealed = Sealed::at(&fleet);
    let mut command = foreach(&sealed, &["--command", "--in-order", "--output", "raw"], &["cat", "-"]);
    let input = "x".repeat(300_000);
    let out = run_with_input(&mut command, input.as_bytes()).ok();
    assert_eq!(out.lines().map(str::len).collect::<Vec<_>>(), [300_000; 3]);
    let mut command = foreach(&sealed, &["--command", "cluster1"], &["cat"]);
    assert_eq!(run_with_input(&mut command, b"not for them\n").ok(), "");
}

#[test]
fn protected_clusters_are_not_changed_without_a_word() {
    let fleet =
        Fleet::builder().spokes(3).edit("cluster3", |cluster| cluster.cluster_set = "prod".into()).start();
    for rule in ["protect: clusterset=prod", "protect: ['multicluster.x-k8s.io/clusterset in (prod, core)']"]
    {
        let sealed = Sealed::at(&fleet);
        sealed.write("config.yaml", &format!("{rule}\n"));
        for args in
            [&["delete", "pod", "x"][..], &["-n", "get", "apply", "-f", "x"], &["rollout", "restart", "x"]]
        {
            let said = run(&mut foreach(&sealed, &[], args)).fails(2);
            assert!(
                said.contains("1 of 3 clusters are protected: cluster3") && said.contains("--yes"),
                "{said}"
            );
        }
        let said = script(&sealed, &[], "echo run").fails(2);
        assert!(said.contains("protected"), "{said}");
        script(&sealed, &["--yes", "--output", "raw"], "echo run").ok();
        script(&sealed, &["cluster1", "cluster2"], "echo run").ok();
        if kubectl().is_some() {
            run(&mut foreach(&sealed, &[], &["get", "ns"])).ok();
        }
        let shown = run(&mut foreach(&sealed, &["--dry-run"], &["delete", "pod", "x"])).ok();
        assert_eq!(shown.lines().count(), 3);
        assert!(
            shown
                .lines()
                .any(|line| line.starts_with("cluster3: kubectl delete pod x") && line.contains("protected")),
            "{shown}"
        );
        let ran = sealed.inventory(&["use", "cluster3"]);
        assert!(ran.stderr.contains("cluster3 is protected"), "{ran:?}");
        assert!(!sealed.inventory(&["use", "cluster1"]).stderr.contains("protected"));
    }
    let sealed = Sealed::at(&fleet);
    sealed.write("config.yaml", "protect: env in prod\n");
    let said = run(&mut foreach(&sealed, &[], &["get", "ns"])).fails(2);
    assert!(said.contains("config.yaml") && said.contains("env in prod"), "{said}");
}

#[test]
fn a_selection_chooses_the_clusters_and_an_empty_one_is_an_error() {
    let fleet = Fleet::builder().spokes(4).edit("cluster2", |cluster| cluster.healthy = Some(false)).start();
    let sealed = Sealed::at(&fleet);
    let names = |flags: &[&str]| {
        let flags = [&["--output", "raw", "--in-order"], flags].concat();
        script(&sealed, &flags, "echo $KUBECTL_INVENTORY_CLUSTER").ok().replace('\n', " ")
    };
    assert_eq!(names(&["--healthy"]), "cluster1 cluster3 cluster4 ");
    assert_eq!(names(&["cluster3", "cluster1"]), "cluster3 cluster1 ");
    let said = script(&sealed, &["--clusterset", "none"], "true").fails(3);
    assert!(said.contains("no cluster is meant"), "{said}");
    assert!(script(&sealed, &["nowhere"], "true").fails(3).contains("nowhere"));
    sealed.inventory(&["foreach"]).fails(2);
    let ran = run(&mut foreach(&sealed, &["--command", "cluster1"], &["no-such-program"]));
    assert!(ran.code == 1 && ran.stderr.contains("no-such-program cannot be run"), "{ran:?}");
}
