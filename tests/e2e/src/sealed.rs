//! A home of its own, with everything in it that our programs read and write.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fleet::Fleet;
use fleet::machine::kubectl;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binaries::binaries;

/// The environment of one test. Nothing of it is left when it is dropped.
pub struct Sealed {
    home: TempDir,
}

/// What a program that ended left behind.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; -1 after a signal.
    pub code: i32,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
}

impl Ran {
    /// Its stdout.
    ///
    /// # Panics
    /// When it failed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.stdout
    }

    /// Its stderr.
    ///
    /// # Panics
    /// When it ended with another code, or wrote to stdout.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert!(self.code == code && self.stdout.is_empty(), "wanted exit code {code}: {self:#?}");
        self.stderr
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Sealed {
    /// An empty home.
    pub fn empty() -> Self {
        let home = tempfile::Builder::new().prefix("inventory-e2e-").tempdir().expect("a temporary folder");
        fs::create_dir(home.path().join(".kube")).expect("a folder");
        Self { home }
    }

    /// A home whose `~/.kube/config` has this in it.
    pub fn with(kubeconfig: &Value) -> Self {
        let sealed = Self::empty();
        sealed.write(".kube/config", &format!("{kubeconfig:#}\n"));
        sealed
    }

    /// A home that knows the hub of a fleet, as its user `viewer`.
    pub fn at(fleet: &Fleet) -> Self {
        Self::with(&fleet.kubeconfig())
    }

    /// The home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A path in the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home().join(name)
    }

    /// Writes a file in the home.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, text).expect("a file");
        path
    }

    /// Reads a file in the home.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path(".kube/config")
    }

    /// The kubeconfig's content.
    pub fn config(&self) -> Value {
        yaml(&self.read(".kube/config"))
    }

    /// The named entry of `clusters`, `users` or `contexts`.
    pub fn entry(&self, list: &str, name: &str) -> Value {
        entry(&self.config(), list, name)
    }

    /// Where tokens are kept.
    pub fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// A program that sees this home and nothing else of the machine but the system's PATH.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut path = binaries().as_os_str().to_owned();
        path.push(":/usr/bin:/bin");
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", path)
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECTL_INVENTORY_CACHE_DIR", self.cache())
            .env("KUBECTL_INVENTORY_DATA_DIR", self.path("data"))
            .env("KUBECTL_INVENTORY_CONFIG", self.path("config.yaml"))
            .stdin(Stdio::null());
        command
    }

    /// `kubectl-inventory ARGS`, to be changed before it runs.
    pub fn inventory_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(binaries().join("kubectl-inventory"));
        command.args(args);
        command
    }

    /// Runs `kubectl-inventory ARGS`.
    pub fn inventory(&self, args: &[&str]) -> Ran {
        run(&mut self.inventory_command(args))
    }

    /// Runs the newest real kubectl. `None` where there is none.
    pub fn kubectl(&self, args: &[&str]) -> Option<Ran> {
        Some(run(self.command(kubectl()?).args(args)))
    }

    /// The plugin of a context as another kubectl each time would run it, `$KUBERNETES_EXEC_INFO`
    /// included.
    pub fn plugin(&self, context: &str) -> Command {
        let entry = self.entry("contexts", context);
        let cluster = entry["context"]["cluster"].as_str().expect("a cluster");
        let cluster = self.entry("clusters", cluster)["cluster"].clone();
        let info = json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "spec": { "interactive": false, "cluster": cluster },
        });
        self.plugin_with(context, &info.to_string())
    }

    /// As [`Sealed::plugin`], with this `$KUBERNETES_EXEC_INFO`; none when empty.
    pub fn plugin_with(&self, context: &str, info: &str) -> Command {
        // A shell between this test and the plugin: who asks is told by the parent process.
        let mut command = self.command("/bin/sh");
        command.args(["-c", r#""$@"; exit $?"#, "kubectl"]).args(self.plugin_line(context));
        if !info.is_empty() {
            command.env("KUBERNETES_EXEC_INFO", info);
        }
        command
    }

    /// Command and arguments of a context's plugin.
    pub fn plugin_line(&self, context: &str) -> Vec<String> {
        plugin_line(&self.entry("users", context))
    }

    /// The tunnels that run.
    #[track_caller]
    pub fn tunnels(&self) -> Vec<Value> {
        let list = self.inventory(&["tunnel", "list", "-o", "json"]).ok();
        let list: Value = serde_json::from_str(&list).unwrap_or_else(|error| panic!("{error}: {list}"));
        list["items"].as_array().expect("a list").clone()
    }

    /// The only tunnel that runs.
    #[track_caller]
    pub fn tunnel(&self) -> Value {
        let tunnels = self.tunnels();
        assert_eq!(tunnels.len(), 1, "{tunnels:#?}");
        tunnels[0].clone()
    }

    /// The process of the only tunnel that runs.
    #[track_caller]
    pub fn tunnel_pid(&self) -> u32 {
        let pid = self.tunnel()["pid"].as_u64().expect("a process");
        u32::try_from(pid).expect("a process number")
    }

    /// What the tunnels wrote to their logs.
    pub fn tunnel_log(&self) -> String {
        let entries = fs::read_dir(self.cache().join("tunnels")).into_iter().flatten().flatten();
        let logs =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "log"));
        logs.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
    }

    /// Runs the plugin of a context once, and answers its token.
    #[track_caller]
    pub fn token(&self, context: &str) -> String {
        token(&run(&mut self.plugin(context)).ok())
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if self.cache().join("tunnels").exists() {
            let _ = self.inventory_command(&["tunnel", "stop", "--all"]).output();
        }
    }
}

/// The token in an ExecCredential.
#[track_caller]
pub fn token(answer: &str) -> String {
    let answer: Value = serde_json::from_str(answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
    answer["status"]["token"].as_str().expect("a token").to_owned()
}

/// Command and arguments of a user entry.
pub fn plugin_line(user: &Value) -> Vec<String> {
    let exec = &user["user"]["exec"];
    let args = exec["args"].as_array().into_iter().flatten();
    std::iter::once(&exec["command"])
        .chain(args)
        .map(|word| word.as_str().expect("text").to_owned())
        .collect()
}

/// The named entry of a kubeconfig's list.
#[track_caller]
pub fn entry(config: &Value, list: &str, name: &str) -> Value {
    let entries = config[list].as_array().unwrap_or_else(|| panic!("no {list} in {config:#}"));
    let found = entries.iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list} of {config:#}")).clone()
}

/// What kubectl tells a plugin; `cluster` is what an extension of the cluster entry names.
pub fn exec_info(version: &str, cluster: Option<&str>) -> String {
    let config = cluster.map(|name| json!({ "clusterName": name }));
    json!({
        "apiVersion": format!("client.authentication.k8s.io/{version}"),
        "kind": "ExecCredential",
        "spec": { "interactive": false, "cluster": { "server": "https://127.0.0.1:1", "config": config } },
    })
    .to_string()
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Ran {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")).into()
}

/// Runs a command that is fed this on stdin.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("it ends");
    let _ = writer.join();
    output.into()
}

/// YAML as a value.
#[track_caller]
pub fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
