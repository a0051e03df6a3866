//! A kubeconfig read by client-go's rules: which files, how they merge, what their paths are
//! relative to, and the one [`Hub`] that a context names. Reads, never writes.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};

use crate::env::Env;
use crate::error::{Error, Kind, Result};

/// The merged view of one or more kubeconfig files.
#[derive(Clone, Default)]
pub struct Kubeconfig {
    /// The files that exist and were read, absolute, in the order of precedence.
    pub files: Vec<PathBuf>,
    /// The first `current-context` that is not empty.
    pub current_context: Option<String>,
    contexts: BTreeMap<String, Context>,
    clusters: BTreeMap<String, Cluster>,
    users: BTreeMap<String, User>,
}

/// A context entry.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Context {
    /// The cluster entry's name.
    #[serde(deserialize_with = "nullable")]
    pub cluster: String,
    /// The user entry's name; empty for an anonymous user.
    #[serde(deserialize_with = "nullable")]
    pub user: String,
    /// The namespace that commands use without `-n`.
    #[serde(deserialize_with = "non_empty")]
    pub namespace: Option<String>,
    /// What other programs noted in this entry.
    #[serde(deserialize_with = "nullable")]
    pub extensions: Vec<Extension>,
}

/// A named extension of an entry.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Extension {
    /// Who wrote it.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// What was written.
    pub extension: serde_json::Value,
}

/// A cluster entry: where the API is and whom to trust there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Cluster {
    /// The API's address; in a [`Hub`] with a scheme and without a trailing slash.
    #[serde(deserialize_with = "nullable")]
    pub server: String,
    /// The name to ask for and to verify, where it is not the address's host.
    #[serde(deserialize_with = "non_empty")]
    pub tls_server_name: Option<String>,
    /// Whether any certificate is accepted.
    #[serde(deserialize_with = "nullable")]
    pub insecure_skip_tls_verify: bool,
    /// A PEM file of the certificates to trust.
    #[serde(deserialize_with = "non_empty_path")]
    pub certificate_authority: Option<PathBuf>,
    /// The same as base64 text; goes before the file.
    #[serde(deserialize_with = "non_empty")]
    pub certificate_authority_data: Option<String>,
    /// The proxy to this cluster; may hold the proxy's password.
    #[serde(deserialize_with = "secret")]
    pub proxy_url: Option<SecretString>,
    /// Whether answers are asked for uncompressed.
    #[serde(deserialize_with = "nullable")]
    pub disable_compression: bool,
    /// What other programs noted in this entry.
    #[serde(deserialize_with = "nullable")]
    pub extensions: Vec<Extension>,
}

/// A user entry: who we say we are.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct User {
    /// A bearer token.
    #[serde(deserialize_with = "secret")]
    pub token: Option<SecretString>,
    /// A file that holds the bearer token; goes before `token`.
    #[serde(rename = "tokenFile", deserialize_with = "non_empty_path")]
    pub token_file: Option<PathBuf>,
    /// A PEM file of the client certificate.
    #[serde(deserialize_with = "non_empty_path")]
    pub client_certificate: Option<PathBuf>,
    /// The same as base64 text; goes before the file.
    #[serde(deserialize_with = "non_empty")]
    pub client_certificate_data: Option<String>,
    /// A PEM file of the client certificate's key.
    #[serde(deserialize_with = "non_empty_path")]
    pub client_key: Option<PathBuf>,
    /// The same as base64 text; goes before the file.
    #[serde(deserialize_with = "secret")]
    pub client_key_data: Option<SecretString>,
    /// The user name of basic authentication.
    #[serde(deserialize_with = "non_empty")]
    pub username: Option<String>,
    /// The password of basic authentication.
    #[serde(deserialize_with = "secret")]
    pub password: Option<SecretString>,
    /// A command that knows the credential.
    pub exec: Option<Exec>,
    /// Whether there is an `auth-provider`, which nobody supports any more.
    #[serde(deserialize_with = "present")]
    pub auth_provider: bool,
    /// `as`: the user to impersonate.
    #[serde(rename = "as", deserialize_with = "non_empty")]
    pub as_user: Option<String>,
    /// `as-uid`: the uid to impersonate.
    #[serde(rename = "as-uid", deserialize_with = "non_empty")]
    pub as_uid: Option<String>,
    /// `as-groups`: the groups to impersonate.
    #[serde(rename = "as-groups", deserialize_with = "nullable")]
    pub as_groups: Vec<String>,
    /// `as-user-extra`: further attributes to impersonate.
    #[serde(rename = "as-user-extra", deserialize_with = "nullable")]
    pub as_user_extra: BTreeMap<String, Vec<String>>,
}

