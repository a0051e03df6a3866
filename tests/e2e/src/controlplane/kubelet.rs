//! A node on which Pods become ready at once: kwok, which answers as a kubelet does. Its Pods have no
//! containers of their own: a port of theirs is one of this machine, a command in them runs in a folder.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::process::{Process, free_ports, listens, wait};
use super::{ControlPlane, assets};

/// A port of a Pod, and the loopback port that stands for it.
#[derive(Clone, Debug)]
pub struct Forward {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod's name.
    pub pod: String,
    /// The port in the Pod.
    pub port: u16,
    /// The port on 127.0.0.1.
    pub to: u16,
}

/// A kubelet with its node; it ends when this is dropped, the node stays.
pub struct Kubelet {
    node: String,
    process: Process,
    dir: TempDir,
}

impl Kubelet {
    /// Makes a node and starts its kubelet; returns when the node is ready. `None` without Go, as with
    /// [`ControlPlane::start`].
    pub fn start(plane: &ControlPlane, node: &str, forwards: &[Forward]) -> Result<Option<Self>, String> {
        let Some(program) = assets::go_program("controlplane")? else { return Ok(None) };
        let dir = tempfile::Builder::new()
            .prefix(&format!("kubelet-{node}-"))
            .tempdir()
            .map_err(|error| format!("no temporary folder: {error}"))?;
        let failed = |error: std::io::Error| format!("{node}: {error}");
        for (file, content) in [
            ("kubeconfig", plane.kubeconfig(&plane.admin_token())),
            ("config.yaml", config(dir.path(), forwards)),
            ("log", String::new()),
        ] {
            fs::write(dir.path().join(file), content).map_err(failed)?;
        }
        fs::create_dir(dir.path().join("container")).map_err(failed)?;

        plane.create("/api/v1/nodes", &json!({ "metadata": { "name": node } }))?;
        let [port] = free_ports()?;
        let path = |file: &str| dir.path().join(file).display().to_string();
        let flags = [
            format!("--manage-single-node={node}"),
            "--node-ip=127.0.0.1".to_owned(),
            format!("--node-port={port}"),
            format!("--server-address=127.0.0.1:{port}"),
            format!("--tls-cert-file={}", plane.path("kubelet.crt")),
            format!("--tls-private-key-file={}", plane.path("kubelet.key")),
            format!("--kubeconfig={}", path("kubeconfig")),
            format!("--config={}", path("config.yaml")),
        ];
        let mut process = Process::start("kwok", vec![&program, Path::new("kwok")], dir.path(), &flags)?;
        let ready = || {
            let found = plane.request("GET", &format!("/api/v1/nodes/{node}"), None);
            listens(port) && found.is_ok_and(|found| is_ready(&found))
        };
        wait(&mut [&mut process], ready).map_err(|error| format!("{node}: {error}"))?;
        Ok(Some(Self { node: node.to_owned(), process, dir }))
    }

    /// Makes a Pod with one container on the node, and returns when it is ready.
    pub fn run(
        &self,
        plane: &ControlPlane,
        namespace: &str,
        name: &str,
        labels: &Value,
        port: u16,
    ) -> Result<(), String> {
        create_pod(plane, namespace, name, &self.node, labels, port)?;
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_ready(&plane.request(
            "GET",
            &format!("/api/v1/namespaces/{namespace}/pods/{name}"),
            None,
        )?) {
            if Instant::now() > deadline {
                return Err(format!("Pod {name}: not ready"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The folder in which commands run.
    pub fn workdir(&self) -> PathBuf {
        self.dir.path().join("container")
    }

    /// Writes one line to the log that every Pod of the node has, which is also what attach shows.
    pub fn log(&self, line: &str) {
        let entry = format!("{} stdout F {line}\n", "2026-01-01T00:00:00.000000000Z");
        File::options()
            .append(true)
            .open(self.dir.path().join("log"))
            .and_then(|mut log| log.write_all(entry.as_bytes()))
            .expect("the log of the containers");
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Makes a Pod that is bound to a node already: no scheduler runs.
pub(super) fn create_pod(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    node: &str,
    labels: &Value,
    port: u16,
) -> Result<(), String> {
    let container = json!({ "name": "main", "image": "none", "ports": [{ "containerPort": port }] });
    let pod = json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "nodeName": node, "containers": [container] },
    });
    plane.create(&format!("/api/v1/namespaces/{namespace}/pods"), &pod).map(|_| ())
}

/// Whether the condition `Ready` of a Pod or a node is true.
fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// What kwok is to do, as one stream of YAML documents.
fn config(dir: &Path, forwards: &[Forward]) -> String {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut objects = vec![
        stage("node-ready", "Node", &[("NotIn", READY, Some("True"))], &json!({ "statusTemplate": NODE })),
        stage(
            "pod-ready",
            "Pod",
            &[("DoesNotExist", DELETED, None), ("NotIn", READY, Some("True"))],
            &json!({ "statusTemplate": POD }),
        ),
        stage("pod-delete", "Pod", &[("Exists", DELETED, None)], &json!({ "delete": true })),
        object("ClusterLogs", &json!({ "name": "all" }), &json!({ "logs": [{ "logsFile": file("log") }] })),
        object(
            "ClusterAttach",
            &json!({ "name": "all" }),
            &json!({ "attaches": [{ "logsFile": file("log") }] }),
        ),
        object(
            "ClusterExec",
            &json!({ "name": "all" }),
            &json!({ "execs": [{ "local": { "workDir": file("container") } }] }),
        ),
    ];
    objects.extend(forwards.iter().map(|forward| {
        let metadata = json!({ "name": forward.pod, "namespace": forward.namespace });
        let target = json!({ "address": "127.0.0.1", "port": forward.to });
        object(
            "PortForward",
            &metadata,
            &json!({ "forwards": [{ "ports": [forward.port], "target": target }] }),
        )
    }));
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

fn object(kind: &str, metadata: &Value, spec: &Value) -> Value {
    json!({ "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec })
}

/// What happens next to the objects of a kind that all of `rules` (operator, key, value) hold for.
fn stage(name: &str, kind: &str, rules: &[(&str, &str, Option<&str>)], next: &Value) -> Value {
    let rules: Vec<_> = rules
        .iter()
        .map(|(operator, key, value)| json!({ "operator": operator, "key": key, "values": value.as_slice() }))
        .collect();
    let spec = json!({
        "resourceRef": { "apiGroup": "v1", "kind": kind },
        "selector": { "matchExpressions": rules },
        "next": next,
    });
    object("Stage", &json!({ "name": name }), &spec)
}

const DELETED: &str = ".metadata.deletionTimestamp";
const READY: &str = r#".status.conditions.[] | select( .type == "Ready" ) | .status"#;

// No address of type Hostname: the API server would look it up.
const NODE: &str = "
conditions:
- type: Ready
  status: 'True'
  reason: KubeletReady
  message: ''
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
addresses:
- type: InternalIP
  address: {{ NodeIP | Quote }}
daemonEndpoints:
  kubeletEndpoint:
    Port: {{ NodePort }}
";

const POD: &str = "
phase: Running
startTime: {{ Now | Quote }}
conditions:
{{ range list \"Initialized\" \"ContainersReady\" \"Ready\" }}
- type: {{ . }}
  status: 'True'
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ''
  ready: true
  restartCount: 0
  state:
    running:
      startedAt: {{ Now | Quote }}
{{ end }}
";
