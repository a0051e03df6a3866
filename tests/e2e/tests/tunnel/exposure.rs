//! What a tunnel shows of itself to the rest of the machine, and what it keeps.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use e2e::sealed::run;
use rustix::process::Signal;

use crate::laptop::{CONTEXT, Laptop, signal, until};

/// The addresses on which a process listens, as the kernel writes them.
fn listens(pid: u32) -> Vec<String> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links: Vec<_> = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    let sockets: Vec<String> = links
        .iter()
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<_> = line.split_whitespace().collect();
            let is_open_to_others = table.starts_with("udp") || words[3] == "0A";
            if is_open_to_others && sockets.iter().any(|inode| inode == words[9]) {
                found.push(words[1].to_owned());
            }
        }
    }
    found
}

#[test]
fn it_listens_on_the_loopback_alone() {
    let laptop = Laptop::new();
    laptop.namespaces();
    assert_eq!(listens(laptop.sealed.tunnel_pid()), [format!("0100007F:{:04X}", laptop.port())]);
}

#[test]
fn its_files_are_its_user_s_alone_under_any_umask() {
    for umask in ["000", "022", "077"] {
        let laptop = Laptop::new();
        let line = laptop.sealed.plugin_line(CONTEXT);
        let mut shell = laptop.sealed.command("/bin/sh");
        shell.args(["-c", r#"umask "$0"; exec "$@""#, umask]).args(&line);
        run(shell.env("KUBERNETES_EXEC_INFO", laptop.exec_info().to_string())).ok();
        let dir = laptop.sealed.cache().join("tunnels");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700, "umask {umask}");
        let files: Vec<_> = fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(files.iter().any(|file| fs::metadata(file).unwrap().file_type().is_socket()));
        for file in files {
            assert_eq!(mode(&file) & 0o077, 0, "{} under umask {umask}", file.display());
        }
    }
}

#[test]
fn nothing_that_is_to_be_kept_is_in_its_log_its_arguments_or_its_status() {
    let laptop = Laptop::new();
    laptop.namespaces();
    let pid = laptop.sealed.tunnel_pid();
    laptop.fleet.hub().hang_up();
    until("it noticed", || laptop.sealed.tunnel_log().contains("ended"));
    laptop.namespaces();
    laptop.keeps_secrets(&laptop.sealed.tunnel_log());
    laptop.keeps_secrets(&laptop.sealed.tunnel().to_string());
    for file in ["cmdline", "environ"] {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap();
        laptop.keeps_secrets(&String::from_utf8_lossy(&text));
    }
}

#[test]
fn it_is_a_process_of_its_own_and_inherits_nothing() {
    let laptop = Laptop::new();
    // What a kubectl has open when it runs the plugin: a file, and a pipe that a script reads to its end.
    let held = laptop.sealed.write("held", "");
    let line = laptop.sealed.plugin_line(CONTEXT);
    let mut shell = laptop.sealed.command("/bin/sh");
    shell.args(["-c", r#"exec 7<"$0" 8>&1 9>&2; "$@"; exit $?"#]).arg(&held).args(&line);
    // It returns, although stdout and stderr are read to their ends.
    run(shell.env("KUBERNETES_EXEC_INFO", laptop.exec_info().to_string())).ok();
    let pid = laptop.sealed.tunnel_pid();
    let proc = format!("/proc/{pid}");
    for entry in fs::read_dir(format!("{proc}/fd")).unwrap().flatten() {
        let to = fs::read_link(entry.path()).unwrap_or_default();
        let name = to.to_string_lossy().into_owned();
        let own = ["socket:", "anon_inode:", "/dev/null"].iter().any(|kind| name.starts_with(kind))
            || to.starts_with(laptop.sealed.cache());
        assert!(own, "{name}");
    }
    let stat = fs::read_to_string(format!("{proc}/stat")).unwrap();
    let group = stat.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap().to_owned();
    assert_eq!(group, pid.to_string(), "Ctrl-C at kubectl does not reach it");
    assert_ne!(fs::read_link(format!("{proc}/cwd")).unwrap(), std::env::current_dir().unwrap());
}

#[test]
fn its_log_does_not_grow_without_end() {
    let laptop = Laptop::new();
    laptop.namespaces();
    let dir = laptop.sealed.cache().join("tunnels");
    let log = fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.path());
    let log = log.into_iter().find(|path| path.extension().is_some_and(|e| e == "log")).unwrap();
    let full = "2026-01-01T00:00:00Z something that happened\n".repeat(10_000);
    fs::write(&log, full).unwrap();
    laptop.fleet.hub().hang_up();
    until("it is cut", || fs::metadata(&log).unwrap().len() < 100 << 10);
    laptop.namespaces();
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("connected to Pod") && text.starts_with("2026-"), "{text}");
}

#[test]
fn who_is_between_sees_no_token() {
    let laptop = Laptop::new();
    laptop.namespaces();
    signal(laptop.sealed.tunnel_pid(), Signal::KILL);
    // A server with another certificate on our port: kubectl ends it before the token.
    let stranger = std::cell::OnceCell::new();
    until("the port is free", || match TcpListener::bind(("127.0.0.1", laptop.port())) {
        Ok(listener) => stranger.set(listener).is_ok(),
        Err(_) => false,
    });
    let other = fleet::Fleet::builder().spokes(1).start();
    let relay = stranger.into_inner().unwrap();
    let to = other.spoke("cluster1").address();
    std::thread::spawn(move || {
        for mut here in relay.incoming().flatten() {
            let Ok(mut there) = std::net::TcpStream::connect(to) else { return };
            let (mut from, mut back) = (here.try_clone().unwrap(), there.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut back));
            std::thread::spawn(move || std::io::copy(&mut there, &mut here));
        }
    });
    let token = laptop.fleet.token("cluster1", "inventory");
    laptop.ask("/api/v1/namespaces", &token).unwrap_err();
    if let Some(kubectl) = laptop.sealed.kubectl(&["get", "ns"]) {
        kubectl.fails(1);
    }
    assert!(other.spoke("cluster1").log().is_empty());
    assert_eq!(other.spoke("cluster1").requests_with(&token), 0);
}