/// An exec credential plugin.
#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Exec {
    /// The version of the protocol that it speaks.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// The program: absolute, or a bare name that is looked for on PATH.
    #[serde(deserialize_with = "nullable")]
    pub command: String,
    /// Its arguments.
    #[serde(deserialize_with = "nullable")]
    pub args: Vec<String>,
    /// Variables on top of the inherited ones.
    #[serde(deserialize_with = "nullable")]
    pub env: Vec<ExecVar>,
    /// What to tell a person who lacks the program.
    #[serde(deserialize_with = "non_empty")]
    pub install_hint: Option<String>,
    /// Whether the program is told about the cluster.
    #[serde(deserialize_with = "nullable")]
    pub provide_cluster_info: bool,
    /// `Never`, `IfAvailable` or `Always`.
    #[serde(deserialize_with = "non_empty")]
    pub interactive_mode: Option<String>,
}

impl fmt::Debug for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exec").field("command", &self.command).finish_non_exhaustive()
    }
}

/// A variable of an exec plugin.
#[derive(Clone, Debug, Deserialize)]
pub struct ExecVar {
    /// The variable's name.
    pub name: String,
    /// Its value, which may be a credential.
    #[serde(default = "empty_secret", deserialize_with = "secret_or_empty")]
    pub value: SecretString,
}

