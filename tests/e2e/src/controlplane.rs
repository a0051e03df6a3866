//! A real Kubernetes API server with its etcd, started for one test and gone with it.
//!
//! Hub and spoke are two of these: each has its own certificate authority and its own issuer of
//! service account tokens. Calls block; do not make them from inside an async runtime.

mod assets;
mod certificates;
mod client;
pub mod crds;
pub mod ocm;

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use assets::Assets;
pub use assets::go_program;
use certificates::Certificates;
pub use client::Answer;

/// Users of every control plane, by static token: one administrator, the others may do what RBAC says.
pub const USERS: [&str; 5] = ["admin", "viewer", "operator", "tenant", "nobody"];

/// How long etcd or the API server may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(120);

/// One kube-apiserver and its etcd on loopback ports; both end when this is dropped.
pub struct ControlPlane {
    name: String,
    port: u16,
    certificates: Certificates,
    client: reqwest::blocking::Client,
    processes: Vec<Process>,
    _dir: TempDir,
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
        let mut plane =
            Self { name: name.to_owned(), port, certificates, client, processes: Vec::new(), _dir: dir };
        plane.write_files().map_err(|error| format!("{name}: {error}"))?;

        let etcd = Process::start("etcd", assets.etcd(), plane.dir(), &plane.etcd_flags(etcd_port))?;
        plane.processes.push(etcd);
        let apiserver = Process::start(
            "kube-apiserver",
            assets.apiserver(),
            plane.dir(),
            &plane.apiserver_flags(etcd_port),
        )?;
        plane.processes.push(apiserver);
        plane.wait_until_ready()?;
        Ok(plane)
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
        self.processes.iter().map(|process| process.child.id()).collect()
    }

    fn dir(&self) -> &Path {
        self._dir.path()
    }

    fn path(&self, file: &str) -> String {
        self.dir().join(file).display().to_string()
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
            ("accounts.pub", &certificates.accounts_public_pem),
            ("accounts.key", &certificates.accounts_key_pem),
            ("tokens.csv", &tokens),
        ] {
            fs::write(self.dir().join(file), content)?;
        }
        Ok(())
    }

    fn etcd_flags(&self, port: u16) -> Vec<String> {
        vec![
            format!("--data-dir={}", self.path("etcd")),
            format!("--listen-client-urls=http://127.0.0.1:{port}"),
            format!("--advertise-client-urls=http://127.0.0.1:{port}"),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--unsafe-no-fsync".to_owned(),
        ]
    }

    fn apiserver_flags(&self, etcd_port: u16) -> Vec<String> {
        vec![
            format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            format!("--tls-cert-file={}", self.path("server.crt")),
            format!("--tls-private-key-file={}", self.path("server.key")),
            format!("--client-ca-file={}", self.path("ca.crt")),
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

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if matches!(self.call(&self.admin_token(), "GET", "/readyz", None), Ok(answer) if answer.status == 200)
            {
                return Ok(());
            }
            for process in &mut self.processes {
                if let Ok(Some(status)) = process.child.try_wait() {
                    return Err(format!(
                        "{}: {} ended, {status}: {}",
                        self.name,
                        process.what,
                        process.last_words()
                    ));
                }
            }
            if Instant::now() > deadline {
                let words: Vec<_> = self.processes.iter().map(Process::last_words).collect();
                return Err(format!("{}: not ready after {PATIENCE:?}: {}", self.name, words.join("\n")));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // The API server first: it complains at length about a missing etcd.
        for process in self.processes.iter_mut().rev() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// A server of ours. Its standard input is held open: our own build ends when it closes, so that a
/// killed test leaves nothing behind.
struct Process {
    what: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(what: &'static str, command: Vec<&Path>, dir: &Path, flags: &[String]) -> Result<Self, String> {
        let log = dir.join(format!("{what}.log"));
        let open = || File::options().create(true).append(true).open(&log);
        let (program, first) = command.split_first().ok_or("no command")?;
        let child = open()
            .and_then(|out| Ok((out, open()?)))
            .and_then(|(out, err)| {
                Command::new(program)
                    .args(first)
                    .args(flags)
                    .env("CONTROLPLANE_END_WITH_STDIN", "1")
                    .stdin(Stdio::piped())
                    .stdout(out)
                    .stderr(err)
                    .spawn()
            })
            .map_err(|error| format!("{what} ({}) cannot be started: {error}", program.display()))?;
        Ok(Self { what, child, log })
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

fn free_ports() -> Result<[u16; 2], String> {
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let ports = || {
        let listeners = [free()?, free()?];
        std::io::Result::Ok([listeners[0].local_addr()?.port(), listeners[1].local_addr()?.port()])
    };
    ports().map_err(|error| format!("no free loopback port: {error}"))
}

#[cfg(test)]
mod tests;
