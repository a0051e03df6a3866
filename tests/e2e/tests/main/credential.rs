//! The exec protocol as kubectl sees it: one object on stdout or nothing, one line on stderr.

use std::process::Stdio;
use std::time::{Duration, Instant};

use e2e::sealed::{Sealed, exec_info, run, run_with_input, token};
use fleet::{AccountSpec, Fault, Fleet, TokenKind};
use serde_json::Value;

const CONTEXT: &str = "cluster1@hub";

fn used(fleet: &Fleet) -> Sealed {
    let sealed = Sealed::at(fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    sealed
}

fn forget(sealed: &Sealed) {
    sealed.inventory(&["cache", "clear"]).ok();
}

#[test]
fn stdout_is_one_object_and_a_newline_whatever_the_surroundings() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet);
    fleet.hub().fault(|_| true, Fault::Warning("299 - \"old API\"".into()));
    for (name, value) in [
        ("RUST_LOG", "trace"),
        ("RUST_BACKTRACE", "full"),
        ("CLICOLOR_FORCE", "1"),
        ("FORCE_COLOR", "3"),
        ("LANG", "de_DE.UTF-8"),
        ("TZ", "Asia/Kathmandu"),
    ] {
        for warm in [false, true] {
            if !warm {
                forget(&sealed);
            }
            let ran = run(sealed.plugin(CONTEXT).env(name, value));
            assert_eq!((ran.code, &*ran.stderr), (0, ""), "{name}: {ran:?}");
            assert!(ran.stdout.ends_with("}\n") && ran.stdout.lines().count() == 1, "{name}: {ran:?}");
            assert_eq!(token(&ran.stdout), fleet.token("cluster1", "inventory"));
        }
    }
}

#[test]
fn the_version_asked_for_is_the_version_answered() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet);
    let version = |info: &str| {
        let answer: Value = serde_json::from_str(&run(&mut sealed.plugin_with(CONTEXT, info)).ok()).unwrap();
        answer["apiVersion"].as_str().unwrap().to_owned()
    };
    for round in 0..2 {
        assert_eq!(version(&exec_info("v1", None)), "client.authentication.k8s.io/v1", "{round}");
        assert_eq!(version(&exec_info("v1beta1", None)), "client.authentication.k8s.io/v1beta1");
        assert_eq!(version(""), "client.authentication.k8s.io/v1");
    }
    for bad in [&*exec_info("v1alpha1", None), &*exec_info("v9", None), "{", "garbage", "[]", "null", "{}"] {
        let ran = run(&mut sealed.plugin_with(CONTEXT, bad));
        assert!(ran.code != 0 && ran.stdout.is_empty(), "{bad}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{bad}: {ran:?}");
    }
    let said = run(&mut sealed.plugin_with(CONTEXT, &exec_info("v1alpha1", None))).stderr;
    assert!(said.contains("v1alpha1"), "{said}");
}

#[test]
fn stdin_is_left_to_kubectl() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet);
    for warm in [false, true] {
        if !warm {
            forget(&sealed);
        }
        // The plugin, then a reader of what it left.
        let mut line = sealed.command("/bin/sh");
        line.args(["-c", r#""$@" >/dev/null && cat"#, "sh"]).args(sealed.plugin_line(CONTEXT));
        line.env("KUBERNETES_EXEC_INFO", exec_info("v1", None));
        let input = "x".repeat(200_000);
        assert_eq!(run_with_input(&mut line, input.as_bytes()).ok(), input);
    }
}

#[test]
fn a_hub_that_accepts_and_never_answers_ends_in_time() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    for silent in ["handshake", "answer"] {
        forget(&sealed);
        match silent {
            "handshake" => fleet.hub().mute(true),
            _ => {
                fleet.hub().mute(false);
                fleet.hub().fault(|_| true, Fault::Silent);
            }
        }
        let mut line = sealed.plugin_line(CONTEXT);
        line.push("--timeout=1s".to_owned());
        let started = Instant::now();
        let ran =
            run(sealed.command(&line[0]).args(&line[1..]).env("KUBERNETES_EXEC_INFO", exec_info("v1", None)));
        let said = ran.fails(5);
        assert!(started.elapsed() < Duration::from_secs(9), "{silent}: it took its default time");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_failure_is_one_line_with_cluster_hub_cause_and_next_step() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet);
    for (fault, code) in [
        (Fault::Unauthorized, 4),
        (Fault::Forbidden, 4),
        (
            Fault::Status(
                404,
                r#"{"kind":"Status","reason":"NotFound","message":"secrets \"x\" not found"}"#.into(),
            ),
            3,
        ),
        (Fault::Status(500, "oops".into()), 5),
        (Fault::PlainText(502, "proxy to anp-proxy-server failed".into()), 5),
        (Fault::TooManyRequests { retry_after: 30, times: 9 }, 5),
        (Fault::Truncated, 5),
        (Fault::Close, 5),
        (Fault::NotJson, 5),
    ] {
        forget(&sealed);
        fleet.hub().clear_faults();
        fleet.hub().fault(|_| true, fault.clone());
        let ran = run(&mut sealed.plugin(CONTEXT));
        assert!(ran.code != 0 && ran.stdout.is_empty(), "{fault:?}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{fault:?}: {ran:?}");
        assert!(ran.stderr.contains("cluster1") && ran.stderr.contains("hub context hub"), "{ran:?}");
        assert_eq!(ran.code, code, "{fault:?}: {ran:?}");
    }
}

