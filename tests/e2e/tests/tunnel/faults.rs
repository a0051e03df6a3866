//! What goes wrong between a laptop and a spoke, and that the next kubectl works all the same.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use e2e::sealed::{Ran, Sealed, run, token};
use fleet::Fleet;
use rustix::process::Signal;

use crate::laptop::{CONTEXT, Laptop, lives, signal, until};

#[test]
fn a_tunnel_that_was_killed_is_followed_by_another() {
    let laptop = Laptop::new();
    laptop.namespaces();
    let first = laptop.sealed.tunnel_pid();
    signal(first, Signal::KILL);
    until("it is dead", || !lives(first));
    laptop.namespaces();
    assert_ne!(laptop.sealed.tunnel_pid(), first);
}

#[test]
fn forty_at_once_start_one_tunnel() {
    let laptop = Laptop::new();
    let forty: Vec<_> = (0..40)
        .map(|_| {
            let mut command = laptop.sealed.plugin(CONTEXT);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in forty {
        token(&Ran::from(child.wait_with_output().unwrap()).ok());
    }
    laptop.sealed.tunnel();
    assert_eq!(laptop.sealed.tunnel_log().matches("version ").count(), 1);
    assert_eq!(laptop.fleet.tunnel().connections(), 1);
    laptop.namespaces();
}

#[test]
fn a_port_that_a_stranger_took_gets_no_token() {
    let laptop = Laptop::new();
    let port = laptop.port();
    let stranger = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let seen = thread::spawn(move || {
        let (mut stream, _) = stranger.accept().unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    });
    // With a token in the cache and without.
    for clear in [false, true] {
        if clear {
            laptop.sealed.inventory(&["cache", "clear"]).ok();
        }
        let error = laptop.plugin().fails(5);
        assert!(error.contains(&format!("port {port} of this machine")), "{error}");
        assert!(error.contains("is taken by another program"), "{error}");
        assert!(error.contains("kubectl inventory use cluster1"), "{error}");
    }
    if let Some(kubectl) = laptop.sealed.kubectl(&["get", "ns"]) {
        assert!(kubectl.fails(1).contains(&format!("port {port} of this machine")));
    }
    // The remedy helps while the stranger is still there.
    laptop.use_cluster();
    assert_ne!(laptop.port(), port);
    laptop.namespaces();

    TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert_eq!(seen.join().unwrap(), b"", "nobody else came");
}

#[test]
fn a_stranger_that_comes_later_is_no_server_of_ours() {
    let laptop = Laptop::new();
    laptop.namespaces();
    signal(laptop.sealed.tunnel_pid(), Signal::KILL);
    let port = laptop.port();
    let stranger = std::cell::OnceCell::new();
    until("the port is free", || match TcpListener::bind(("127.0.0.1", port)) {
        Ok(listener) => stranger.set(listener).is_ok(),
        Err(_) => false,
    });
    laptop.plugin().fails(5);
    drop(stranger);
    // A process that another test forks just now may hold the port for a moment.
    until("it works again", || laptop.plugin().code == 0);
    laptop.namespaces();
}

#[test]
fn a_laptop_that_slept_connects_anew() {
    let laptop = Laptop::new();
    laptop.namespaces();
    let pid = laptop.sealed.tunnel_pid();
    // Its connections went while it could not notice.
    signal(pid, Signal::STOP);
    laptop.fleet.hub().hang_up();
    signal(pid, Signal::CONT);
    laptop.namespaces();
    assert_eq!(laptop.sealed.tunnel_pid(), pid);
    assert!(laptop.sealed.tunnel_log().contains("ended"), "{}", laptop.sealed.tunnel_log());
}

#[test]
fn a_tunnel_that_does_not_answer_is_an_error_that_says_how_to_end_it() {
    let laptop = Laptop::new();
    laptop.namespaces();
    let pid = laptop.sealed.tunnel_pid();
    signal(pid, Signal::STOP);
    let error = laptop.plugin().fails(5);
    signal(pid, Signal::CONT);
    assert!(error.contains("does not answer") && error.contains("tunnel stop --all"), "{error}");
    laptop.namespaces();
}

#[test]
fn a_hub_that_fell_silent_is_noticed_and_connected_to_again() {
    let laptop = Laptop::new();
    laptop.namespaces();
    laptop.fleet.hub().hang(true);
    until("it is noticed", || laptop.sealed.tunnel_log().contains("does not answer"));
    laptop.fleet.hub().hang(false);
    thread::sleep(Duration::from_secs(2));
    laptop.namespaces();
}

#[test]
fn a_pod_that_goes_is_followed_by_another() {
    for linger in [false, true] {
        let laptop = Laptop::new();
        let tunnel = laptop.fleet.tunnel();
        tunnel.linger(linger);
        laptop.namespaces();
        let _open = laptop.connect();
        until("it is open", || tunnel.streams() > 0);
        let gone = tunnel.pods().remove(0);
        tunnel.add_pod("another");
        tunnel.delete_pod(&gone);
        laptop.namespaces();
        assert_eq!(laptop.sealed.tunnel()["pod"], "another", "lingers: {linger}");
        let log = laptop.sealed.tunnel_log();
        assert!(log.contains(&gone) && log.contains("connected to Pod another"), "{log}");
    }
}

#[test]
fn a_pod_that_is_not_ready_any_more_is_used_until_it_goes() {
    let laptop = Laptop::new();
    laptop.namespaces();
    let pod = laptop.fleet.tunnel().pods().remove(0);
    laptop.fleet.tunnel().set_ready(&pod, false);
    laptop.namespaces();
    laptop.fleet.tunnel().delete_pod(&pod);
    until("it is gone", || laptop.fleet.tunnel().connections() == 0);
    let error = laptop.plugin().fails(5);
    assert!(error.contains("no Pod behind Service") && error.contains("kubectl get pods -n"), "{error}");
}

#[test]
fn two_hundred_connections_come_and_go_by_halves() {
    let laptop = Laptop::new();
    let token = token(&laptop.plugin().ok());
    let pid = laptop.sealed.tunnel_pid();
    for _ in 0..2 {
        let mut connections: Vec<_> = (0..200).map(|_| laptop.connect()).collect();
        until("all are open", || laptop.connections() == 200);
        // The first words of TLS and no more: each server waits for the rest.
        for connection in &mut connections {
            connection.write_all(&[0x16, 3, 1]).unwrap();
        }
        until("all have a stream", || laptop.fleet.tunnel().streams() >= 200);
        laptop.ask("/api/v1/namespaces", &token).unwrap();
        for connection in &connections {
            connection.shutdown(Shutdown::Write).unwrap();
        }
        for mut connection in connections {
            connection.read_to_end(&mut Vec::new()).unwrap();
        }
        until("none is open", || laptop.connections() == 0);
        until("no stream is left but the spare one", || laptop.fleet.tunnel().streams() <= 1);
    }
    laptop.namespaces();
    assert_eq!(laptop.sealed.tunnel_pid(), pid);
}

#[test]
fn who_just_goes_away_leaves_nothing_open() {
    let laptop = Laptop::new();
    laptop.plugin().ok();
    let connections: Vec<_> = (0..20)
        .map(|_| {
            let mut connection = laptop.connect();
            connection.write_all(&[0x16, 3, 1]).unwrap();
            connection
        })
        .collect();
    until("all are open", || laptop.connections() == 20);
    drop(connections);
    until("none is open", || laptop.connections() == 0);
}

#[test]
fn a_tunnel_that_nobody_uses_leaves_and_one_in_use_stays() {
    let laptop = Laptop::with("tunnel: {idle: 2s}");
    laptop.namespaces();
    let first = laptop.sealed.tunnel_pid();
    let open = laptop.connect();
    thread::sleep(Duration::from_secs(5));
    assert_eq!(laptop.sealed.tunnel_pid(), first, "it is in use");
    drop(open);
    until("it left", || !lives(first));
    assert!(laptop.sealed.tunnels().is_empty());
    assert!(laptop.sealed.tunnel_log().contains("not used any more"));
    let sockets = std::fs::read_dir(laptop.sealed.cache().join("tunnels")).unwrap().flatten();
    let sockets = sockets.filter(|entry| entry.path().extension().is_some_and(|e| e == "sock"));
    assert_eq!(sockets.count(), 0);
    laptop.namespaces();
    assert_ne!(laptop.sealed.tunnel_pid(), first);
}

/// Each user has a home of their own; only the ports of the machine are everybody's.
#[test]
fn two_users_of_one_machine_get_a_port_each() {
    let one = Laptop::new();
    let other = Sealed::at(&one.fleet);
    other.inventory(&["use", "cluster1"]).ok();
    let port = |sealed: &Sealed| sealed.entry("clusters", CONTEXT)["cluster"]["server"].clone();
    assert_eq!(port(&one.sealed), port(&other), "derived from hub and Service");

    one.namespaces();
    let error = run(&mut other.plugin(CONTEXT)).fails(5);
    assert!(error.contains("is taken by another program"), "{error}");
    other.inventory(&["use", "cluster1"]).ok();
    assert_ne!(port(&one.sealed), port(&other));
    other.token(CONTEXT);
    one.namespaces();
    assert_ne!(one.sealed.tunnel_pid(), other.tunnel_pid());
    assert_eq!(one.sealed.tunnels().len(), 1, "nobody sees the other's");
}

#[test]
fn two_clusters_of_one_hub_share_a_tunnel() {
    let laptop = Laptop::new();
    laptop.namespaces();
    laptop.sealed.inventory(&["use", "cluster2"]).ok();
    laptop.sealed.token("cluster2@hub");
    let port = |context: &str| {
        let server = laptop.sealed.entry("clusters", context)["cluster"]["server"].clone();
        server.as_str().unwrap().rsplit_once('/').unwrap().0.to_owned()
    };
    assert_eq!(port(CONTEXT), port("cluster2@hub"));
    laptop.sealed.tunnel();
}

#[test]
fn a_newer_plugin_takes_over_and_what_is_open_goes_on() {
    let laptop = Laptop::new();
    let old = older_plugin(&laptop.sealed);
    let line = laptop.sealed.plugin_line(CONTEXT);
    let info = laptop.exec_info().to_string();
    let mut command = laptop.sealed.command(&old);
    let token = token(&run(command.args(&line[1..]).env("KUBERNETES_EXEC_INFO", info)).ok());
    let first = laptop.sealed.tunnel();
    assert_eq!(first["version"], "0.0.9");

    let watch = laptop.client();
    let url = format!("{}/api/v1/namespaces?watch=true", laptop.url());
    let mut watch = watch.get(url).bearer_auth(&token).send().unwrap();
    laptop.namespaces();
    let tunnels = laptop.sealed.tunnels();
    assert_eq!(tunnels.len(), 2, "{tunnels:#?}");
    let [leaving, new] = [true, false].map(|d| tunnels.iter().find(|t| t["draining"] == d).unwrap());
    assert_eq!((&leaving["pid"], &leaving["connections"]), (&first["pid"], &1.into()));
    assert_ne!(new["version"], "0.0.9");
    assert_eq!(new["ports"], first["ports"]);

    laptop.fleet.spoke("cluster1").put("/api/v1/namespaces/late", serde_json::json!({}));
    let mut text = String::new();
    while !text.contains("late") {
        let mut piece = [0; 4096];
        let read = watch.read(&mut piece).unwrap();
        assert_ne!(read, 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    drop(watch);
    until("the old one left", || laptop.sealed.tunnels().len() == 1);
    laptop.namespaces();
}

/// The plugin with another version in it.
fn older_plugin(sealed: &Sealed) -> std::path::PathBuf {
    let (now, then) = (env!("CARGO_PKG_VERSION").as_bytes(), b"0.0.9");
    assert_eq!(now.len(), then.len(), "written over in place");
    let mut program = std::fs::read(&sealed.plugin_line(CONTEXT)[0]).unwrap();
    for at in 0..program.len() - now.len() {
        if &program[at..at + now.len()] == now {
            program[at..at + now.len()].copy_from_slice(then);
        }
    }
    let path = sealed.path("older-credential-exec");
    std::fs::write(&path, program).unwrap();
    run(Command::new("chmod").arg("+x").arg(&path)).ok();
    path
}

#[test]
fn a_login_that_needs_a_person_is_asked_for_in_the_foreground_alone() {
    let laptop = Laptop::of(Fleet::builder().spokes(1), "");
    laptop.use_cluster();
    laptop.log_in_by(&format!(
        r#"case "$KUBERNETES_EXEC_INFO" in
*'"interactive":true'*) read answer && echo asked >>"$HOME/asked" && touch "$HOME/session" ;;
esac
[ -e "$HOME/session" ] || {{ echo "log in first" >&2; exit 1; }}
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"{}"}}}}'
"#,
        laptop.fleet.viewer_token()
    ));
    let session = laptop.sealed.path("session");
    std::fs::write(&session, "").unwrap();
    let cached = token(&laptop.plugin().ok());
    laptop.ask("/api/v1/namespaces", &cached).unwrap();

    // The session ends while the tunnel lives, and so does its connection to the hub.
    std::fs::remove_file(&session).unwrap();
    laptop.fleet.hub().hang_up();
    until("it tried", || laptop.sealed.tunnel_log().contains("the hub's login command"));
    assert!(!laptop.sealed.path("asked").exists(), "nobody was asked in the background");
    let error = laptop.plugin();
    assert!(error.code != 0 && error.stdout.is_empty(), "{error:?}");
    assert!(error.stderr.contains("log in"), "{error:?}");
    assert!(!laptop.sealed.path("asked").exists(), "nor where there is no terminal");

    laptop.wait_out_a_failure();
    let shown = laptop.plugin_in_a_terminal();
    assert!(shown.contains(&cached), "{shown}");
    assert!(laptop.sealed.path("asked").exists());
    laptop.ask("/api/v1/namespaces", &cached).unwrap();
}

