//! A real kubectl forwards to the user-server of an embedded hub, and requests go through it.
//! Skipped, and said so, where PATH has no kubectl.

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fleet::{Fleet, Tunnel, tunnel};
use reqwest::{Certificate, Client, StatusCode};
use serde_json::{Value, json};
use support::Kubectl;

/// A `kubectl port-forward` that runs.
struct Forward {
    child: Child,
    port: u16,
}

impl Forward {
    /// To the Service; `websocket` or the form before it.
    fn start(kubectl: &Kubectl, websocket: bool) -> Self {
        let line = format!("port-forward -n {} svc/{} :{}", tunnel::NAMESPACE, tunnel::SERVICE, tunnel::PORT);
        let mut command = kubectl.command(&line);
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websocket.to_string());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        // `Forwarding from 127.0.0.1:40123 -> 9092`
        let port = first.split_whitespace().nth(2).and_then(|at| at.rsplit_once(':')?.1.parse().ok());
        let port = port.unwrap_or_else(|| {
            let mut text = String::new();
            child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("{first}{text}")
        });
        std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
        Self { child, port }
    }

    /// Waits until it ends by itself.
    fn ends(mut self) -> String {
        until("kubectl ends", || self.child.try_wait().unwrap().is_some());
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn client(&self, tunnel: &Tunnel) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bundle = tunnel.user_server().ca_pem();
        let signer = Certificate::from_pem_bundle(bundle.as_bytes()).unwrap();
        let builder = Client::builder().tls_certs_only(signer).no_proxy().http1_only();
        builder.resolve(&host(), ([127, 0, 0, 1], self.port).into()).build().unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}:{}{path}", host(), self.port)
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn host() -> String {
    format!("{}.{}", tunnel::SERVICE, tunnel::NAMESPACE)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The lines of the hub's log that are port-forwards: method and status.
fn forwards(fleet: &Fleet) -> Vec<(String, u16)> {
    let log = fleet.hub().log();
    let ours = log.into_iter().filter(|line| line.path.ends_with("/portforward"));
    ours.map(|line| (line.method, line.status)).collect()
}

#[test]
fn kubectl_reaches_a_spoke_in_both_forms() {
    for (websocket, method) in [(true, "GET"), (false, "POST")] {
        let fleet = Fleet::builder().spokes(2).tunnelled().start();
        let Some(kubectl) = Kubectl::new(&fleet.kubeconfig()) else { return };
        let forward = Forward::start(&kubectl, websocket);
        assert_eq!(forwards(&fleet), [(method.to_owned(), 101)]);
        until("it is one connection", || fleet.tunnel().connections() == 1);
        assert_eq!(fleet.tunnel().streams(), 0);
        std::fs::write(kubectl.home.path().join("ca"), fleet.tunnel().user_server().ca_pem()).unwrap();
        for cluster in ["cluster1", "cluster2"] {
            let line = format!(
                "get ns -o name --server https://127.0.0.1:{}/{cluster} --tls-server-name {} \
                 --certificate-authority ca --token {}",
                forward.port,
                host(),
                fleet.token(cluster, "inventory")
            );
            assert_eq!(kubectl.run(&line).lines().next().unwrap(), format!("namespace/{cluster}"));
            assert!(fleet.spoke(cluster).log().iter().any(|line| line.prefix == cluster));
        }
        until("no stream is left", || fleet.tunnel().streams() == 0);
        assert!(fleet.tunnel().streams_ever() >= 2);
        drop(forward);
        until("no connection is left", || fleet.tunnel().connections() == 0);
    }
}

#[test]
fn many_connections_and_many_bytes_go_both_ways() {
    for websocket in [true, false] {
        let fleet = Fleet::builder().spokes(1).tunnelled().start();
        let Some(kubectl) = Kubectl::new(&fleet.kubeconfig()) else { return };
        let forward = Forward::start(&kubectl, websocket);
        let exchange = async |name: String, size: usize| {
            let client = forward.client(fleet.tunnel());
            let url = forward.url("/cluster1/api/v1/namespaces/default/configmaps");
            let token = fleet.token("cluster1", "inventory");
            let text = name.repeat(size / name.len());
            let object = json!({"metadata": {"name": name}, "data": {"text": text}}).to_string();
            let created = client.post(&url).bearer_auth(&token).body(object).send().await.unwrap();
            assert_eq!(created.status(), StatusCode::CREATED);
            // There is no flow control: an answer that nobody reads would stop all the others.
            created.bytes().await.unwrap();
            let read = client.get(format!("{url}/{name}")).bearer_auth(&token).send().await.unwrap();
            let read: Value = serde_json::from_slice(&read.bytes().await.unwrap()).unwrap();
            assert_eq!(read["data"]["text"], text);
        };
        run(async {
            futures_util::future::join_all((0..40).map(|i| exchange(format!("small-{i}"), 64 * 1024))).await;
            exchange("large".to_owned(), 8 * 1024 * 1024).await;
        });
        assert!(fleet.tunnel().streams_ever() >= 41);
        assert_eq!(fleet.tunnel().connections(), 1);
    }
}

#[test]
fn kubectl_falls_back_where_the_server_is_old_and_fails_where_rbac_refuses() {
    let fleet = Fleet::builder().spokes(1).tunnelled().start();
    let Some(kubectl) = Kubectl::new(&fleet.kubeconfig()) else { return };
    let old = fleet.tunnel().refuse_websocket();
    drop(Forward::start(&kubectl, true));
    assert_eq!(forwards(&fleet), [("GET".to_owned(), 400), ("POST".to_owned(), 101)]);
    old.end();
    fleet.hub().forbid(|r| r.verb == "create" && r.is_portforward());
    let line = format!("port-forward -n {} svc/{} :{}", tunnel::NAMESPACE, tunnel::SERVICE, tunnel::PORT);
    let fails = |websocket: bool| {
        let mut command = kubectl.command(&line);
        let output = command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websocket.to_string()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = fails(false);
    let pod = &fleet.tunnel().pods()[0];
    let wanted = format!(
        "pods \"{pod}\" is forbidden: User \"viewer\" cannot create resource \"pods/portforward\" in API group \"\" \
         in the namespace \"{}\"",
        tunnel::NAMESPACE
    );
    assert!(text.contains(&wanted), "{text}");
    fleet.hub().allow_all();
    fleet.tunnel().refuse_upgrades();
    assert!(fails(true).contains("Upgrade request required"));
}

#[test]
fn kubectl_notices_a_deleted_pod_a_port_that_nobody_listens_on_and_a_hub_that_hangs_up() {
    let fleet = Fleet::builder().spokes(1).tunnelled().start();
    let Some(kubectl) = Kubectl::new(&fleet.kubeconfig()) else { return };
    let tunnel = fleet.tunnel();
    let connect = |forward: &Forward| std::net::TcpStream::connect(("127.0.0.1", forward.port)).unwrap();

    let forward = Forward::start(&kubectl, true);
    let path = tunnel.pod_path(&tunnel.pods()[0]);
    fleet.hub().edit(&path, |pod| pod["spec"]["containers"][0]["ports"][0]["containerPort"] = 8443.into());
    let _open = connect(&forward);
    let text = forward.ends();
    assert!(text.contains("connect: connection refused"), "{text}");

    for (websocket, linger) in [(true, false), (false, false), (true, true)] {
        tunnel.pods().iter().for_each(|pod| tunnel.delete_pod(pod));
        tunnel.add_pod("next");
        tunnel.linger(linger);
        let forward = Forward::start(&kubectl, websocket);
        let _open = connect(&forward);
        until("a stream", || tunnel.streams() == 1);
        tunnel.delete_pod("next");
        let text = forward.ends();
        assert!(text.contains("lost connection to pod") || text.contains("not found"), "{text}");
        until("no stream is left", || tunnel.streams() == 0 && tunnel.connections() == 0);
    }

    tunnel.add_pod("last");
    let forward = Forward::start(&kubectl, true);
    fleet.hub().hang_up();
    assert!(forward.ends().contains("lost connection to pod"));
}

#[test]
fn a_hub_that_hangs_or_is_far_away_is_felt_and_an_absent_agent_gives_502() {
    let fleet = Fleet::builder().spokes(1).tunnelled().start();
    let Some(kubectl) = Kubectl::new(&fleet.kubeconfig()) else { return };
    fleet.tunnel().delay(Duration::from_millis(50));
    let forward = Forward::start(&kubectl, true);
    let get = async || {
        let request = forward.client(fleet.tunnel()).get(forward.url("/cluster1/api/v1/namespaces"));
        let request = request.bearer_auth(fleet.token("cluster1", "inventory"));
        request.timeout(Duration::from_secs(2)).send().await.map(|answer| answer.status())
    };
    run(async {
        let start = Instant::now();
        assert_eq!(get().await.unwrap(), StatusCode::OK);
        // The streams, TLS and the request: three round trips or more of 100 ms.
        assert!(start.elapsed() > Duration::from_millis(300), "{:?}", start.elapsed());
        let absent = fleet.tunnel().lose_agents();
        assert_eq!(get().await.unwrap(), StatusCode::BAD_GATEWAY);
        absent.end();
        fleet.hub().hang(true);
        assert!(get().await.unwrap_err().is_timeout());
        assert_eq!(fleet.tunnel().connections(), 1);
        fleet.hub().hang(false);
        assert_eq!(get().await.unwrap(), StatusCode::OK);
        let other = forward.client(fleet.tunnel()).get(forward.url("/nowhere/api")).send().await.unwrap();
        assert_eq!(other.status(), StatusCode::BAD_REQUEST);
    });
}
