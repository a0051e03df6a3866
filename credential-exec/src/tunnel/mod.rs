//! The way to an address that exists only inside the hub: a background process that listens on a port of
//! this machine and carries each connection over the hub's API to a Pod behind the published Service.
//! TLS stays between kubectl and that Pod.
//!
//! This file is what a run of credential-exec does about it: see that the tunnel is up ([`is_up`]), start
//! it where it is not ([`Way::ensure`]), and meet the server behind it once, so that a certificate that
//! changed is told in words. The process itself is [`server`].

mod backend;
mod carrier;
pub mod control;
mod forward;
mod link;
mod log;
pub mod place;
pub mod server;
mod spdy;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::cache::fnv;
use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::guard;
use crate::hub::client::{NoHandshake, Options};
use crate::hub::kubeconfig::{Cluster, User};
use crate::hub::{Client, Hub};
use crate::os;
use crate::protocol;
use crate::request::{CredentialRequest, HubPin, Tunnel};

use control::{Ask, Failure, Reply};
use place::Place;

/// The first argument of the background process; the request follows.
pub const SERVE: &str = "--serve-tunnel";

/// The version that tunnels compare.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Below the range from which systems take ports for outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// What a tunnel may take beyond the limit of its own I/O until it answers.
const GRACE: Duration = Duration::from_secs(5);

/// The name of the tunnel from this machine to this Service of this hub.
fn name(hub_server: &str, hub_ca: &str, target: &str) -> String {
    let mut text = os::machine();
    for part in [hub_server, hub_ca, target] {
        text.push('\0');
        text.push_str(part);
    }
    format!("{:016x}", fnv(text.as_bytes()))
}

/// The local port for a tunnel: derived from hub and Service, so that a kubeconfig works on every machine
/// that it is copied to; where that one is taken, the next. A tunnel that is up already keeps its port.
///
/// # Errors
/// [`Kind::Failed`] where this machine has no port to give.
pub fn choose_port(pin: &HubPin, target: &str, env: &Env) -> Result<u16> {
    let derived = derived_port(pin, target);
    let name = name(&pin.server, &pin.ca, target);
    let own = place::candidates(env).iter().find_map(|dir| {
        let socket = Place::new(dir, &name).socket();
        Some(control::ask(&socket, &Ask::Status, Duration::from_secs(2)).ok()?.status?.ports)
    });
    let own = own.unwrap_or_default();
    if let Some(port) = own.iter().find(|port| **port == derived).or(own.first()) {
        return Ok(*port);
    }
    let size = PORTS.end - PORTS.start;
    let in_order = (0..size).map(|step| PORTS.start + (derived - PORTS.start + step) % size);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    in_order.take(200).find(is_free).ok_or_else(|| {
        Error::new(Kind::Failed, format!("200 ports from {derived} on are all taken on this machine"))
            .remedy("end the programs that listen there, or use --reach direct")
    })
}

/// The same on every machine and for every user, so without the machine's name.
fn derived_port(pin: &HubPin, target: &str) -> u16 {
    let hash = fnv([&pin.server, "\0", &pin.ca, "\0", target].concat().as_bytes());
    let size = u64::from(PORTS.end - PORTS.start);
    PORTS.start + u16::try_from(hash % size).unwrap_or(0)
}

/// Whether the tunnel that these arguments name is up, listens on their port, and leads to a server that
/// was met before. Without arguments that name one there is nothing to be up.
pub fn is_up(args: &[OsString], info: Option<&[u8]>, env: &Env) -> bool {
    let value = |flag: &str| args.iter().find_map(|arg| arg.to_str()?.strip_prefix(flag));
    let (Some(target), Some(port)) = (value("--tunnel="), value("--tunnel-port=")) else { return true };
    let (Some(server), Some(ca)) = (value("--hub-server="), value("--hub-ca=")) else { return false };
    let Ok(port) = port.parse() else { return false };
    let name = name(server, ca, target);
    let ready = Ask::Ready { port, trust: trust(protocol::cluster(info).as_ref()) };
    place::candidates(env).iter().any(|dir| {
        control::ask(&Place::new(dir, &name).socket(), &ready, GRACE)
            .is_ok_and(|reply| reply.met && reply.error.is_none() && !is_older(&reply.version))
    })
}

