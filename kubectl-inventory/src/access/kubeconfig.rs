//! A way into a cluster, rendered as kubeconfig entries. Pure.

use crate::inventory::cluster_profile::PLUGIN_EXTENSION;
use crate::kubeconfig_file::{Entry, Mark};
use credential_exec::protocol::ApiVersion;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What kubectl needs to know of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterEntry {
    /// URL of the API server; `https` only, since kubectl runs no plugin for another scheme.
    pub server: String,
    /// The host name that the server's certificate is for, where the URL has another one.
    pub tls_server_name: Option<String>,
    /// The CA, PEM in base64; none stands for the system's roots.
    pub ca_data: Option<String>,
    /// The proxy to reach the server through.
    pub proxy_url: Option<String>,
    /// Whether answers are to come uncompressed.
    pub disable_compression: bool,
    /// Whether the server's certificate goes unchecked; the CA is left out then.
    pub insecure: bool,
    /// What a plugin is told about the cluster (`spec.cluster.config`).
    pub plugin_config: Option<Value>,
}

/// The command that kubectl runs for a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecEntry {
    /// Version of the protocol.
    pub api_version: ApiVersion,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables to set, in this order.
    pub env: Vec<(String, String)>,
    /// What kubectl says where the program is not found.
    pub install_hint: Option<String>,
    /// Whether it may read from the terminal.
    pub interactive_mode: InteractiveMode,
    /// Whether it is told about the cluster.
    pub provide_cluster_info: bool,
}

/// Whether a plugin may read from the terminal, in client-go's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum InteractiveMode {
    /// It never does.
    Never,
    /// It does where there is one.
    #[default]
    IfAvailable,
    /// It must.
    Always,
}

/// Who kubectl is at a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserEntry {
    /// Whoever this command says.
    Exec(ExecEntry),
    /// A user that is in the kubeconfig already.
    Named(String),
}

/// The entry for a cluster, with one name for context, cluster and a user of its own. The same input
/// always gives the same bytes.
pub fn render(
    name: &str,
    cluster: &ClusterEntry,
    user: &UserEntry,
    namespace: Option<&str>,
    mark: Mark,
) -> Entry {
    let (user_name, user) = match user {
        UserEntry::Exec(exec) => (name, Some(json!({ "exec": exec_value(exec) }))),
        UserEntry::Named(user) => (user.as_str(), None),
    };
    Entry {
        context: name.to_owned(),
        cluster_name: name.to_owned(),
        user_name: user_name.to_owned(),
        cluster: cluster_value(cluster),
        user,
        namespace: namespace.map(str::to_owned),
        mark,
    }
}

/// A kubeconfig of its own: a context, a cluster and a user for each, all of one name; the first is the
/// current one.
pub fn file(entries: &[(String, &ClusterEntry, &ExecEntry)]) -> Value {
    let list = |of: &dyn Fn(&str, &ClusterEntry, &ExecEntry) -> Value| -> Value {
        entries.iter().map(|(name, cluster, exec)| of(name, cluster, exec)).collect()
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": list(&|name, cluster, _| json!({"name": name, "cluster": cluster_value(cluster)})),
        "users": list(&|name, _, exec| json!({"name": name, "user": {"exec": exec_value(exec)}})),
        "contexts": list(&|name, _, _| json!({"name": name, "context": {"cluster": name, "user": name}})),
        "current-context": entries.first().map(|(name, ..)| name),
    })
}

fn cluster_value(cluster: &ClusterEntry) -> Value {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
    if let Some(ca) = cluster.ca_data.as_ref().filter(|_| !cluster.insecure) {
        put("certificate-authority-data", json!(ca));
    }
    if cluster.disable_compression {
        put("disable-compression", json!(true));
    }
    if cluster.insecure {
        put("insecure-skip-tls-verify", json!(true));
    }
    if let Some(proxy) = &cluster.proxy_url {
        put("proxy-url", json!(proxy));
    }
    put("server", json!(cluster.server));
    if let Some(name) = &cluster.tls_server_name {
        put("tls-server-name", json!(name));
    }
    if let Some(config) = &cluster.plugin_config {
        put("extensions", json!([{ "name": PLUGIN_EXTENSION, "extension": config }]));
    }
    Value::Object(map)
}

/// The `exec` of a user entry, which other consumers' files spell in the same way.
pub fn exec_value(exec: &ExecEntry) -> Value {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
    put("apiVersion", json!(exec.api_version.as_str()));
    if !exec.args.is_empty() {
        put("args", json!(exec.args));
    }
    put("command", json!(exec.command));
    if !exec.env.is_empty() {
        put("env", exec.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect());
    }
    if let Some(hint) = &exec.install_hint {
        put("installHint", json!(hint));
    }
    put("interactiveMode", json!(exec.interactive_mode));
    put("provideClusterInfo", json!(exec.provide_cluster_info));
    Value::Object(map)
}
