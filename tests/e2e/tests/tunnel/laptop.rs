//! A machine from which only the hub can be reached, and a person on it who uses `cluster1`.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use e2e::sealed::{Ran, Sealed, run, token};
use fleet::{Builder, Fleet, tunnel};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The context that the person uses.
pub const CONTEXT: &str = "cluster1@hub";

/// What a loaded machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Laptop {
    pub fleet: Fleet,
    pub sealed: Sealed,
}

impl Laptop {
    /// With this in the config file.
    pub fn with(config: &str) -> Self {
        let laptop = Self::of(Fleet::builder().spokes(2), config);
        laptop.use_cluster();
        laptop
    }

    pub fn new() -> Self {
        Self::with("")
    }

    /// Nothing is used yet.
    pub fn of(fleet: Builder, config: &str) -> Self {
        let fleet = fleet.tunnelled().start();
        let sealed = Sealed::at(&fleet);
        sealed.write("config.yaml", config);
        Self { fleet, sealed }
    }

    pub fn use_cluster(&self) {
        self.sealed.inventory(&["use", "cluster1"]).ok();
    }

    /// The server of the context as kubectl sees it.
    pub fn server(&self) -> String {
        let entry = self.sealed.entry("clusters", CONTEXT);
        entry["cluster"]["server"].as_str().expect("a server").to_owned()
    }

    /// The port of this machine that the context names.
    pub fn port(&self) -> u16 {
        let rest = self.server().strip_prefix("https://127.0.0.1:").expect("a loopback address").to_owned();
        rest.split('/').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// Runs the plugin as kubectl does.
    pub fn plugin(&self) -> Ran {
        run(&mut self.sealed.plugin(CONTEXT))
    }

    /// Waits until a failure is not remembered any more.
    pub fn wait_out_a_failure(&self) {
        thread::sleep(Duration::from_millis(2100));
    }

    /// What a kubectl does: asks the plugin, then the spoke through the port that the context names.
    #[track_caller]
    pub fn namespaces(&self) -> String {
        let token = token(&self.plugin().ok());
        self.ask("/api/v1/namespaces", &token).unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Asks the spoke without asking the plugin.
    pub fn ask(&self, path: &str, token: &str) -> reqwest::Result<String> {
        self.client().get(format!("{}{path}", self.url())).bearer_auth(token).send()?.text()
    }

    /// The published address, at the port of this machine.
    pub fn url(&self) -> String {
        let host = format!("{}.{}", tunnel::SERVICE, tunnel::NAMESPACE);
        self.server().replacen("127.0.0.1", &host, 1)
    }

    /// Checks certificates as the context says.
    pub fn client(&self) -> reqwest::blocking::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bundle = self.fleet.tunnel().user_server().ca_pem();
        let signer = reqwest::Certificate::from_pem_bundle(bundle.as_bytes()).expect("certificates");
        let host = format!("{}.{}", tunnel::SERVICE, tunnel::NAMESPACE);
        let here = ([127, 0, 0, 1], self.port()).into();
        let builder = reqwest::blocking::Client::builder().tls_certs_only(signer).no_proxy().http1_only();
        builder.resolve(&host, here).build().expect("a client")
    }

    /// A connection to the tunnel, on which nothing was said yet.
    pub fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(("127.0.0.1", self.port())).expect("the tunnel listens");
        connection.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
        connection
    }

    /// How many connections the tunnel says are open.
    #[track_caller]
    pub fn connections(&self) -> u64 {
        self.sealed.tunnel()["connections"].as_u64().expect("a number")
    }

    /// Nothing that exists only to be believed is in this text.
    #[track_caller]
    pub fn keeps_secrets(&self, text: &str) {
        for secret in self.fleet.secrets().iter().filter(|secret| secret.len() > 8) {
            assert!(!text.contains(secret.as_str()), "{text}");
        }
    }

    /// Makes the hub's login a script of the home.
    pub fn log_in_by(&self, script: &str) {
        let script = self.sealed.write("login.sh", script);
        let mut config = self.sealed.config();
        let users = config["users"].as_array_mut().expect("users");
        let name = &self.fleet.kubeconfig()["users"][0]["name"];
        let hub = users.iter_mut().find(|user| user["name"] == *name).expect("the hub's user");
        hub["user"] = serde_json::json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh",
            "args": [script], "interactiveMode": "IfAvailable"}});
        self.sealed.write(".kube/config", &config.to_string());
    }

    /// What kubectl tells the plugin.
    pub fn exec_info(&self) -> Value {
        let command = self.sealed.plugin(CONTEXT);
        let info = command.get_envs().find(|(name, _)| *name == "KUBERNETES_EXEC_INFO");
        let info = info.and_then(|(_, value)| serde_json::from_str(value?.to_str()?).ok());
        info.expect("what kubectl tells")
    }

    /// Runs the plugin as a kubectl does that a person started in a terminal. What it shows there.
    pub fn plugin_in_a_terminal(&self) -> String {
        let command = self.sealed.plugin(CONTEXT);
        let mut info = self.exec_info();
        info["spec"]["interactive"] = true.into();
        let words: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")))
            .collect();
        let mut script = self.sealed.command("script");
        script.args(["-qec", &words.join(" "), "/dev/null"]).stdin(Stdio::piped());
        script.env("KUBERNETES_EXEC_INFO", info.to_string()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("script, of util-linux");
        let mut stdin = child.stdin.take().expect("a pipe");
        let answer = thread::spawn(move || {
            let _ = stdin.write_all(b"y\n");
            // A terminal that hangs up would end the plugin.
            thread::sleep(Duration::from_secs(8));
        });
        let output = child.wait_with_output().expect("it ends");
        let _ = answer.join();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Waits for it.
#[track_caller]
pub fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a process that a test started.
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

/// Whether a process is there and not a dead one that nobody asked after.
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}
