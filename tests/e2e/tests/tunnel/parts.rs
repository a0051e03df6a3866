//! The parts that the tunnel is tested with, by the real kubectl and with nothing of ours: a spoke
//! behind cluster-proxy's user-server behind a port-forward of the hub.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use e2e::controlplane::ocm::{ADDON, INVENTORY, Joined};
use e2e::controlplane::{ClusterProxy, ControlPlane, Forward, Kubelet};
use e2e::sealed::{run, run_with_input};
use fleet::machine::kubectl;
use serde_json::json;
use tempfile::TempDir;

use crate::running::Running;

const HOST: &str = "cluster-proxy-addon-user.open-cluster-management-addon";
const SERVICE: &str = "svc/cluster-proxy-addon-user";

#[test]
fn kubectl_reaches_a_spoke_through_its_hub() {
    let Some(machine) = Machine::new() else { return };
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    let Some(mut proxy) = ClusterProxy::install(&hub, &[("cluster1", &spoke)]).unwrap() else { return };
    proxy.allow("viewer").unwrap();

    let forward = machine.forward(&hub);
    machine.trust(&proxy);
    let through = |cluster: &str| machine.through(&forward, cluster, &spoke.admin_token());
    assert!(run(through("cluster1").args(["get", "ns"])).ok().contains("kube-system"));
    apply_and_watch(&|| through("cluster1"));
    containers(machine.home.path(), &spoke, &|| through("cluster1"));

    // What the stand-in says as the real one does.
    let elsewhere = run(through("cluster2").args(["get", "ns", "-v=8"])).fails(1);
    assert!(elsewhere.contains("no tunnel to cluster") && elsewhere.contains("cluster2"), "{elsewhere}");
    spoke.stop_apiserver();
    let unreachable = run(through("cluster1").args(["get", "ns", "-v=8"])).fails(1);
    assert!(unreachable.contains("proxy to anp-proxy-server failed because"), "{unreachable}");
    spoke.start_apiserver().unwrap();

    // A new signer: what was published before does not trust it.
    proxy.replace_certificate().unwrap();
    let old = run(through("cluster1").args(["get", "ns"])).fails(1);
    assert!(old.contains("certificate signed by unknown authority"), "{old}");
}

#[test]
fn a_cluster_proxy_comes_and_goes() {
    let Some(machine) = Machine::new() else { return };
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    Joined::join(&hub, &spoke, "cluster1", "dev").unwrap();
    let Some(mut proxy) = ClusterProxy::install(&hub, &[("cluster1", &spoke)]).unwrap() else { return };
    machine.trust(&proxy);
    let token = spoke.admin_token();
    let namespaces =
        |forward: &Running| run(machine.through(forward, "cluster1", &token).args(["get", "ns"]));
    let refused = || run(&mut machine.port_forward(&hub)).fails(1);

    proxy.publish("cluster1").unwrap();
    let path =
        format!("/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{INVENTORY}/clusterprofiles/cluster1");
    let profile = hub.call(&hub.token("viewer"), "GET", &path, None).unwrap().body;
    let published = &profile["status"]["accessProviders"][0]["cluster"];
    assert_eq!(published["server"], format!("https://{HOST}:9092/cluster1"));

    assert!(refused().contains("cannot get resource \"services\""));
    proxy.allow("viewer").unwrap();
    let first = proxy.pods()[0].to_owned();
    proxy.add_pending_pod("pending").unwrap();
    let forward = machine.forward(&hub);
    namespaces(&forward).ok();

    // A Pod takes its connections with it; the next one serves.
    proxy.delete_pod(&first).unwrap();
    namespaces(&forward).fails(1);
    proxy.add_pod().unwrap();
    proxy.renew_certificate().unwrap();
    let forward = machine.forward(&hub);
    namespaces(&forward).ok();

    // The hub restarts: its port, its objects and the kubelet's node are the same.
    hub.stop_apiserver();
    namespaces(&forward).fails(1);
    hub.start_apiserver().unwrap();
    namespaces(&machine.forward(&hub)).ok();

    proxy.delete_service().unwrap();
    assert!(refused().contains("services \"cluster-proxy-addon-user\" not found"));
}

