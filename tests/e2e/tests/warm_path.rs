//! A warm answer of credential-exec opens no socket and starts no thread and no process: every system
//! call that it makes is looked at. `CREDENTIAL_EXEC` names another build of it than the one that cargo
//! has made for the tests; tests/bench/warm-syscalls.sh does that with the release build.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use e2e::sealed::{Sealed, exec_info, run, token};
use fleet::Fleet;
use fleet::machine::skip;

const CONTEXT: &str = "cluster1@hub";

/// What a run that only reads a file has no use for.
const REFUSED: [&str; 19] = [
    "socket",
    "socketpair",
    "connect",
    "bind",
    "listen",
    "accept",
    "accept4",
    "sendto",
    "sendmsg",
    "recvfrom",
    "recvmsg",
    "io_uring_setup",
    "epoll_create1",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "unshare",
    "kill",
];

#[test]
fn a_warm_answer_opens_no_socket_and_starts_nothing() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return skip("no strace");
    }
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1", "--context", "hub"]).ok();
    let mut line = sealed.plugin_line(CONTEXT);
    if let Some(other) = std::env::var_os("CREDENTIAL_EXEC") {
        line[0] = PathBuf::from(other).canonicalize().expect("CREDENTIAL_EXEC").display().to_string();
    }

    let traced = |log: &str| {
        let log = sealed.path(log);
        // strace is the plugin's parent here, another one each time, as each kubectl is.
        let mut command = sealed.command("strace");
        command.args(["-f", "-o"]).arg(&log).arg("--").args(&line);
        command.env("KUBERNETES_EXEC_INFO", exec_info("v1", Some("cluster1")));
        assert_eq!(token(&run(&mut command).ok()), fleet.token("cluster1", "inventory"));
        system_calls(&fs::read_to_string(&log).expect("a trace"))
    };
    let cold = traced("cold.strace");
    assert!(cold.contains_key("socket") && cold.contains_key("connect"), "a cold run asks the hub: {cold:?}");
    fleet.hub().clear_log();

    let warm = traced("warm.strace");
    assert_eq!(fleet.hub().log().len(), 0, "requests to the hub");
    let list: Vec<_> = warm.iter().map(|(name, times)| format!("{name} {times}")).collect();
    let _ = writeln!(std::io::stderr(), "{}: {}", line[0], list.join(", "));
    let refused: Vec<_> = REFUSED.iter().filter(|name| warm.contains_key(**name)).collect();
    assert!(refused.is_empty(), "a warm run makes the system calls {refused:?}");
    assert_eq!(warm["execve"], 1, "only strace starts something");
}

/// Each system call of a log of `strace -f`, and how often it was made.
fn system_calls(log: &str) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for line in log.lines() {
        // `PID name(arguments) = result`; signals, exits and resumed calls look otherwise.
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        if let Some((name, _)) = call.split_once('(')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}