/// One API to talk to: a context with its cluster and its user.
#[derive(Clone)]
pub struct Hub {
    /// The context's name, for messages.
    pub context: String,
    /// The context's namespace.
    pub namespace: Option<String>,
    /// Where the API is.
    pub cluster: Cluster,
    /// Who we are there.
    pub user: User,
    /// The kubeconfig files that this was read from; none in a Pod.
    pub files: Vec<PathBuf>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("context", &self.context)
            .field("server", &self.server())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Kubeconfig {
    /// The files that a command reads: the explicit one, else those of `$KUBECONFIG`, else the
    /// one in the home directory.
    pub fn paths(env: &Env, explicit: Option<&Path>) -> Vec<PathBuf> {
        if let Some(path) = explicit {
            return vec![path.to_owned()];
        }
        let Some(list) = env.os("KUBECONFIG") else {
            return env.home().map(|home| home.join(".kube").join("config")).into_iter().collect();
        };
        let mut seen = HashSet::new();
        std::env::split_paths(&list)
            .filter(|path| !path.as_os_str().is_empty() && seen.insert(path.clone()))
            .collect()
    }

    /// Reads and merges these files. A missing one is skipped; all missing is an error.
    pub fn load(paths: &[PathBuf]) -> Result<Self> {
        let mut merged = Self::default();
        for path in paths {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(Error::new(
                        Kind::Usage,
                        format!("kubeconfig {} cannot be read: {error}", path.display()),
                    ));
                }
            };
            let folder = path.parent().unwrap_or(Path::new("/"));
            let file = Self::parse(&text, folder)
                .map_err(|e| e.context(format_args!("kubeconfig {}", path.display())))?;
            merged.add(file);
            merged.files.push(path);
        }
        if merged.files.is_empty() {
            return Err(none_found(paths));
        }
        Ok(merged)
    }

    /// Reads one kubeconfig's text, whose relative paths start at `dir`.
    pub fn parse(text: &str, dir: &Path) -> Result<Self> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_events: 50_000_000,
                max_nodes: 25_000_000,
                max_total_scalar_bytes: 1 << 30,
            },
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
            with_snippet: false,
        };
        let document = if text.trim().is_empty() {
            None
        } else {
            serde_saphyr::from_str_with_options::<Option<Document>>(text, options)
                .map_err(|error| not_a_kubeconfig(&error))?
        };
        let mut config = Self::default();
        let Some(document) = document else { return Ok(config) };
        config.current_context = document.current_context;
        for mut entry in document.clusters {
            absolute(&mut entry.cluster.certificate_authority, dir);
            config.clusters.entry(entry.name).or_insert(entry.cluster);
        }
        for NamedUser { name, mut user } in document.users {
            for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
                absolute(path, dir);
            }
            if let Some(exec) =
                user.exec.as_mut().filter(|exec| exec.command.contains(std::path::is_separator))
            {
                exec.command = dir.join(&exec.command).to_string_lossy().into_owned();
            }
            config.users.entry(name).or_insert(user);
        }
        for entry in document.contexts {
            config.contexts.entry(entry.name).or_insert(entry.context);
        }
        Ok(config)
    }

    /// The names of the contexts, sorted.
    pub fn contexts(&self) -> impl Iterator<Item = &str> {
        self.contexts.keys().map(String::as_str)
    }

    /// A context by name.
    pub fn context(&self, name: &str) -> Option<&Context> {
        self.contexts.get(name)
    }

    /// The API that this context names, or the current one.
    pub fn select(&self, context: Option<&str>) -> Result<Hub> {
        let name = match context.filter(|name| !name.is_empty()).or(self.current_context.as_deref()) {
            Some(name) => name,
            None if self.contexts.is_empty() => {
                return Err(Error::new(Kind::NotFound, format!("{} holds no context", self.named_files()))
                    .remedy("add the hub's context to it, or choose another file with --kubeconfig"));
            }
            None => {
                return Err(Error::new(
                    Kind::NotFound,
                    format!("{} has no current-context", self.named_files()),
                )
                .remedy(format!("choose one with --context: {}", self.on_offer())));
            }
        };
        let Some(entry) = self.contexts.get(name) else {
            return Err(Error::new(
                Kind::NotFound,
                format!("{} has no context {name:?}", self.named_files()),
            )
            .remedy(format!("there are: {}", self.on_offer())));
        };
        let dangling = |what: &str, of: &str| {
            Error::new(
                Kind::Usage,
                format!("context {name:?} names the {what} {of:?}, which {} lacks", self.named_files()),
            )
        };
        let mut cluster =
            self.clusters.get(&entry.cluster).cloned().ok_or_else(|| dangling("cluster", &entry.cluster))?;
        let user = match entry.user.as_str() {
            "" => User::default(),
            user => self.users.get(user).cloned().ok_or_else(|| dangling("user", user))?,
        };
        cluster.server =
            normalised_server(&cluster, &user).map_err(|e| e.context(format_args!("context {name:?}")))?;
        Ok(Hub {
            context: name.to_owned(),
            namespace: entry.namespace.clone(),
            cluster,
            user,
            files: self.files.clone(),
        })
    }

    fn add(&mut self, later: Self) {
        self.current_context = self.current_context.take().or(later.current_context);
        for (name, entry) in later.contexts {
            self.contexts.entry(name).or_insert(entry);
        }
        for (name, entry) in later.clusters {
            self.clusters.entry(name).or_insert(entry);
        }
        for (name, entry) in later.users {
            self.users.entry(name).or_insert(entry);
        }
    }

    fn named_files(&self) -> String {
        if self.files.is_empty() {
            "the kubeconfig".to_owned()
        } else {
            format!("kubeconfig {}", listed(&self.files))
        }
    }

    fn on_offer(&self) -> String {
        const SHOWN: usize = 10;
        let mut names: Vec<_> = self.contexts().take(SHOWN).map(str::to_owned).collect();
        if self.contexts.len() > SHOWN {
            names.push(format!("and {} more", self.contexts.len() - SHOWN));
        }
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

impl Hub {
    /// The hub that this Pod runs in, or `None` outside of one.
    pub fn in_cluster(env: &Env) -> Result<Option<Self>> {
        Self::in_cluster_at(env, Path::new("/var/run/secrets/kubernetes.io/serviceaccount"))
    }

    /// [`Hub::in_cluster`] with the service account's folder elsewhere.
    pub fn in_cluster_at(env: &Env, folder: &Path) -> Result<Option<Self>> {
        let (Some(host), Some(port)) =
            (env.var("KUBERNETES_SERVICE_HOST"), env.var("KUBERNETES_SERVICE_PORT"))
        else {
            return Ok(None);
        };
        let token = folder.join("token");
        if !token.is_file() {
            return Ok(None);
        }
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let ca = folder.join("ca.crt");
        let namespace = env.var("POD_NAMESPACE").or_else(|| {
            let text = std::fs::read_to_string(folder.join("namespace")).ok()?;
            Some(text.trim().to_owned()).filter(|name| !name.is_empty())
        });
        let user = User { token_file: Some(token), ..User::default() };
        let mut cluster = Cluster {
            server: format!("https://{host}:{port}"),
            certificate_authority: ca.is_file().then_some(ca),
            ..Cluster::default()
        };
        cluster.server = normalised_server(&cluster, &user)?;
        Ok(Some(Self { context: "in-cluster".to_owned(), namespace, cluster, user, files: Vec::new() }))
    }

    /// The API's address without a trailing slash.
    pub fn server(&self) -> &str {
        self.cluster.server.trim_end_matches('/')
    }

    /// Lowercase hex SHA-256 of the CA bundle as configured; `system` where there is none,
    /// `insecure` where nothing is verified.
    pub fn ca_fingerprint(&self) -> Result<String> {
        if self.cluster.insecure_skip_tls_verify {
            return Ok("insecure".to_owned());
        }
        Ok(match self.cluster.ca_bundle()? {
            Some(bundle) => hex(ring::digest::digest(&ring::digest::SHA256, &bundle).as_ref()),
            None => "system".to_owned(),
        })
    }

    /// Lowercase hex SHA-256 of everything in the user entry that shapes who we are.
    pub fn identity_hash(&self) -> String {
        let user = &self.user;
        let mut hash = Fields::new();
        hash.optional(user.token.as_ref().map(ExposeSecret::expose_secret));
        hash.path(user.token_file.as_deref());
        hash.path(user.client_certificate.as_deref());
        for file in [&user.token_file, &user.client_certificate] {
            hash.optional(file.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).as_deref());
        }
        hash.optional(user.client_certificate_data.as_deref());
        hash.path(user.client_key.as_deref());
        hash.optional(user.client_key_data.as_ref().map(ExposeSecret::expose_secret));
        hash.optional(user.username.as_deref());
        hash.optional(user.password.as_ref().map(ExposeSecret::expose_secret));
        hash.number(usize::from(user.exec.is_some()));
        if let Some(exec) = &user.exec {
            hash.text(&exec.command);
            hash.list(exec.args.iter().map(String::as_str));
            hash.list(exec.env.iter().flat_map(|var| [var.name.as_str(), var.value.expose_secret()]));
        }
        hash.optional(user.as_user.as_deref());
        hash.optional(user.as_uid.as_deref());
        hash.list(user.as_groups.iter().map(String::as_str));
        hash.number(user.as_user_extra.len());
        for (name, values) in &user.as_user_extra {
            hash.text(name);
            hash.list(values.iter().map(String::as_str));
        }
        hash.finish()
    }
}