fn apply_and_watch(through: &impl Fn() -> Command) {
    let watch = ["get", "configmaps", "--watch", "-o", "name"];
    let watch = Running::start(through().args(watch));
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"},
                          "data": {"big": "x".repeat(1 << 20)}});
    run_with_input(through().args(["apply", "--server-side", "-f", "-"]), manifest.to_string().as_bytes())
        .ok();
    watch.until("configmap/big");
    let big = run(through().args(["get", "cm", "big", "-o", "jsonpath={.data.big}"])).ok();
    assert_eq!(big.len(), 1 << 20);
}

/// Everything that needs an upgrade or a stream that stays open.
pub fn containers(folder: &Path, spoke: &ControlPlane, through: &impl Fn() -> Command) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().port();
    let forward = Forward { namespace: "default".to_owned(), pod: "web".to_owned(), port: 80, to };
    let Some(kubelet) = Kubelet::start(spoke, "spoke-node", &[forward]).unwrap() else { return };
    kubelet.run(spoke, "default", "web", &json!({ "app": "web" }), 80).unwrap();

    // kwok does not pass the end of stdin on: the command must know when to stop. Nor can cp upload,
    // since tar waits for that end.
    let content = "copied ".repeat(100_000);
    let upload = format!("head -c {} >there; echo done", content.len());
    let exec = ["exec", "-i", "web", "--", "sh", "-c", &upload];
    assert_eq!(run_with_input(through().args(exec), content.as_bytes()).ok(), "done\n");
    assert_eq!(fs::read_to_string(kubelet.workdir().join("there")).unwrap(), content);
    let copy = folder.join("copy").display().to_string();
    run(through().args(["cp", "web:there", &copy])).ok();
    assert_eq!(fs::read_to_string(copy).unwrap(), content);
    // It does not tell the exit code, but in words.
    let code = run(through().args(["exec", "web", "--", "sh", "-c", "echo wrong >&2; exit 7"]));
    assert!(code.stderr.contains("wrong") && code.stderr.contains("exit status 7"), "{code:?}");

    kubelet.log("first");
    let logs = Running::start(through().args(["logs", "-f", "web"]));
    logs.until("first");
    kubelet.log("second");
    logs.until("second");

    // It shows what is written after it attached, and does not tell when that was.
    let attached = Running::start(through().args(["attach", "web"]));
    let shown = (0..600).any(|_| {
        kubelet.log("third");
        attached.lines.recv_timeout(Duration::from_millis(100)).is_ok_and(|line| line == "third")
    });
    assert!(shown, "attach shows nothing");

    let forward = Running::start(through().args(["port-forward", "web", ":80"]));
    let port = forward.port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"hello\n").unwrap();
    });
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let line = BufReader::new(stream).lines().next().unwrap().unwrap();
    assert_eq!(line, "hello");
    server.join().unwrap();
}

/// A folder, and kubectl with nothing else of this machine.
struct Machine {
    kubectl: PathBuf,
    home: TempDir,
}

impl Machine {
    fn new() -> Option<Self> {
        let home = tempfile::Builder::new().prefix("kubelet-").tempdir().expect("a temporary folder");
        Some(Self { kubectl: kubectl()?, home })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env_clear().env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command
    }

    /// Port-forwards to the user-server as user `viewer` of the hub.
    fn port_forward(&self, hub: &ControlPlane) -> Command {
        fs::write(self.path("hub"), hub.kubeconfig(&hub.token("viewer"))).unwrap();
        let mut command = self.kubectl();
        command.arg("--kubeconfig").arg(self.path("hub"));
        command.args(["port-forward", "-n", ADDON, SERVICE, ":9092"]);
        command
    }

    fn forward(&self, hub: &ControlPlane) -> Running {
        Running::start(&mut self.port_forward(hub))
    }

    /// Asks a cluster behind the forwarded port, trusting what was published last.
    fn through(&self, forward: &Running, cluster: &str, token: &str) -> Command {
        let mut command = self.kubectl();
        command.arg(format!("--server=https://127.0.0.1:{}/{cluster}", forward.port()));
        command.arg(format!("--tls-server-name={HOST}")).arg(format!("--token={token}"));
        command.arg("--certificate-authority").arg(self.path("ca"));
        command
    }

    fn trust(&self, proxy: &ClusterProxy<'_>) {
        fs::write(self.path("ca"), proxy.ca_pem()).unwrap();
    }
}
