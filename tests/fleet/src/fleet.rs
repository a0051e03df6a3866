//! The running fleet: a hub, its spokes, and the runtime thread that carries them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::certs::{CertSpec, ClientCertificate, Identity, Signer};
use crate::ocm;
use crate::resources::{self, Resources};
use crate::server::{Role, Server, Setup};
use crate::spec::{AccountSpec, Builder, ClusterSpec, INVENTORY};
use crate::spoke;
use crate::tokens::{self, TokenKind};
use crate::tunnel::{self, Tunnel};

/// A hub and its spokes in this process. Dropping it stops everything.
pub struct Fleet {
    hub: Server,
    tunnel: Option<Tunnel>,
    spokes: BTreeMap<String, Server>,
    clusters: BTreeMap<String, ClusterSpec>,
    accounts: Mutex<BTreeMap<(String, String), (AccountSpec, String)>>,
    secrets: Mutex<Vec<String>>,
    viewer_token: String,
    client_ca: Signer,
    runtime: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Fleet {
    /// What a fleet can be made of.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts it. Panics when no loopback port can be had.
    pub fn start(spec: Builder) -> Self {
        let (handle, runtime) = runtime();
        let client_ca = Signer::new("fleet client signer");
        let mut kinds = Resources::new([resources::core(), resources::ocm()].concat());
        spec.with.iter().for_each(|resource| kinds.add(resource.clone()));
        spec.without.iter().for_each(|name| kinds.remove(name));
        let user_server = spec.tunnelled.map(|certificate| start_user_server(&handle, certificate));
        let hub = Server::start(
            &handle,
            Setup {
                version: "v1.34.2".to_owned(),
                resources: kinds,
                identity: Identity::new(spec.hub_certificate.clone()),
                clusters: BTreeSet::new(),
                client_ca: Some(client_ca.clone()),
                role: user_server.as_ref().map_or(Role::Plain, |server| Role::Forwards(server.address())),
            },
        );
        let mut fleet = Self {
            hub: hub.expect("a loopback port"),
            tunnel: None,
            spokes: BTreeMap::new(),
            clusters: BTreeMap::new(),
            accounts: Mutex::default(),
            secrets: Mutex::default(),
            viewer_token: tokens::word(),
            client_ca,
            runtime: Some(runtime),
        };
        fleet.hub.accept(&fleet.viewer_token, "viewer");
        fleet.remember(&fleet.viewer_token);
        for namespace in ["default", "kube-system", INVENTORY, "open-cluster-management-addon"] {
            fleet.hub.put(format!("/api/v1/namespaces/{namespace}"), spoke::namespace());
        }
        for (path, object) in ocm::cluster_proxy() {
            fleet.hub.put(path, object);
        }
        fleet.tunnel = user_server.map(|user_server| Tunnel::new(&fleet.hub, &user_server));
        for mut cluster in spec.clusters {
            cluster.certificate = spec.spoke_certificate.clone().unwrap_or(cluster.certificate);
            fleet.join(&handle, cluster);
        }
        fleet.fill(&handle, spec.profiles, spec.spoke_certificate);
        fleet
    }

    /// The hub.
    pub fn hub(&self) -> &Server {
        &self.hub
    }

    /// The way to the addresses inside the hub; panics unless the fleet is [`Builder::tunnelled`].
    pub fn tunnel(&self) -> &Tunnel {
        self.tunnel.as_ref().expect("a fleet that is tunnelled")
    }

    /// The API server of a cluster; panics on a name that the fleet does not have.
    pub fn spoke(&self, cluster: &str) -> &Server {
        self.spokes.get(cluster).unwrap_or_else(|| panic!("no cluster {cluster}"))
    }

    /// The address that a cluster's profile publishes.
    pub fn server_url(&self, cluster: &str) -> String {
        match self.tunnel {
            Some(_) => tunnel::server_url(cluster),
            None => self.spoke_url(cluster),
        }
    }

    fn spoke_url(&self, cluster: &str) -> String {
        let suffix = if self.clusters[cluster].path_prefix { format!("/{cluster}") } else { String::new() };
        format!("{}{suffix}", self.spoke(cluster).url())
    }

    /// The bearer token of the user `viewer` at the hub.
    pub fn viewer_token(&self) -> &str {
        &self.viewer_token
    }

    /// A client certificate that the hub accepts as this user.
    pub fn client_certificate(&self, user: &str) -> ClientCertificate {
        let certificate = self.client_ca.client(user);
        self.hub.inner.auth().accept_certificate(&certificate.der, user);
        self.remember(certificate.key_pem.lines().nth(1).unwrap_or_default());
        certificate
    }

    /// A password that the hub accepts from this user.
    pub fn password(&self, user: &str) -> String {
        let password = tokens::word();
        self.hub.accept_password(user, &password);
        self.remember(&password);
        self.remember(&STANDARD.encode(format!("{user}:{password}")));
        password
    }

    /// The newest token of an account.
    pub fn token(&self, cluster: &str, account: &str) -> String {
        self.account(cluster, account).1
    }

    /// A token of the account that its spoke accepts and that is in no Secret.
    pub fn mint(&self, cluster: &str, account: &str, kind: TokenKind) -> String {
        let (spec, _) = self.account(cluster, account);
        self.issue(cluster, account, &AccountSpec { token: kind, ..spec })
    }

    /// Gives the account a new token, as OCM's agent does: its Secrets hold the new one, the old one
    /// stays valid until it is revoked at the spoke.
    pub fn rotate(&self, cluster: &str, account: &str) -> String {
        let spec = self.account(cluster, account).0;
        self.rotate_to(cluster, account, spec.token)
    }

    /// As [`Fleet::rotate`], to a token of another kind.
    pub fn rotate_to(&self, cluster: &str, account: &str, kind: TokenKind) -> String {
        let (spec, _) = self.account(cluster, account);
        let spec = AccountSpec { token: kind, ..spec };
        let token = self.issue(cluster, account, &spec);
        self.publish(cluster, account, &spec, &token);
        token
    }

    /// Every credential that exists: none may appear in any output.
    pub fn secrets(&self) -> Vec<String> {
        lock(&self.secrets).clone()
    }

    /// Adds a credential that a test made up to [`Fleet::secrets`].
    pub fn remember(&self, secret: &str) {
        let mut secrets = lock(&self.secrets);
        secrets.push(secret.to_owned());
        // A part that gives the whole away even where a line was cut.
        if let [_, payload, signature] = secret.split('.').collect::<Vec<_>>()[..] {
            secrets.extend([payload.to_owned(), signature.to_owned()]);
        }
    }

    /// The hub's kubeconfig: context and cluster `hub`, user `viewer`, no namespace.
    pub fn kubeconfig(&self) -> Value {
        kubeconfig("hub", &self.hub.url(), &self.hub.ca_pem(), "viewer", &self.viewer_token)
    }

    /// A kubeconfig that holds an account's token: for tests of the spokes themselves.
    pub fn spoke_kubeconfig(&self, cluster: &str, account: &str) -> Value {
        let (url, ca) = (self.spoke_url(cluster), self.spoke(cluster).ca_pem());
        kubeconfig(cluster, &url, &ca, account, &self.token(cluster, account))
    }

    /// Writes [`Fleet::kubeconfig`] (JSON, which is YAML) and returns the text.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> std::io::Result<String> {
        let text = format!("{:#}\n", self.kubeconfig());
        std::fs::write(path, &text)?;
        Ok(text)
    }