#[test]
fn a_hub_behind_a_proxy_is_reached_through_it() {
    let laptop = Laptop::new();
    let (address, used) = e2e::proxy::start(laptop.fleet.hub().address());
    let mut config = laptop.fleet.kubeconfig();
    config["clusters"][0]["cluster"]["proxy-url"] = format!("http://{address}").into();
    laptop.sealed.write(".kube/config", &config.to_string());
    laptop.use_cluster();
    used.store(0, std::sync::atomic::Ordering::SeqCst);
    laptop.namespaces();
    assert!(used.load(std::sync::atomic::Ordering::SeqCst) >= 1);
    assert!(laptop.sealed.entry("clusters", CONTEXT)["cluster"]["proxy-url"].is_null());
}

#[test]
fn a_hub_without_websockets_is_told_from_one_that_refuses() {
    let laptop = Laptop::new();
    let forwards = || -> Vec<(String, u16)> {
        let log = laptop.fleet.hub().log().into_iter().filter(|line| line.path.ends_with("/portforward"));
        log.map(|line| (line.method, line.status)).collect()
    };
    let old = laptop.fleet.tunnel().refuse_websocket();
    laptop.namespaces();
    assert_eq!(forwards().last().unwrap(), &("POST".to_owned(), 101), "the form before it");
    old.end();
    laptop.sealed.inventory(&["tunnel", "stop"]).ok();

    let stripped = laptop.fleet.tunnel().refuse_upgrades();
    let upgrade = laptop.plugin().fails(5);
    assert!(upgrade.contains("upgrade") || upgrade.contains("Upgrade"), "{upgrade}");
    assert!(!upgrade.contains("pods/portforward"), "{upgrade}");
    stripped.end();

    laptop.fleet.hub().forbid(fleet::Request::is_portforward);
    laptop.wait_out_a_failure();
    let forbidden = laptop.plugin().fails(4);
    assert!(forbidden.contains("get and create on pods/portforward"), "{forbidden}");
    assert!(forbidden.contains("open-cluster-management-addon"), "{forbidden}");
    laptop.fleet.hub().allow_all();
    laptop.wait_out_a_failure();
    laptop.namespaces();
}

