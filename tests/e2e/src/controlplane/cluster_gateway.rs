//! cluster-gateway on a hub: a stand-in for its API server, behind an APIService of the hub's own.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tempfile::TempDir;

use super::crds::wait_until_served;
use super::process::{Process, free_ports, listens, wait};
use super::{ControlPlane, assets};

/// Where it runs on the hub; its Service has the name of the program.
const NAMESPACE: &str = "vela-system";
const NAME: &str = "cluster-gateway";

/// One, gone from this machine when dropped.
pub struct ClusterGateway {
    _process: Process,
    _dir: TempDir,
}

impl ClusterGateway {
    /// Installs it on a hub, in front of spokes by name, where it is their administrator. Returns when the hub
    /// serves it; nobody but the hub's administrator may use it yet. `None` without Go, as with
    /// [`ControlPlane::start`].
    pub fn install(hub: &ControlPlane, spokes: &[(&str, &ControlPlane)]) -> Result<Option<Self>, String> {
        let Some(program) = assets::go_program("controlplane")? else { return Ok(None) };
        let dir = tempfile::Builder::new()
            .prefix("cluster-gateway-")
            .tempdir()
            .map_err(|error| format!("no temporary folder: {error}"))?;
        let (cert, key) = hub.certificates.server(&[&format!("{NAME}.{NAMESPACE}.svc")]);
        let file = |name: &str| dir.path().join(name);
        fs::write(file("tls.crt"), cert)
            .and_then(|()| fs::write(file("tls.key"), key))
            .map_err(|error| format!("{NAME}: {error}"))?;
        let [port] = free_ports()?;
        let mut flags = vec![
            format!("--listen=127.0.0.1:{port}"),
            format!("--cert={}", file("tls.crt").display()),
            format!("--key={}", file("tls.key").display()),
            format!("--client-ca={}", hub.path("ca.crt")),
        ];
        flags.extend(spokes.iter().map(|(name, spoke)| format!("--cluster={name}={}", spoke.for_proxies())));
        let mut process = Process::start(NAME, vec![&program, Path::new(NAME)], dir.path(), &flags)?;
        wait(&mut [&mut process], || listens(port))?;
        register(hub, port)?;
        Ok(Some(Self { _process: process, _dir: dir }))
    }
}

fn register(hub: &ControlPlane, port: u16) -> Result<(), String> {
    hub.create_namespace(NAMESPACE)?;
    let service = json!({
        "metadata": { "name": NAME },
        "spec": { "type": "ExternalName", "externalName": "localhost", "ports": [{ "port": port }] },
    });
    hub.create(&format!("/api/v1/namespaces/{NAMESPACE}/services"), &service)?;
    let served = json!({
        "metadata": { "name": "v1alpha1.cluster.core.oam.dev" },
        "spec": {
            "group": "cluster.core.oam.dev",
            "version": "v1alpha1",
            "service": { "namespace": NAMESPACE, "name": NAME, "port": port },
            "caBundle": STANDARD.encode(hub.ca_pem()),
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
        },
    });
    hub.create("/apis/apiregistration.k8s.io/v1/apiservices", &served)?;
    wait_until_served(hub, "/apis/cluster.core.oam.dev/v1alpha1")
}