impl Cluster {
    /// The CA bundle as configured: the data, else the file's content.
    pub fn ca_bundle(&self) -> Result<Option<Vec<u8>>> {
        bytes(
            self.certificate_authority_data.as_deref(),
            self.certificate_authority.as_deref(),
            "certificate-authority",
        )
    }
}

/// Base64 data of a kubeconfig, else the content of the file beside it.
pub(super) fn bytes(data: Option<&str>, file: Option<&Path>, field: &str) -> Result<Option<Vec<u8>>> {
    if let Some(data) = data {
        let compact: String = data.chars().filter(|c| !c.is_whitespace()).collect();
        let decoded = STANDARD.decode(compact);
        return decoded.map(Some).map_err(|_| Error::new(Kind::Usage, format!("{field}-data is not base64")));
    }
    let Some(path) = file else { return Ok(None) };
    let content = std::fs::read(path);
    content.map(Some).map_err(|error| {
        Error::new(Kind::Usage, format!("{field} {} cannot be read: {error}", path.display()))
    })
}

fn normalised_server(cluster: &Cluster, user: &User) -> Result<String> {
    let trusts = cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
    if trusts && cluster.insecure_skip_tls_verify {
        return Err(Error::new(
            Kind::Usage,
            "its cluster has both a certificate authority and insecure-skip-tls-verify",
        )
        .remedy("remove one of them"));
    }
    let wrong = |why: &str| Error::new(Kind::Usage, format!("its cluster's server {why}"));
    let given = cluster.server.trim();
    if given.is_empty() {
        return Err(wrong("is empty"));
    }
    let certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
    let scheme = if trusts || certificate || cluster.insecure_skip_tls_verify { "https" } else { "http" };
    let given = if given.contains("://") { given.to_owned() } else { format!("{scheme}://{given}") };
    let uri: http::Uri = given.parse().map_err(|_| wrong("is not an address"))?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(wrong("is not an address"));
    };
    if !matches!(scheme, "https" | "http") {
        return Err(wrong(&format!("has the scheme {scheme}, which is neither https nor http")));
    }
    if authority.as_str().contains('@') {
        return Err(wrong("holds a user name or a password").remedy("move them to the user entry"));
    }
    Ok(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/')))
}