    fn account(&self, cluster: &str, account: &str) -> (AccountSpec, String) {
        let found = lock(&self.accounts).get(&(cluster.to_owned(), account.to_owned())).cloned();
        found.unwrap_or_else(|| panic!("no account {account} of {cluster}"))
    }

    fn join(&mut self, handle: &Handle, spec: ClusterSpec) {
        let name = spec.name.clone();
        let server = match &spec.shares {
            Some(other) => {
                self.spoke(other).answer_for(&name);
                self.spoke(other).clone()
            }
            None => start_spoke(handle, &spec),
        };
        self.relay(&name, &server);
        self.spokes.insert(name.clone(), server);
        self.clusters.insert(name.clone(), spec.clone());
        self.hub.put(format!("/api/v1/namespaces/{name}"), spoke::namespace());
        self.hub.put(
            format!("/apis/cluster.open-cluster-management.io/v1/managedclusters/{name}"),
            ocm::managed_cluster(&spec),
        );
        for namespace in &spec.namespaces {
            self.hub.put(format!("/api/v1/namespaces/{namespace}"), spoke::namespace());
            let profile = ocm::cluster_profile(
                &spec,
                namespace,
                &self.server_url(&name),
                &self.published_ca(self.spoke(&name)),
            );
            self.hub.put(profile_path(namespace, &name), profile);
        }
        for (account, account_spec) in &spec.accounts {
            let token = self.issue(&name, account, account_spec);
            self.publish(&name, account, account_spec, &token);
        }
    }

