//! The tunnel beside the direct way and beside a `kubectl port-forward` that people would start by hand: on
//! a real hub with a kubelet that forwards ports, near and behind a delay.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use e2e::controlplane::ocm::{ADDON, Joined};
use e2e::controlplane::{ClusterProxy, ControlPlane};
use e2e::sealed::{entry, exec_info, plugin_line};
use serde_json::Value;

use super::far::{self, Connection};
use super::hub::Home;
use super::timing::{Pair, pairs};
use super::{Options, Outcome, Report};

const CLUSTER: &str = "cluster1";
const DELAY: Duration = Duration::from_millis(50);
/// How many connections one after the other make a measurement, and how many at once.
const SERIAL: usize = 20;
const AT_ONCE: usize = 40;
const ROUNDS: usize = 10;
const BULK: u64 = 64 << 20;

/// Measures everything about the tunnel.
pub fn measure(options: &Options, report: &mut Report) -> Outcome<()> {
    let none = "nothing to measure against";
    let (hub, spoke) = ControlPlane::start_two("hub", "spoke")?.ok_or(none)?;
    Joined::join(&hub, &spoke, CLUSTER, "dev")?;
    let mut proxy = ClusterProxy::install(&hub, &[(CLUSTER, &spoke)])?.ok_or(none)?;
    proxy.publish(CLUSTER)?;
    proxy.allow("viewer")?;
    let kubeconfig = hub.kubeconfig(&hub.token("viewer"));
    let port = proxy.ports()[0];

    let near = Side::new(options, &kubeconfig)?;
    report.at_most(1.25, "kubectl get, warm tunnel / direct", &near.get(options, port)?)?;

    // From here on the far end costs nothing, so that the ways to it can be told apart.
    proxy.stop();
    far::serve(port, proxy.identity())?;
    near.compare("", report)?;

    let server = hub.server();
    let at = server.trim_start_matches("https://");
    let slow = far::delayed(at.parse().map_err(|_| format!("not an address: {at}"))?, DELAY)?;
    let behind = Side::new(options, &kubeconfig.replace(at, &slow.to_string()))?;
    behind.compare(&format!(", {} ms away", DELAY.as_millis()), report)
}

/// One person's machine: a tunnel and a port-forward to the same Service of the same hub.
struct Side {
    home: Home,
    port: u16,
    forward: Forward,
}

