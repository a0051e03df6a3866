//! The stand-in for the user-server of OCM's cluster-proxy, as a process of its own.

use std::fs;
use std::path::{Path, PathBuf};

use fleet::Identity;
use tempfile::TempDir;

use super::process::{Process, listens, wait};
use super::{ControlPlane, assets};

/// One user-server, which may be stopped and started again on its port; it ends when this is dropped.
pub struct UserServer {
    port: u16,
    clusters: Vec<String>,
    program: PathBuf,
    process: Option<Process>,
    dir: TempDir,
}

impl UserServer {
    /// Starts one on a loopback port with a certificate, in front of spokes by their name in the path. Who is
    /// known to the hub alone is the same person at a spoke. `None` without Go, as with [`ControlPlane::start`].
    pub fn start(
        port: u16,
        identity: &Identity,
        hub: &ControlPlane,
        spokes: &[(&str, &ControlPlane)],
    ) -> Result<Option<Self>, String> {
        let Some(program) = assets::go_program("controlplane")? else { return Ok(None) };
        let dir = tempfile::Builder::new()
            .prefix("user-server-")
            .tempdir()
            .map_err(|error| format!("no temporary folder: {error}"))?;
        let spokes = spokes.iter().map(|(name, spoke)| format!("--cluster={name}={}", spoke.for_proxies()));
        let clusters = spokes.chain([format!("--hub={}", hub.for_proxies())]).collect();
        let mut server = Self { port, clusters, program, process: None, dir };
        server.restart(identity)?;
        Ok(Some(server))
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Ends it, and every connection to it.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it on the same port, with this certificate; one that runs ends first.
    pub fn restart(&mut self, identity: &Identity) -> Result<(), String> {
        self.stop();
        let (cert, key) = (self.dir.path().join("tls.crt"), self.dir.path().join("tls.key"));
        fs::write(&cert, identity.chain_pem())
            .and_then(|()| fs::write(&key, identity.key_pem()))
            .map_err(|error| format!("user-server: {error}"))?;
        let mut flags = vec![
            format!("--listen=127.0.0.1:{}", self.port),
            format!("--cert={}", cert.display()),
            format!("--key={}", key.display()),
        ];
        flags.extend(self.clusters.iter().cloned());
        let command = vec![self.program.as_path(), Path::new("user-server")];
        let mut process = Process::start("user-server", command, self.dir.path(), &flags)?;
        wait(&mut [&mut process], || listens(self.port))?;
        self.process = Some(process);
        Ok(())
    }
}