/// What tells one trust from another: by what kubectl will check the server's certificate.
fn trust(cluster: Option<&Cluster>) -> u64 {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    cluster.map_or(0, |cluster| {
        let text = [part(&cluster.certificate_authority_data), part(&cluster.tls_server_name)].join("\0");
        // JSON numbers beyond 53 bits are not everybody's.
        fnv(text.as_bytes()) >> 12
    })
}

/// Whether a tunnel of this version is to make room for one of ours.
fn is_older(version: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
    };
    numbers(version) < numbers(VERSION)
}

/// One run's way through a tunnel.
pub struct Way<'a> {
    /// What is asked for.
    pub request: &'a CredentialRequest,
    /// The tunnel of the request.
    pub tunnel: &'a Tunnel,
    /// The arguments of this run, from which the background process reads the same request.
    pub args: &'a [OsString],
    /// What kubectl says of the cluster.
    pub cluster: Option<Cluster>,
    /// The surroundings.
    pub env: &'a Env,
    /// The guard's variable for what runs beneath.
    pub chain: &'a str,
    /// Logs in to the hub where a person may be asked.
    pub login: &'a dyn Fn() -> Result<()>,
    /// Runs something to its end.
    pub runtime: &'a tokio::runtime::Runtime,
}

impl Way<'_> {
    /// Makes the address reachable: starts the tunnel where there is none or an old one, and meets the
    /// server behind it where that was not done yet.
    ///
    /// # Errors
    /// Which link is missing: the port, the hub, the login, a permission, the Service, a Pod, the
    /// server's certificate.
    pub fn ensure(&self) -> Result<()> {
        let dir = place::usable(self.env)?;
        let pin = &self.request.hub;
        let place = Place::new(&dir, &name(&pin.server, &pin.ca, &self.tunnel.target()));
        let ready = Ask::Ready { port: self.tunnel.port, trust: trust(self.cluster.as_ref()) };
        let mut may_log_in = true;
        let mut starts = 0;
        loop {
            let failure = match control::ask(&place.socket(), &ready, self.request.timeout + GRACE) {
                Ok(reply) if is_older(&reply.version) => self.start(&place).err(),
                Ok(Reply { error: Some(failure), .. }) => Some(failure),
                Ok(reply) if reply.met => return Ok(()),
                Ok(_) => return self.meet(&place),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(silent(&place));
                }
                Err(_) if starts < 3 => {
                    starts += 1;
                    self.start(&place).err()
                }
                Err(error) => {
                    let cause = format!("the tunnel does not stay up: {error}");
                    return Err(Error::new(Kind::Failed, cause).remedy(see(&place)));
                }
            };
            match failure {
                None => {}
                Some(failure) if failure.login && may_log_in => {
                    may_log_in = false;
                    (self.login)()?;
                    let _ = control::ask(&place.socket(), &Ask::LoggedIn, GRACE);
                }
                Some(failure) => return Err(failure.into()),
            }
        }
    }

    /// Starts the background process, unless another run has done so meanwhile, and waits until it is
    /// connected or says why it is not.
    fn start(&self, place: &Place) -> Result<(), Failure> {
        let failed = |cause: String| Failure::new(Error::new(Kind::Failed, cause).remedy(see(place)), false);
        let limit = self.request.timeout * 2 + GRACE;
        let Some(_starting) = place.starting(limit) else {
            return Err(failed("another run is starting the tunnel and does not get on".to_owned()));
        };
        match control::ask(&place.socket(), &Ask::Status, GRACE) {
            Ok(reply) if is_older(&reply.version) => {
                let _ = control::ask(&place.socket(), &Ask::Drain, GRACE);
            }
            Ok(_) => return Ok(()),
            Err(_) => {}
        }
        let this =
            std::env::current_exe().map_err(|e| failed(format!("the tunnel cannot be started: {e}")))?;
        let mut command = Command::new(this);
        os::detached(command.arg(SERVE).args(self.args))
            .env(guard::VARIABLE, self.chain)
            .env_remove("KUBERNETES_EXEC_INFO")
            .stdout(Stdio::piped());
        if let Some(log) = log::open(&place.log()) {
            command.stderr(log);
        }
        if let Some(dir) = place.socket().parent() {
            command.current_dir(dir);
        }
        let mut child = command.spawn().map_err(|e| failed(format!("the tunnel cannot be started: {e}")))?;
        let (said, says) = mpsc::channel();
        let stdout = child.stdout.take();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
            let _ = said.send(line);
        });
        let line = says.recv_timeout(limit).map_err(|_| {
            let _ = child.kill();
            failed("the tunnel was started and says nothing".to_owned())
        })?;
        match serde_json::from_str(&line) {
            Ok(Reply { error: Some(failure), .. }) => Err(failure),
            Ok(_) => Ok(()),
            Err(_) => Err(failed("the tunnel ended as soon as it was started".to_owned())),
        }
    }

    /// Shakes hands with the server behind the tunnel as kubectl is going to.
    fn meet(&self, place: &Place) -> Result<()> {
        let Some(cluster) = self
            .cluster
            .clone()
            .filter(|cluster| cluster.server.starts_with(&format!("https://127.0.0.1:{}", self.tunnel.port)))
        else {
            return Ok(());
        };
        let trust = trust(Some(&cluster));
        let hub = Hub {
            context: self.request.profile.name.clone(),
            namespace: None,
            cluster,
            user: User::default(),
            files: Vec::new(),
        };
        let options = Options { deadline: self.request.timeout, ..Options::default() };
        let met = self.runtime.block_on(async {
            let client = Client::connect(&hub, self.env, options).await.map_err(NoHandshake::Failed)?;
            client.handshake().await
        });
        let cluster = &self.request.profile.name;
        match met {
            Ok(()) => {
                let _ = control::ask(&place.socket(), &Ask::Met { trust }, GRACE);
                Ok(())
            }
            Err(NoHandshake::Untrusted(error)) => {
                let cause = format!("certificate changed: {}", error.cause);
                Err(Error::new(Kind::Unreachable, cause)
                    .remedy(format!("run kubectl inventory use {cluster}")))
            }
            Err(NoHandshake::Failed(error)) => {
                let status =
                    control::ask(&place.socket(), &Ask::Status, GRACE).ok().and_then(|reply| reply.status);
                let (pod, said) = status.map(|status| (status.pod, status.last_error)).unwrap_or_default();
                let why = if said.is_empty() { error.cause } else { said };
                let cause = format!("no server answers behind {} (Pod {pod}): {why}", self.tunnel.target());
                Err(Error::new(Kind::Unreachable, cause).remedy(see(place)))
            }
        }
    }
}