#[test]
fn a_failure_is_remembered_for_the_runs_of_one_command() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet);
    forget(&sealed);
    let rule = fleet.hub().fault(|_| true, Fault::Forbidden);
    fleet.hub().clear_log();
    let said: Vec<_> = (0..4).map(|_| run(&mut sealed.plugin(CONTEXT)).fails(4)).collect();
    assert!(said.iter().all(|line| *line == said[0]), "{said:?}");
    assert_eq!(fleet.hub().log().len(), 1, "four runs, one call");
    rule.end();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(sealed.token(CONTEXT), fleet.token("cluster1", "inventory"));
}

#[test]
fn the_second_command_makes_no_hub_request() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet);
    let first = sealed.token(CONTEXT);
    fleet.hub().clear_log();
    fleet.hub().mute(true);
    for _ in 0..3 {
        assert_eq!(sealed.token(CONTEXT), first);
    }
    assert!(fleet.hub().log().is_empty());
}

#[test]
fn the_same_process_asking_twice_means_that_the_token_was_refused() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet);
    let old = sealed.token(CONTEXT);
    let new = fleet.rotate("cluster1", "inventory");
    assert_eq!(sealed.token(CONTEXT), old, "another process is served from the cache");

    // One shell is the parent of both runs, as kubectl would be.
    let mut twice = sealed.command("/bin/sh");
    twice.args(["-c", r#""$@" && "$@"; exit $?"#, "kubectl"]).args(sealed.plugin_line(CONTEXT));
    twice.env("KUBERNETES_EXEC_INFO", exec_info("v1", None));
    let answers = run(&mut twice).ok();
    let tokens: Vec<_> = answers.lines().map(token).collect();
    assert_eq!(tokens, [old, new.clone()]);
    assert_eq!(sealed.token(CONTEXT), new, "and it is kept for the next one");
}

#[test]
fn the_end_of_a_token_is_always_told() {
    let fleet = Fleet::builder()
        .spokes(1)
        .account("cluster1", "opaque", AccountSpec { token: TokenKind::Opaque, ..AccountSpec::default() })
        .start();
    let sealed = Sealed::at(&fleet);
    let shape = |text: &str| {
        text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T' && !text.contains('.')
    };
    let until = |sa: &str, zone: &str| {
        sealed.inventory(&["use", "cluster1", "--sa", sa, "--context-name", sa, "--force"]).ok();
        let answer = run(sealed.plugin(sa).env("TZ", zone)).ok();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let text = answer["status"]["expirationTimestamp"].as_str().unwrap().to_owned();
        assert!(shape(&text), "{text}");
        text.parse::<jiff::Timestamp>().unwrap().as_second() - jiff::Timestamp::now().as_second()
    };
    for zone in ["UTC", "America/St_Johns", "Asia/Kathmandu"] {
        let left = until("inventory", zone);
        assert!((8639 * 3600..=8640 * 3600).contains(&left), "{left}");
    }
    // The account's own status says it for an opaque token, else it is five minutes.
    assert!(until("opaque", "UTC") > 0);
    let path = "/apis/authentication.open-cluster-management.io/v1beta1/namespaces/cluster1/managedserviceaccounts/opaque";
    fleet.hub().edit(path, |account| {
        account["status"]["expirationTimestamp"] = Value::Null;
    });
    forget(&sealed);
    let left = until("opaque", "UTC");
    assert!((200..=300).contains(&left), "{left}");
}

#[test]
fn an_expired_token_is_never_given_out() {
    let spec = AccountSpec {
        token: TokenKind::Jwt { age: 10 * 86_400, expires_in: -3 * 86_400 - 60 },
        ..AccountSpec::default()
    };
    let fleet = Fleet::builder().spokes(1).account("cluster1", "inventory", spec).start();
    let sealed = used(&fleet);
    let said = run(&mut sealed.plugin(CONTEXT)).stderr;
    assert!(said.contains("token expired 3 d ago; the agent on cluster1 is not rotating it"), "{said}");
}

#[test]
fn a_token_that_is_short_of_life_is_served_and_not_kept() {
    let spec = AccountSpec { token: TokenKind::jwt(50), ..AccountSpec::default() };
    let fleet = Fleet::builder().spokes(1).account("cluster1", "inventory", spec).start();
    let sealed = used(&fleet);
    fleet.hub().clear_log();
    for _ in 0..2 {
        assert_eq!(sealed.token(CONTEXT), fleet.token("cluster1", "inventory"));
    }
    assert_eq!(fleet.hub().log().len(), 2, "asked each time");
    let new = fleet.rotate_to("cluster1", "inventory", TokenKind::jwt(7200));
    assert_eq!(sealed.token(CONTEXT), new);
    fleet.hub().clear_log();
    assert_eq!(sealed.token(CONTEXT), new);
    assert!(fleet.hub().log().is_empty());
}

#[test]
fn arguments_and_the_cluster_that_kubectl_names_must_agree() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = used(&fleet);
    for (named, fine) in [(None, true), (Some("cluster1"), true), (Some("cluster2"), false)] {
        let ran = run(&mut sealed.plugin_with(CONTEXT, &exec_info("v1", named)));
        assert_eq!(ran.code == 0, fine, "{named:?}: {ran:?}");
        if !fine {
            assert!(ran.stderr.contains("cluster1") && ran.stderr.contains("cluster2"), "{ran:?}");
        }
    }
}

