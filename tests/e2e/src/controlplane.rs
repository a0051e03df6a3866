//! A real Kubernetes API server with its etcd, started for one test and gone with it.
//!
//! Hub and spoke are two of these: each has its own certificate authority and its own issuer of
//! service account tokens. Calls block; do not make them from inside an async runtime.

mod assets;
mod certificates;
mod client;
mod cluster_gateway;
mod cluster_proxy;
pub mod crds;
mod kubelet;
pub mod ocm;
mod process;
mod user_server;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use tempfile::TempDir;

use assets::Assets;
pub use assets::go_program;
use certificates::{Certificates, FRONT_PROXY};
pub use client::Answer;
pub use cluster_gateway::ClusterGateway;
pub use cluster_proxy::ClusterProxy;
pub use kubelet::{Forward, Kubelet};
use process::{Process, free_ports, wait};
pub use user_server::UserServer;

/// Users of every control plane, by static token: one administrator, the others may do what RBAC says.
pub const USERS: [&str; 5] = ["admin", "viewer", "operator", "tenant", "nobody"];

/// One kube-apiserver and its etcd on loopback ports; both end when this is dropped.
pub struct ControlPlane {
    name: String,
    port: u16,
    certificates: Certificates,
    client: reqwest::blocking::Client,
    assets: Assets,
    // Before etcd, so that it ends first: it complains at length about a missing one.
    apiserver: Mutex<Option<Process>>,
    etcd: Mutex<Process>,
    etcd_port: u16,
    dir: TempDir,
}

impl ControlPlane {
    /// Starts one, ready to serve. `None`: this machine has neither the servers nor Go to build
    /// them; the reason was printed (a panic where `CI_NO_SKIP=1`).
    pub fn start(name: &str) -> Result<Option<Self>, String> {
        let Some(assets) = assets::find_or_build()? else {
            return Ok(None);
        };
        // Between choosing a free port and using it another process may take it.
        let mut failure = String::new();
        for _ in 0..3 {
            match Self::try_start(name, &assets) {
                Ok(started) => return Ok(Some(started)),
                Err(reason) => failure = reason,
            }
        }
        Err(failure)
    }

    /// Starts two at the same time, say a hub and a spoke.
    pub fn start_two(first: &str, second: &str) -> Result<Option<(Self, Self)>, String> {
        let (first, second) = thread::scope(|scope| {
            let other = scope.spawn(|| Self::start(second));
            (Self::start(first), other.join())
        });
        let second = second.map_err(|_| "the second control plane panicked".to_owned())?;
        Ok(first?.zip(second?))
    }

    fn try_start(name: &str, assets: &Assets) -> Result<Self, String> {
        let dir = tempfile::Builder::new()
            .prefix(&format!("controlplane-{name}-"))
            .tempdir()
            .map_err(|error| format!("no temporary folder: {error}"))?;
        let [etcd_port, port] = free_ports()?;
        let certificates = Certificates::new(name);
        let client = client::build(&certificates.ca_pem)?;
        let etcd = Process::start("etcd", assets.etcd(), dir.path(), &etcd_flags(dir.path(), etcd_port))?;
        let plane = Self {
            name: name.to_owned(),
            port,
            certificates,
            client,
            assets: assets.clone(),
            apiserver: Mutex::default(),
            etcd: Mutex::new(etcd),
            etcd_port,
            dir,
        };
        plane.write_files().map_err(|error| format!("{name}: {error}"))?;
        plane.start_apiserver()?;
        Ok(plane)
    }

    /// Starts the API server after [`ControlPlane::stop_apiserver`]: on the same port, with what etcd
    /// holds and with the same keys. Returns when it is ready.
    pub fn start_apiserver(&self) -> Result<(), String> {
        let mut started = Process::start(
            "kube-apiserver",
            self.assets.apiserver(),
            self.dir.path(),
            &self.apiserver_flags(),
        )?;
        let mut etcd = self.etcd.lock().expect("etcd");
        let ready = || {
            self.call(&self.admin_token(), "GET", "/readyz", None).is_ok_and(|answer| answer.status == 200)
        };
        wait(&mut [&mut etcd, &mut started], ready).map_err(|error| format!("{}: {error}", self.name))?;
        *self.apiserver.lock().expect("the API server") = Some(started);
        Ok(())
    }

    /// Ends the API server, and every connection to it; etcd keeps what it holds.
    pub fn stop_apiserver(&self) {
        self.apiserver.lock().expect("the API server").take();
    }