    /// Profiles without an API server of their own.
    fn fill(&mut self, handle: &Handle, n: usize, certificate: Option<CertSpec>) {
        if n == 0 {
            return;
        }
        let shared = match self.spokes.values().next() {
            Some(server) => server.clone(),
            None => {
                let certificate = certificate.unwrap_or_default();
                start_spoke(handle, &ClusterSpec { certificate, ..ClusterSpec::named("shared") })
            }
        };
        let (direct, ca) = (shared.url(), self.published_ca(&shared));
        for i in 1..=n {
            let spec = ClusterSpec { accounts: Vec::new(), ..ClusterSpec::named(&format!("fleet-{i:05}")) };
            let url = match self.tunnel {
                Some(_) => tunnel::server_url(&spec.name),
                None => format!("{direct}/{}", spec.name),
            };
            let profile = ocm::cluster_profile(&spec, INVENTORY, &url, &ca);
            self.relay(&spec.name, &shared);
            shared.answer_for(&spec.name);
            self.hub.put(
                ("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", INVENTORY, &*spec.name),
                profile,
            );
        }
    }

    /// Makes cluster-gateway and the user-server, where there is one, hand on to this server.
    fn relay(&self, cluster: &str, server: &Server) {
        self.hub.inner.put_behind(cluster, server);
        if let Some(tunnel) = &self.tunnel {
            tunnel.user_server().inner.put_behind(cluster, server);
        }
    }

    /// What is published as the CA of the address of a server.
    fn published_ca(&self, server: &Server) -> String {
        self.tunnel.as_ref().map_or(server, Tunnel::user_server).ca_pem()
    }

    fn issue(&self, cluster: &str, account: &str, spec: &AccountSpec) -> String {
        let subject = spec.subject.clone();
        let subject = subject.unwrap_or_else(|| {
            format!("system:serviceaccount:open-cluster-management-agent-addon:{account}")
        });
        let token = tokens::mint(spec.token, &subject);
        let until = spec.token.expires_in().map(|seconds| Timestamp::now().as_second() + seconds);
        self.spoke(cluster).accept_until(&token, &subject, until);
        self.remember(&token);
        token
    }

    /// Writes the account, its Secret and the synced copies, and remembers the token as the newest.
    fn publish(&self, cluster: &str, account: &str, spec: &AccountSpec, token: &str) {
        let ca = self.spoke(cluster).ca_pem();
        let group = ocm::MSA_GROUP;
        self.hub.put(
            (group, "v1beta1", "managedserviceaccounts", cluster, account),
            ocm::managed_service_account(cluster, account, spec),
        );
        if spec.own_secret {
            let secret = ocm::token_secret(cluster, account, token, &ca);
            self.hub.put(("", "v1", "secrets", cluster, account), secret);
        }
        for namespace in self.clusters[cluster].namespaces.iter().filter(|_| spec.synced) {
            if let Some(profile) = self.hub.get(profile_path(namespace, cluster)) {
                let copy = ocm::synced_secret(&profile, account, token, &ca);
                self.hub.put(("", "v1", "secrets", &**namespace, &*format!("{cluster}-{account}")), copy);
            }
        }
        let key = (cluster.to_owned(), account.to_owned());
        lock(&self.accounts).insert(key, (spec.clone(), token.to_owned()));
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.runtime.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// The API path of a profile.
pub fn profile_path(namespace: &str, name: &str) -> String {
    format!("/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{namespace}/clusterprofiles/{name}")
}

fn kubeconfig(name: &str, url: &str, ca_pem: &str, user: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(ca_pem)}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    })
}

fn start_spoke(handle: &Handle, spec: &ClusterSpec) -> Server {
    let server = Server::start(
        handle,
        Setup {
            version: spec.version.clone(),
            resources: Resources::new(resources::core()),
            identity: Identity::new(spec.certificate.clone()),
            clusters: BTreeSet::from([spec.name.clone()]),
            client_ca: None,
            role: Role::Plain,
        },
    );
    let server = server.expect("a loopback port");
    spoke::fill(&server, spec);
    server
}

fn start_user_server(handle: &Handle, certificate: CertSpec) -> Server {
    let server = Server::start(
        handle,
        Setup {
            version: String::new(),
            resources: Resources::new(Vec::new()),
            identity: Identity::new(certificate),
            clusters: BTreeSet::new(),
            client_ca: None,
            role: Role::Relay,
        },
    );
    server.expect("a loopback port")
}

/// A runtime on a thread of its own, so that a fleet can be dropped anywhere.
fn runtime() -> (Handle, (mpsc::Sender<()>, JoinHandle<()>)) {
    let (stop, stopped) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let _ = started.send(runtime.handle().clone());
        let _ = stopped.recv();
    });
    (start.recv().expect("a runtime"), (stop, thread))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