fn see(place: &Place) -> String {
    format!("see {}", place.log().display())
}

fn silent(place: &Place) -> Error {
    Error::new(Kind::Unreachable, format!("the tunnel at {} does not answer", place.socket().display()))
        .remedy("end it with `kubectl inventory tunnel stop --all` and try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(server: &str) -> HubPin {
        HubPin { server: server.to_owned(), ca: "ca".to_owned(), ..HubPin::default() }
    }

    #[test]
    fn a_port_belongs_to_hub_and_service_and_lies_below_the_ephemeral_ones() {
        let one = derived_port(&pin("https://a"), "ns/name:1");
        assert_eq!(one, derived_port(&pin("https://a"), "ns/name:1"));
        assert!(PORTS.contains(&one));
        assert_ne!(one, derived_port(&pin("https://b"), "ns/name:1"));
        assert_ne!(one, derived_port(&pin("https://a"), "ns/name:2"));
    }

    #[test]
    fn a_port_that_is_taken_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::of([("KUBECTL_INVENTORY_RUNTIME_DIR", dir.path())]);
        let pin = pin(&format!("https://{}", dir.path().display()));
        let first = choose_port(&pin, "ns/name:1", &env).unwrap();
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        assert_ne!(choose_port(&pin, "ns/name:1", &env).unwrap(), first);
    }

    #[test]
    fn only_an_older_tunnel_makes_room() {
        for older in ["0.0.9", "0.0.9-rc.1", "", "0"] {
            assert!(is_older(older), "{older}");
        }
        for not in [VERSION, "0.1.1", "0.2.0-rc.1", "1.0.0"] {
            assert!(!is_older(not), "{not}");
        }
    }

    #[test]
    fn a_run_without_a_tunnel_needs_none_and_one_with_a_missing_tunnel_is_not_up() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::of([("KUBECTL_INVENTORY_RUNTIME_DIR", dir.path())]);
        let args = |more: &[&str]| -> Vec<OsString> {
            ["--hub-server=https://a", "--hub-ca=x"].iter().chain(more).map(OsString::from).collect()
        };
        assert!(is_up(&args(&[]), None, &env));
        assert!(!is_up(&args(&["--tunnel=ns/name:1", "--tunnel-port=20000"]), None, &env));
        assert!(!is_up(&args(&["--tunnel=ns/name:1", "--tunnel-port=x"]), None, &env));
    }
}