#[test]
fn it_runs_without_a_path_and_where_nothing_can_be_written() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet);
    assert!(std::path::Path::new(&sealed.plugin_line(CONTEXT)[0]).is_absolute());
    let ran = run(sealed.plugin(CONTEXT).env("PATH", "/usr/bin:/bin").current_dir("/"));
    assert_eq!(token(&ran.ok()), fleet.token("cluster1", "inventory"));
    let ran = run(sealed.plugin(CONTEXT).env("KUBECTL_INVENTORY_CACHE_DIR", "/proc/none"));
    assert_eq!((ran.code, &*ran.stderr), (0, ""), "{ran:?}");
    let mut line = sealed.plugin_line(CONTEXT);
    line.push("-v".to_owned());
    let ran = run(sealed
        .command(&line[0])
        .args(&line[1..])
        .env("KUBERNETES_EXEC_INFO", exec_info("v1", None))
        .env("KUBECTL_INVENTORY_CACHE_DIR", "/proc/none"));
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_closed_pipe_is_no_panic_and_no_success() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = used(&fleet);
    let line = sealed.plugin_line(CONTEXT);
    let mut child = sealed.command(&line[0]);
    let mut child = child.args(&line[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(1), &b""[..]));
}

#[test]
fn it_stands_in_for_ocms_own_plugin() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    let plugin = e2e::binaries::binaries().join("credential-exec");
    let ask = |cluster: Option<&str>, account: &str| {
        let mut command = sealed.command(&plugin);
        command.args(["--managed-serviceaccount", account]).env("NAMESPACE", "cluster-inventory");
        run(command.env("KUBERNETES_EXEC_INFO", exec_info("v1", cluster)))
    };
    for cluster in ["cluster1", "cluster2"] {
        assert_eq!(token(&ask(Some(cluster), "inventory").ok()), fleet.token(cluster, "inventory"));
    }
    let said = ask(None, "inventory").fails(2);
    assert!(said.contains("provideClusterInfo"), "{said}");
    let said = ask(Some("cluster1"), "nobody").fails(3);
    assert!(said.contains("cluster1-nobody"), "{said}");
}