fn none_found(paths: &[PathBuf]) -> Error {
    let cause = match paths {
        [] => "there is no kubeconfig: $KUBECONFIG and the home directory are not set".to_owned(),
        [one] => format!("kubeconfig {} does not exist", one.display()),
        many => format!("none of these kubeconfigs exists: {}", listed(many)),
    };
    Error::new(Kind::NotFound, cause).remedy("choose one with --kubeconfig or $KUBECONFIG")
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn not_a_kubeconfig(error: &serde_saphyr::Error) -> Error {
    let place =
        error.location().map_or(String::new(), |at| format!(" (line {}, column {})", at.line(), at.column()));
    Error::new(Kind::Usage, format!("this is not a kubeconfig{place}"))
}

fn absolute(path: &mut Option<PathBuf>, dir: &Path) {
    if let Some(path) = path {
        *path = dir.join(&path);
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A hash over fields that cannot run into each other.
struct Fields(ring::digest::Context);

impl Fields {
    fn new() -> Self {
        Self(ring::digest::Context::new(&ring::digest::SHA256))
    }

    fn number(&mut self, number: usize) {
        self.0.update(&(number as u64).to_be_bytes());
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.raw(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.number(usize::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }

    fn path(&mut self, path: Option<&Path>) {
        self.number(usize::from(path.is_some()));
        self.raw(path.map_or(&[], |path| path.as_os_str().as_encoded_bytes()));
    }

    fn list<'a>(&mut self, items: impl Iterator<Item = &'a str>) {
        let items: Vec<_> = items.collect();
        self.number(items.len());
        for item in items {
            self.text(item);
        }
    }

    fn finish(self) -> String {
        hex(self.0.finish().as_ref())
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Document {
    #[serde(deserialize_with = "non_empty")]
    current_context: Option<String>,
    #[serde(deserialize_with = "nullable")]
    contexts: Vec<NamedContext>,
    #[serde(deserialize_with = "nullable")]
    clusters: Vec<NamedCluster>,
    #[serde(deserialize_with = "nullable")]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    context: Context,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    cluster: Cluster,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    user: User,
}

fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn non_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}

fn non_empty_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    Ok(non_empty(from)?.map(PathBuf::from))
}

fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<SecretString>::deserialize(from)?.filter(|text| !text.expose_secret().is_empty()))
}

fn secret_or_empty<'de, D: Deserializer<'de>>(from: D) -> Result<SecretString, D::Error> {
    Ok(secret(from)?.unwrap_or_else(empty_secret))
}

fn empty_secret() -> SecretString {
    SecretString::from(String::new())
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::<serde::de::IgnoredAny>::deserialize(from)?.is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Kubeconfig {
        Kubeconfig::parse(text, Path::new("/folder")).unwrap()
    }

    fn hub(cluster: &str, user: &str) -> Result<Hub> {
        parse(&format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n"
        ))
        .select(None)
    }

    fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn the_explicit_file_goes_before_the_variable_and_that_before_the_home_directory() {
        let list = std::env::join_paths(["/a", "", "/b", "/a"]).unwrap();
        let env = Env::of([("KUBECONFIG", list), ("HOME", "/home/me".into())]);
        assert_eq!(Kubeconfig::paths(&env, Some(Path::new("/x"))), [Path::new("/x")]);
        assert_eq!(Kubeconfig::paths(&env, None), [Path::new("/a"), Path::new("/b")]);
        let env = Env::of([("KUBECONFIG", ""), ("HOME", "/home/me")]);
        assert_eq!(Kubeconfig::paths(&env, None), [Path::new("/home/me").join(".kube").join("config")]);
    }

    #[test]
    fn a_missing_file_is_skipped_and_all_missing_is_an_error_that_lists_them() {
        let folder = tempfile::tempdir().unwrap();
        let (there, gone) = (written(folder.path(), "there", "contexts: null\n"), folder.path().join("gone"));
        assert_eq!(Kubeconfig::load(&[gone.clone(), there.clone()]).unwrap().files, [there]);
        let error = Kubeconfig::load(&[gone.clone(), folder.path().join("gone-too")]).unwrap_err();
        assert_eq!(error.kind, Kind::NotFound);
        assert!(error.cause.contains("gone,") && error.cause.contains("gone-too"), "{error}");
        assert!(Kubeconfig::load(&[gone]).unwrap_err().cause.contains("does not exist"));
    }

    #[test]
    fn the_first_file_wins_for_each_name_and_the_first_filled_current_context() {
        let folder = tempfile::tempdir().unwrap();
        let entry = |cluster: &str| format!("{{name: x, context: {{cluster: {cluster}}}}}");
        let one =
            written(folder.path(), "1", &format!("current-context: \"\"\ncontexts: [{}]\n", entry("one")));
        let two = written(
            folder.path(),
            "2",
            &format!("current-context: x\ncontexts: [{}, {{name: y}}]\n", entry("two")),
        );
        let merged = Kubeconfig::load(&[one, two]).unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("x"));
        assert_eq!(merged.context("x").unwrap().cluster, "one");
        assert_eq!(merged.contexts().collect::<Vec<_>>(), ["x", "y"]);
    }

    #[test]
    fn relative_paths_start_at_the_folder_of_their_own_file_and_bare_commands_stay_bare() {
        let user = "{client-certificate: c.pem, client-key: /k.pem, tokenFile: ../t, exec: {apiVersion: v, command: ./login}}";
        let hub = hub("{server: 'https://h', certificate-authority: ca.pem}", user).unwrap();
        assert_eq!(hub.cluster.certificate_authority.as_deref(), Some(Path::new("/folder/ca.pem")));
        assert_eq!(hub.user.client_certificate.as_deref(), Some(Path::new("/folder/c.pem")));
        assert_eq!(hub.user.client_key.as_deref(), Some(Path::new("/k.pem")));
        assert_eq!(hub.user.token_file.as_deref(), Some(Path::new("/folder/../t")));
        assert_eq!(hub.user.exec.unwrap().command, "/folder/./login");
        let bare =
            super::tests::hub("{server: 'https://h'}", "{exec: {command: login, args: null, env: null}}")
                .unwrap();
        assert_eq!(bare.user.exec.unwrap().command, "login");
    }

    #[test]
    fn empty_values_nulls_numbers_and_unknown_fields_are_no_trouble() {
        let hub = hub(
            "{server: 'https://h/', proxy-url: '', certificate-authority-data: null, new: {a: 1}}",
            "{token: '', username: 12, password: 34, as: ''}",
        )
        .unwrap();
        assert_eq!(hub.server(), "https://h");
        assert!(hub.cluster.proxy_url.is_none() && hub.user.token.is_none() && hub.user.as_user.is_none());
        assert_eq!(hub.user.username.as_deref(), Some("12"));
        for empty in ["", "\n", "# nothing\n", "---\n", "{}"] {
            assert_eq!(parse(empty).contexts().count(), 0, "{empty:?}");
        }
        assert!(parse("contexts: [{name: a, context: null}, {name: b}]").context("b").is_some());
    }

    #[test]
    fn extensions_of_a_context_are_kept_as_they_are() {
        let config = parse(
            "contexts: [{name: a, context: {extensions: [{name: kubectl-inventory, extension: {hub: [1, x]}}]}}]",
        );
        let extension = &config.context("a").unwrap().extensions[0];
        assert_eq!(extension.name, "kubectl-inventory");
        assert_eq!(extension.extension, serde_json::json!({ "hub": [1, "x"] }));
    }

    #[test]
    fn an_unknown_context_is_not_found_and_the_others_are_offered() {
        let config = parse("contexts: [{name: a}, {name: b}]");
        let error = config.select(Some("c")).unwrap_err();
        assert_eq!((error.kind, error.remedy.as_str()), (Kind::NotFound, "there are: a, b"));
        assert!(config.select(None).unwrap_err().cause.contains("no current-context"));
        assert!(parse("").select(None).unwrap_err().cause.contains("no context"));
        assert!(config.select(Some("a")).unwrap_err().cause.contains("names the cluster"));
    }

    #[test]
    fn a_server_is_made_whole_or_refused_and_never_a_panic() {
        let table = [
            ("'https://h:6443/'", Some("https://h:6443")),
            ("'https://h/prefix/a/'", Some("https://h/prefix/a")),
            ("'https://[fd00::1]:6443'", Some("https://[fd00::1]:6443")),
            ("'h:6443'", Some("http://h:6443")),
            ("'localhost'", Some("http://localhost")),
            ("'http://h'", Some("http://h")),
            ("''", None),
            ("'ftp://h'", None),
            ("'https://me:pw@h'", None),
            ("'https://'", None),
            ("'://'", None),
            ("'a b'", None),
        ];
        for (server, expected) in table {
            let found = hub(&format!("{{server: {server}}}"), "{}").ok();
            assert_eq!(found.as_ref().map(Hub::server), expected, "{server}");
        }
        let with_ca = hub("{server: 'h:1', certificate-authority-data: YQ==}", "{}").unwrap();
        assert_eq!(with_ca.server(), "https://h:1");
    }

    #[test]
    fn a_ca_together_with_insecure_is_an_error_as_in_kubectl() {
        let error =
            hub("{server: 'https://h', certificate-authority: c, insecure-skip-tls-verify: true}", "{}")
                .unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
    }

    #[test]
    fn the_fingerprint_is_that_of_the_bundle_however_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let file = written(folder.path(), "ca.pem", "abc");
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for cluster in [
            "certificate-authority-data: YWJj".to_owned(),
            "certificate-authority-data: \"Y\\nW Jj\"".to_owned(),
            format!("certificate-authority: '{}'", file.display()),
            format!("certificate-authority-data: YWJj, certificate-authority: '{}.gone'", file.display()),
        ] {
            let hub = hub(&format!("{{server: 'https://h', {cluster}}}"), "{}").unwrap();
            assert_eq!(hub.ca_fingerprint().unwrap(), of_abc, "{cluster}");
        }
        assert_eq!(hub("{server: 'https://h'}", "{}").unwrap().ca_fingerprint().unwrap(), "system");
        assert_eq!(
            hub("{server: 'https://h', insecure-skip-tls-verify: true}", "{}")
                .unwrap()
                .ca_fingerprint()
                .unwrap(),
            "insecure"
        );
        assert!(
            hub("{server: 'https://h', certificate-authority-data: '*'}", "{}")
                .unwrap()
                .ca_fingerprint()
                .is_err()
        );
    }

    #[test]
    fn every_part_of_who_we_are_changes_the_identity() {
        let users = [
            "{}",
            "{token: a}",
            "{token: b}",
            "{tokenFile: a}",
            "{client-certificate: a}",
            "{client-key: a}",
            "{client-certificate-data: a}",
            "{client-key-data: a}",
            "{username: a}",
            "{password: a}",
            "{username: a, password: a}",
            "{exec: {command: a}}",
            "{exec: {command: a, args: [b, c]}}",
            "{exec: {command: a, args: [bc]}}",
            "{exec: {command: a, env: [{name: b, value: c}]}}",
            "{exec: {command: a, env: [{name: b, value: d}]}}",
            "{as: a}",
            "{as: a, as-uid: a}",
            "{as: a, as-groups: [a]}",
            "{as: a, as-groups: [a, b]}",
            "{as: a, as-user-extra: {a: [b]}}",
            "{as: a, as-user-extra: {a: [c]}}",
        ];
        let hashes: HashSet<_> =
            users.iter().map(|user| hub("{server: 'https://h'}", user).unwrap().identity_hash()).collect();
        assert_eq!(hashes.len(), users.len());
        assert!(hashes.iter().all(|hash| hash.len() == 64));
    }

    #[test]
    fn a_broken_file_is_named_and_nothing_of_it_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        for text in [
            "users: hush-token",
            "users: [{name: a, user: {token: {hush-token: 1}}}]",
            "a: [hush-token",
            "hush-token",
            "\u{0}hush-token: ]",
        ] {
            let path = written(folder.path(), "broken", text);
            let error = Kubeconfig::load(std::slice::from_ref(&path)).unwrap_err();
            assert!(error.cause.contains("broken") && !error.one_line().contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_file_of_eleven_thousand_contexts_is_read() {
        let mut text = String::new();
        for (list, entry) in [
            ("contexts", "context: {cluster: c, user: u, namespace: n}"),
            ("clusters", "cluster: {server: 'https://h', certificate-authority-data: YWJj}"),
            (
                "users",
                "user: {exec: {apiVersion: v1, command: c, args: [a, b, c, d, e, f], env: [{name: a, value: b}]}}",
            ),
        ] {
            text.push_str(&format!("{list}:\n"));
            for n in 0..11_000 {
                text.push_str(&format!("- {{name: n{n}, {entry}}}\n"));
            }
        }
        assert_eq!(parse(&text).contexts().count(), 11_000);
    }

    #[test]
    fn no_credential_is_in_a_debug_text() {
        let hub = hub("{server: 'https://h', proxy-url: 'http://u:hush@p'}", "{token: hush, password: hush, client-key-data: hush, exec: {command: c, args: [hush], env: [{name: a, value: hush}]}}").unwrap();
        assert!(!format!("{hub:?} {:?} {:?}", hub.cluster, hub.user).contains("hush"));
    }

    #[test]
    fn in_a_pod_the_service_account_is_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::of([("KUBERNETES_SERVICE_HOST", "fd00::1"), ("KUBERNETES_SERVICE_PORT", "443")]);
        assert!(Hub::in_cluster_at(&env, folder.path()).unwrap().is_none());
        written(folder.path(), "token", "t");
        written(folder.path(), "ca.crt", "abc");
        written(folder.path(), "namespace", "here\n");
        assert!(Hub::in_cluster_at(&Env::of([("X", "")]), folder.path()).unwrap().is_none());
        let hub = Hub::in_cluster_at(&env, folder.path()).unwrap().unwrap();
        assert_eq!(hub.server(), "https://[fd00::1]:443");
        assert_eq!(hub.namespace.as_deref(), Some("here"));
        assert_eq!(hub.user.token_file, Some(folder.path().join("token")));
        assert!(hub.ca_fingerprint().unwrap().starts_with("ba7816bf"));
    }

    proptest! {
        #[test]
        fn merging_keeps_the_first_of_each_name(files in prop::collection::vec(prop::collection::vec(0..6_u8, 0..5), 1..5)) {
            let folder = tempfile::tempdir().unwrap();
            let mut first = BTreeMap::new();
            let paths: Vec<_> = files.iter().enumerate().map(|(number, names)| {
                let entries: Vec<_> = names.iter().map(|name| format!("{{name: n{name}, context: {{cluster: c{number}}}}}")).collect();
                for name in names {
                    first.entry(format!("n{name}")).or_insert(format!("c{number}"));
                }
                written(folder.path(), &number.to_string(), &format!("contexts: [{}]\n", entries.join(", ")))
            }).collect();
            let merged = Kubeconfig::load(&paths).unwrap();
            let found: BTreeMap<_, _> = merged.contexts().map(|name| (name.to_owned(), merged.context(name).unwrap().cluster.clone())).collect();
            prop_assert_eq!(found, first);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,200}", server in "\\PC{0,40}") {
            let _ = Kubeconfig::parse(&text, Path::new("/"));
            let _ = normalised_server(&Cluster { server, ..Cluster::default() }, &User::default());
        }
    }
}