impl Side {
    fn new(options: &Options, kubeconfig: &str) -> Outcome<Self> {
        let home = Home::new(&options.binaries, kubeconfig)?;
        let forward = Forward::start(&home, &options.kubectl)?;
        let written = home.use_cluster(CLUSTER, &["--reach", "tunnel"], "tunnel.yaml")?;
        let server = written["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
        let port = server.split([':', '/']).nth(4).and_then(|port| port.parse().ok());
        let port = port.ok_or_else(|| format!("no tunnel: {server}"))?;
        let side = Self { home, port, forward };
        side.ask_plugin(&written)?;
        Ok(side)
    }

    /// Brings the tunnel up.
    fn ask_plugin(&self, written: &Value) -> Outcome<()> {
        let user = written["users"][0]["name"].as_str().ok_or("use wrote no user")?;
        let line = plugin_line(&entry(written, "users", user));
        let mut info: Value =
            serde_json::from_str(&exec_info("v1", Some(CLUSTER))).map_err(|error| error.to_string())?;
        info["spec"]["cluster"] = written["clusters"][0]["cluster"].clone();
        let run = self.home.run(&line[0]).args(&line[1..]);
        run.env("KUBERNETES_EXEC_INFO", info.to_string()).output().map(drop)
    }

    /// The same kubectl by the tunnel and straight to the user-server, each with our plugin.
    fn get(&self, options: &Options, user_server: u16) -> Outcome<Pair> {
        let address = ClusterProxy::address(CLUSTER);
        let published = address.trim_end_matches(&format!("/{CLUSTER}"));
        let rule = format!("reach:\n- from: {published}\n  to: https://127.0.0.1:{user_server}\n");
        self.home.write("config.yaml", &rule)?;
        let direct = self.home.use_cluster(CLUSTER, &["--trust-server"], "direct.yaml")?;
        let server = direct["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
        if !server.contains(&user_server.to_string()) {
            return Err(format!("not direct: {server}"));
        }
        let [tunnel, direct] = ["tunnel.yaml", "direct.yaml"].map(|file| {
            let kubectl = self.home.run(&options.kubectl).arg("--kubeconfig").arg(self.home.path(file));
            kubectl.args(["get", "namespaces"])
        });
        for run in [&tunnel, &direct] {
            if !run.output()?.contains("kube-system") {
                return Err("kubectl gets no namespaces".into());
            }
        }
        pairs(60, &tunnel, &direct, || Ok(()), || Ok(()))
    }

    fn compare(&self, where_: &str, report: &mut Report) -> Outcome<()> {
        let beside = |what: &str| format!("{what}{where_}, tunnel / kubectl port-forward");
        report.at_most(1.0, &beside(&format!("{SERIAL} connections in turn")), &self.pair(in_turn)?)?;
        report.at_most(1.0, &beside(&format!("{AT_ONCE} connections at once")), &self.pair(at_once)?)?;
        report.at_most(
            1.0 / 0.9,
            &beside("64 MiB down"),
            &self.pair(|port| bulk(port, Connection::download))?,
        )?;
        report.at_most(
            1.0 / 0.9,
            &beside("64 MiB up"),
            &self.pair(|port| bulk(port, Connection::upload))?,
        )?;
        let (before, after) = self.fill()?;
        let what = format!("memory of the tunnel with 100 connections{where_}");
        report.size(40.0, &what, after, &format!("before them {before:.1} MiB"))
    }

    /// Does it through both by turns, once unmeasured.
    fn pair(&self, act: impl Fn(u16) -> Outcome<()>) -> Outcome<Pair> {
        let time = |port: u16| {
            let started = Instant::now();
            act(port).map(|()| started.elapsed().as_secs_f64() * 1e3)
        };
        let (ours, theirs) = (|| time(self.port), || time(self.forward.port));
        Pair::of(ROUNDS, &ours, &theirs)
    }

    /// Opens 100 connections that each carry a megabyte at the same time. The most memory that the tunnel
    /// ever had before and after, in MiB.
    fn fill(&self) -> Outcome<(f64, f64)> {
        let before = self.peak()?;
        let mut open: Vec<_> = (0..100).map(|_| Connection::open(self.port)).collect::<Outcome<_>>()?;
        all(open.iter_mut(), |connection| connection.download(1 << 20))?;
        all(open.iter_mut(), |connection| connection.upload(1 << 20))?;
        Ok((before, self.peak()?))
    }

    fn peak(&self) -> Outcome<f64> {
        let list = self.home.ours("kubectl-inventory").args(["tunnel", "list", "-o", "json"]).output()?;
        let list: Value = serde_json::from_str(&list).map_err(|error| error.to_string())?;
        let pid = &list["items"][0]["pid"];
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .map_err(|error| format!("the tunnel: {error}"))?;
        let kibibytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok());
        kibibytes.map(|kibibytes| kibibytes / 1024.0).ok_or_else(|| "the tunnel has no size".into())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.home.ours("kubectl-inventory").args(["tunnel", "stop", "--all"]).output();
    }
}

fn in_turn(port: u16) -> Outcome<()> {
    (0..SERIAL).try_for_each(|_| Connection::open(port).map(drop))
}

fn at_once(port: u16) -> Outcome<()> {
    let start = Barrier::new(AT_ONCE);
    all(0..AT_ONCE, |_| {
        start.wait();
        Connection::open(port).map(drop)
    })
}

fn bulk(port: u16, act: impl Fn(&mut Connection, u64) -> Outcome<()>) -> Outcome<()> {
    act(&mut Connection::open(port)?, BULK)
}

/// Does something with each at the same time.
fn all<T: Send>(each: impl Iterator<Item = T>, act: impl Fn(T) -> Outcome<()> + Sync) -> Outcome<()> {
    thread::scope(|scope| {
        let running: Vec<_> = each.map(|one| scope.spawn(|| act(one))).collect();
        running.into_iter().try_for_each(|one| one.join().map_err(|_| "it panicked")?)
    })
}

/// A `kubectl port-forward` that runs until this is dropped.
struct Forward {
    child: Child,
    port: u16,
}

impl Forward {
    fn start(home: &Home, kubectl: &Path) -> Outcome<Self> {
        let run =
            home.run(kubectl).args(["port-forward", "-n", ADDON, "svc/cluster-proxy-addon-user", ":9092"]);
        let mut child = run
            .command()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("kubectl: {error}"))?;
        let mut out = BufReader::new(child.stdout.take().ok_or("kubectl has no output")?);
        let mut first = String::new();
        out.read_line(&mut first).map_err(|error| format!("kubectl: {error}"))?;
        // `Forwarding from 127.0.0.1:40123 -> 9092`
        let port = first.split_whitespace().nth(2).and_then(|at| at.rsplit_once(':')?.1.parse().ok());
        let forward = Self { child, port: port.unwrap_or_default() };
        if port.is_none() {
            return Err(format!("kubectl port-forward says {first:?}"));
        }
        thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Ok(forward)
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