    /// The name it was started with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of the API server.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The certificate authority that signed the API server's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.certificates.ca_pem
    }

    /// The administrator's client certificate and its key, PEM.
    pub fn admin_certificate(&self) -> (&str, &str) {
        (&self.certificates.admin_pem, &self.certificates.admin_key_pem)
    }

    /// A client certificate of a user, in a group, and its key, PEM. `ended` is the day (year, month, day) on
    /// which it ended; without it, it is good.
    pub fn client_certificate(
        &self,
        user: &str,
        group: Option<&str>,
        ended: Option<(i32, u8, u8)>,
    ) -> (String, String) {
        self.certificates.client(user, group, ended)
    }

    /// The token of the administrator, a member of `system:masters`.
    pub fn admin_token(&self) -> String {
        self.token("admin")
    }

    /// The static token of one of [`USERS`]; no two control planes share one.
    pub fn token(&self, user: &str) -> String {
        assert!(USERS.contains(&user), "no such user: {user}; there are {USERS:?}");
        format!("{user}.{}.{}", self.name, self.certificates.serial)
    }

    /// The process ids of etcd and the API server, to measure them.
    pub fn pids(&self) -> Vec<u32> {
        let etcd = self.etcd.lock().expect("etcd").pid();
        let apiserver = self.apiserver.lock().expect("the API server");
        [etcd].into_iter().chain(apiserver.as_ref().map(Process::pid)).collect()
    }

    fn path(&self, file: &str) -> String {
        self.dir.path().join(file).display().to_string()
    }

    /// As the stand-ins for proxies on a hub are told of it: server, file of its CA, file of a token for it.
    fn for_proxies(&self) -> String {
        format!("{},{},{}", self.server(), self.path("ca.crt"), self.path("admin.token"))
    }

    fn write_files(&self) -> std::io::Result<()> {
        let tokens: String = USERS
            .iter()
            .map(|user| match *user {
                "admin" => format!("{},admin,admin,\"system:masters\"\n", self.token(user)),
                user => format!("{},{user},{user}\n", self.token(user)),
            })
            .collect();
        let certificates = &self.certificates;
        for (file, content) in [
            ("ca.crt", &certificates.ca_pem),
            ("server.crt", &certificates.server_pem),
            ("server.key", &certificates.server_key_pem),
            ("front-proxy.crt", &certificates.front_proxy_pem),
            ("front-proxy.key", &certificates.front_proxy_key_pem),
            ("kubelet.crt", &certificates.kubelet_pem),
            ("kubelet.key", &certificates.kubelet_key_pem),
            ("accounts.pub", &certificates.accounts_public_pem),
            ("accounts.key", &certificates.accounts_key_pem),
            ("tokens.csv", &tokens),
            ("admin.token", &self.admin_token()),
        ] {
            fs::write(self.dir.path().join(file), content)?;
        }
        Ok(())
    }

    fn apiserver_flags(&self) -> Vec<String> {
        vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            format!("--tls-cert-file={}", self.path("server.crt")),
            format!("--tls-private-key-file={}", self.path("server.key")),
            format!("--client-ca-file={}", self.path("ca.crt")),
            format!("--kubelet-certificate-authority={}", self.path("ca.crt")),
            format!("--requestheader-client-ca-file={}", self.path("ca.crt")),
            format!("--requestheader-allowed-names={FRONT_PROXY}"),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!("--proxy-client-cert-file={}", self.path("front-proxy.crt")),
            format!("--proxy-client-key-file={}", self.path("front-proxy.key")),
            format!("--token-auth-file={}", self.path("tokens.csv")),
            format!("--service-account-issuer=https://{}.controlplane.test", self.name),
            format!("--service-account-key-file={}", self.path("accounts.pub")),
            format!("--service-account-signing-key-file={}", self.path("accounts.key")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            // It waits for a default account that only a controller manager makes.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            // A loopback address cannot be an endpoint of Service kubernetes.
            "--endpoint-reconciler-type=none".to_owned(),
        ]
    }
}

fn etcd_flags(dir: &Path, port: u16) -> Vec<String> {
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls=http://127.0.0.1:{port}"),
        format!("--advertise-client-urls=http://127.0.0.1:{port}"),
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        "--unsafe-no-fsync".to_owned(),
    ]
}

#[cfg(test)]
mod tests;
