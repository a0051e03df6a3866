//! OCM's cluster-proxy on a hub: a Service, Pods on a kubelet, and a user-server in each Pod. Nothing of
//! it can be reached from outside but through the hub's API.

use fleet::{CertShape, CertSpec, Identity};
use serde_json::{Value, json};

use super::kubelet::create_pod;
use super::ocm::{ADDON, INVENTORY, allow, profile, put_profile};
use super::process::free_ports;
use super::{ControlPlane, Forward, Kubelet, UserServer};

/// The name of the Service; its Pods are called `<name>-0`, `<name>-1`, and so on.
const SERVICE: &str = "cluster-proxy-addon-user";
/// The port of the Service.
const PORT: u16 = 9092;
/// The port in the Pods, another one than OCM's: so that nobody takes the one for the other.
const TARGET_PORT: u16 = 9443;
/// How many Pods one test may make in all.
const PODS: usize = 6;

/// All of it, gone from this machine when dropped.
pub struct ClusterProxy<'a> {
    hub: &'a ControlPlane,
    spokes: Vec<(&'a str, &'a ControlPlane)>,
    identity: Identity,
    kubelet: Kubelet,
    ports: [u16; PODS],
    made: usize,
    pods: Vec<(String, UserServer)>,
}

impl<'a> ClusterProxy<'a> {
    /// Installs it on a hub with one ready Pod, in front of spokes by name. Nobody but the administrator
    /// may use it yet, and no profile names it. `None` without Go, as with [`ControlPlane::start`].
    pub fn install(
        hub: &'a ControlPlane,
        spokes: &[(&'a str, &'a ControlPlane)],
    ) -> Result<Option<Self>, String> {
        hub.create_namespace(ADDON)?;
        let ports = free_ports()?;
        let forwards: Vec<_> = ports
            .iter()
            .enumerate()
            .map(|(at, to)| Forward {
                namespace: ADDON.to_owned(),
                pod: pod_name(at),
                port: TARGET_PORT,
                to: *to,
            })
            .collect();
        let Some(kubelet) = Kubelet::start(hub, "hub-node", &forwards)? else { return Ok(None) };
        let mut proxy = Self {
            hub,
            spokes: spokes.to_vec(),
            identity: identity(),
            kubelet,
            ports,
            made: 0,
            pods: Vec::new(),
        };
        proxy.create_service()?;
        proxy.add_pod()?;
        Ok(Some(proxy))
    }

    /// The address that OCM publishes for a cluster.
    pub fn address(cluster: &str) -> String {
        format!("https://{SERVICE}.{ADDON}:{PORT}/{cluster}")
    }

    /// The CA that OCM publishes: the leaf and its signer.
    pub fn ca_pem(&self) -> &str {
        self.identity.ca_pem()
    }

    /// What its servers show.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The loopback ports that stand for the Pods' port, oldest Pod first.
    pub fn ports(&self) -> Vec<u16> {
        self.pods.iter().map(|(_, server)| server.port()).collect()
    }

    /// Lets a cluster's profile name this as the way in, with the CA of now.
    pub fn publish(&self, cluster: &str) -> Result<(), String> {
        put_profile(self.hub, INVENTORY, &profile(cluster, &Self::address(cluster), self.ca_pem()))
    }

    /// Lets a user of the hub forward to it: read the Service, its Pods, and their port-forward.
    pub fn allow(&self, user: &str) -> Result<(), String> {
        let rule = |resource: &str, verbs: &[&str]| json!({ "apiGroups": [""], "resources": [resource], "verbs": verbs });
        let rules = json!([
            rule("services", &["get"]),
            rule("pods", &["get", "list"]),
            rule("pods/portforward", &["get", "create"]),
        ]);
        allow(self.hub, Some(ADDON), user, "tunnel", &rules)
    }

    /// Makes the Service, as it is after [`ClusterProxy::install`].
    pub fn create_service(&self) -> Result<(), String> {
        let service = json!({
            "metadata": { "name": SERVICE },
            "spec": {
                "selector": labels(),
                "ports": [{ "name": "user-port", "port": PORT, "targetPort": TARGET_PORT }],
            },
        });
        self.hub.create(&format!("/api/v1/namespaces/{ADDON}/services"), &service).map(|_| ())
    }

    /// Deletes the Service, as where cluster-proxy was installed without its user-server.
    pub fn delete_service(&self) -> Result<(), String> {
        self.hub
            .request("DELETE", &format!("/api/v1/namespaces/{ADDON}/services/{SERVICE}"), None)
            .map(|_| ())
    }

    /// The names of the Pods that are there, oldest first.
    pub fn pods(&self) -> Vec<&str> {
        self.pods.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The process ids of the user-servers that run, to freeze or to kill them.
    pub fn pids(&self) -> Vec<u32> {
        self.pods.iter().filter_map(|(_, server)| server.pid()).collect()
    }

    /// The kubelet of its Pods.
    pub fn kubelet(&self) -> &Kubelet {
        &self.kubelet
    }

    /// Adds a Pod with its own user-server, and returns its name when it is ready.
    pub fn add_pod(&mut self) -> Result<String, String> {
        let port = *self.ports.get(self.made).ok_or_else(|| format!("a test may make {PODS} Pods"))?;
        let name = pod_name(self.made);
        let server = UserServer::start(port, &self.identity, self.hub, &self.spokes)?.ok_or("Go is gone")?;
        self.kubelet.run(self.hub, ADDON, &name, &labels(), TARGET_PORT)?;
        self.made += 1;
        self.pods.push((name.clone(), server));
        Ok(name)
    }

    /// Adds a Pod that never starts: its node is not there.
    pub fn add_pending_pod(&self, name: &str) -> Result<(), String> {
        create_pod(self.hub, ADDON, name, "no-such-node", &labels(), TARGET_PORT)
    }

    /// Deletes a Pod and ends its user-server with all connections, as a node would.
    pub fn delete_pod(&mut self, name: &str) -> Result<(), String> {
        let now = json!({ "gracePeriodSeconds": 0 });
        self.hub.request("DELETE", &format!("/api/v1/namespaces/{ADDON}/pods/{name}"), Some(&now))?;
        self.pods.retain(|(pod, _)| pod != name);
        Ok(())
    }

    /// Ends the user-server in every Pod, with all connections; the Pods still say that they are ready.
    pub fn stop(&mut self) {
        self.pods.iter_mut().for_each(|(_, server)| server.stop());
    }

    /// Starts the user-server in every Pod anew.
    pub fn restart(&mut self) -> Result<(), String> {
        self.pods.iter_mut().try_for_each(|(_, server)| server.restart(&self.identity))
    }

    /// Starts the user-server in every Pod anew with a leaf renewed under the same signer. What was
    /// published stays until [`ClusterProxy::publish`].
    pub fn renew_certificate(&mut self) -> Result<(), String> {
        self.identity = self.identity.renewed();
        self.restart()
    }

    /// The same under a new signer, which the CA published before does not cover.
    pub fn replace_certificate(&mut self) -> Result<(), String> {
        self.identity = identity();
        self.restart()
    }
}

fn labels() -> Value {
    json!({ "component": SERVICE })
}

fn pod_name(at: usize) -> String {
    format!("{SERVICE}-{at}")
}

/// Good for the published host only, not for the loopback address.
fn identity() -> Identity {
    let host = format!("{SERVICE}.{ADDON}");
    let names = vec![format!("{host}.svc"), host];
    Identity::new(CertSpec { shape: CertShape::LeafAndSigner, names, ..CertSpec::default() })
}