#[test]
fn a_missing_service_or_hub_is_named() {
    let laptop = Laptop::new();
    laptop.plugin().ok();
    laptop.sealed.inventory(&["tunnel", "stop"]).ok();
    laptop.fleet.tunnel().delete_service();
    let missing = laptop.plugin();
    assert!(missing.stderr.contains("--set enableServiceProxy=true"), "{missing:?}");
    assert!(laptop.sealed.tunnels().is_empty(), "one that cannot work does not stay");
    laptop.fleet.hub().stop();
    until("the hub is down", || TcpStream::connect(laptop.fleet.hub().address()).is_err());
    laptop.wait_out_a_failure();
    let down = laptop.plugin().fails(5);
    assert!(down.contains("hub context hub"), "{down}");
}

#[test]
fn a_renewed_certificate_is_accepted_and_an_unknown_one_named() {
    let laptop = Laptop::new();
    let server = laptop.fleet.tunnel().user_server();
    laptop.namespaces();
    server.present(&server.identity().renewed());
    laptop.sealed.inventory(&["tunnel", "stop"]).ok();
    laptop.namespaces();

    server.present(&fleet::Identity::new(fleet::tunnel::certificate()));
    laptop.sealed.inventory(&["tunnel", "stop"]).ok();
    let changed = laptop.plugin().fails(5);
    assert!(
        changed.contains("certificate changed") && changed.contains("kubectl inventory use cluster1"),
        "{changed}"
    );
}

#[test]
fn what_the_user_server_says_of_an_agent_that_is_away_comes_through() {
    let laptop = Laptop::new();
    laptop.fleet.tunnel().lose_agents();
    assert!(laptop.namespaces().contains("proxy to anp-proxy-server failed"));
}
