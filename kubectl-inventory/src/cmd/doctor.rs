//! `doctor [NAME]`: each link from the kubeconfig to the hub, and from the hub to a cluster's own API, in the order
//! in which kubectl depends on them. Looks at whatever can be looked at, changes nothing.

use std::io::Write;
use std::process::{Command, Stdio};

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::client::Options;
use credential_exec::hub::kubeconfig::User;
use credential_exec::hub::{Client, Hub, Kubeconfig, kuberc};
use credential_exec::request::Source;
use serde::Deserialize;
use serde_json::{Value, json};

use super::detect;
use super::entries::Entries;
use super::list::Scope;
use super::member::Member;
use super::permission::{self, Permission};
use super::use_cluster::the_usable_one;
use super::way_in::{Found, Login, WayIn, as_api};
use crate::access::kubeconfig::{ClusterEntry, ExecEntry, UserEntry};
use crate::access::trust::USER_SERVER;
use crate::cli::{Doctor, Global};
use crate::cmd::version;
use crate::config::Config;
use crate::hub::{self, Chosen};
use crate::inventory::{Origin, account};
use crate::output::checks::Checks;
use crate::term::not_written;

/// The links to the hub, and those to a cluster; what stands for one that was not looked at.
const OF_HUB: [&str; 3] = ["hub API", "hub identity", "inventory"];
const OF_CLUSTER: [&str; 6] =
    ["cluster", "way in", "credential", "cluster API", "cluster identity", "cluster permissions"];

/// Everything that `doctor` is given.
pub struct DoctorRun<'a> {
    /// The verb's own flags.
    pub options: &'a Doctor,
    /// The hub's flags.
    pub global: &'a Global,
    /// The surroundings.
    pub env: &'a Env,
    /// Whether the output is coloured.
    pub color: bool,
}

impl DoctorRun<'_> {
    /// Looks at each link, prints the verdicts and answers the exit code of the first broken one.
    ///
    /// # Errors
    /// An output that cannot be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<u8> {
        let mut checks = Checks::default();
        self.here(&mut checks);
        let config = checks.take("config file", Config::load(self.env), |_| "understood".to_owned());
        let chosen = match &config {
            Some(config) => {
                let found = |chosen: &Chosen| format!("{} at {}", chosen.hub.context, chosen.hub.server());
                checks.take("hub context", hub::choose(self.global, config, self.env), found)
            }
            None => None,
        };
        if let (Some(config), Some(chosen)) = (&config, &chosen) {
            hub::runtime()?.block_on(self.there(config, chosen, &mut checks));
        } else {
            checks.skipped(&OF_HUB, "needs the hub context");
            self.skip_cluster("needs the hub context", &mut checks);
        }
        let written = match self.options.output.is_some() {
            true => checks.json(out),
            false => checks.print(self.color, out),
        };
        written.map_err(not_written)?;
        Ok(checks.code())
    }

    fn skip_cluster(&self, why: &str, checks: &mut Checks) {
        if self.options.name.is_some() {
            checks.skipped(&OF_CLUSTER, why);
        }
    }

    /// What is on this machine.
    fn here(&self, checks: &mut Checks) {
        let paths = Kubeconfig::paths(self.env, self.global.kubeconfig.as_deref());
        checks.take("kubeconfig", Kubeconfig::load(&paths), |config| {
            let files: Vec<String> = config.files.iter().map(|file| file.display().to_string()).collect();
            files.join(", ")
        });
        let companion = version::companion(self.env).and_then(|path| {
            let said = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
            let said = said.map_err(|error| {
                Error::new(Kind::Failed, format!("{} cannot be run: {error}", path.display()))
                    .remedy("install kubectl-inventory and credential-exec where programs may run")
            })?;
            Ok((path, String::from_utf8_lossy(&said.stdout).trim().to_owned()))
        });
        let ours = format!("credential-exec {}", env!("CARGO_PKG_VERSION"));
        match companion {
            Ok((path, said)) if said == ours => checks.ok("credential-exec", path.display().to_string()),
            Ok((path, said)) => checks.warn(
                "credential-exec",
                format!("{} is {said:?}, and this is {}", path.display(), env!("CARGO_PKG_VERSION")),
                "install both from the same release",
            ),
            Err(error) => checks.broken("credential-exec", &error),
        }
        match kubectl_version() {
            Some(version) if older(&version) => checks.warn(
                "kubectl",
                version,
                "contexts for it need `kubectl inventory use NAME --exec-api-version v1beta1`",
            ),
            Some(version) => checks.ok("kubectl", version),
            None => checks.warn("kubectl", "is not on PATH, or says no version", "install kubectl"),
        }
        if let Ok(path) = version::companion(self.env) {
            let name = path.display().to_string();
            let policy = kuberc::refuses(&name, self.env).map_or(Ok(()), |refused| Err(Error::from(refused)));
            checks.take("plugin policy", policy, |()| "kubectl may run credential-exec".to_owned());
        }
    }

    /// The hub, and behind it the cluster.
    async fn there(&self, config: &Config, chosen: &Chosen, checks: &mut Checks) {
        let connected = hub::connect(&chosen.hub, self.global, self.env).await;
        let asked = match connected {
            Ok(client) => version_of(&client, "hub").await.map(|version| (client, version)),
            Err(error) => Err(error),
        };
        let Some((client, _)) = checks.take("hub API", asked, |(_, version)| version.clone()) else {
            checks.skipped(&OF_HUB[1..], "needs the hub API");
            return self.skip_cluster("needs the hub API", checks);
        };
        let who = whoami(&client, "hub").await.and_then(|who| match who.as_deref() {
            Some("system:anonymous") => {
                Err(Error::new(Kind::Refused, "you are nobody there (system:anonymous)")
                    .remedy("log in: the hub's user entry gives no credential that the hub takes"))
            }
            _ => Ok(who.unwrap_or_else(|| "known (the hub is too old to say as whom)".to_owned())),
        });
        if checks.take("hub identity", who, Clone::clone).is_none() {
            checks.skipped(&OF_HUB[2..], "needs the hub identity");
            return self.skip_cluster("needs the hub identity", checks);
        }
        let scope = Scope::new(
            self.global.namespace.as_deref(),
            false,
            chosen.hub.namespace.as_deref(),
            config.namespace.as_deref(),
        );
        let Some(of) =
            checks.take("inventory", self.inventory(&client).await, |of| of.api().words.to_owned())
        else {
            return self.skip_cluster("needs the inventory", checks);
        };
        let namespace = match &scope {
            Scope::Namespace(namespace) if of.api().namespaced => namespace.as_str(),
            _ => "",
        };
        let api = of.api();
        for verb in ["get", "list"] {
            let asked = Permission {
                verb,
                group: api.group,
                resource: api.plural,
                namespace,
                ..Permission::default()
            };
            may(&client, &asked, true, checks).await;
        }
        if let Some(name) = &self.options.name {
            self.cluster(config, chosen, &client, of, &scope, name, checks).await;
        }
    }

    async fn inventory(&self, client: &Client) -> Result<Origin> {
        let of = detect::first(client, self.options.source).await?;
        if detect::serves(client, of.api()).await.unwrap_or(true) {
            return Ok(of);
        }
        let none = Error::new(Kind::NotFound, format!("the hub serves no {}", of.api().words))
            .remedy(format!("if it is the hub, {}; if not, name the hub with --context", of.api().install));
        detect::instead(client, self.options.source, of, none).await
    }

    #[expect(clippy::too_many_arguments, reason = "each is one link before it")]
    async fn cluster(
        &self,
        config: &Config,
        chosen: &Chosen,
        client: &Client,
        of: Origin,
        scope: &Scope,
        name: &str,
        checks: &mut Checks,
    ) {
        let members = Member::find(client, &chosen.hub.context, scope, of, name).await;
        let shown = |members: &Vec<Member>| {
            let names: Vec<String> = members
                .iter()
                .map(|member| format!("{} {}/{}", of.api().kind, member.namespace(), member.metadata().name))
                .collect();
            names.join(", ")
        };
        let Some(members) = checks.take("cluster", members, shown) else {
            return checks.skipped(&OF_CLUSTER[1..], "needs the cluster");
        };
        let way = match WayIn::of(&self.options.access, false, config, self.env, chosen) {
            Ok(way) => way,
            Err(error) => {
                checks.broken("way in", &error);
                return checks.skipped(&OF_CLUSTER[2..], "needs the way in");
            }
        };
        let mut tried = Vec::new();
        for member in members {
            let found = member.way_in(&way, client, true, false).await;
            tried.push((member, found));
        }
        let Some((member, found)) =
            checks.take("way in", the_usable_one(name, tried), |(_, found)| found.in_words())
        else {
            return checks.skipped(&OF_CLUSTER[2..], "needs the way in");
        };
        for note in found.notes.iter().filter_map(|note| note.strip_prefix("warning: ")) {
            checks.warn("way in", note, "");
        }
        self.permissions(client, &member, &found, checks).await;
        self.behind(&member, &found, &way, checks).await;
        stale(chosen, &member, &found, checks);
    }

    /// What must be allowed on the hub for this way in.
    async fn permissions(&self, client: &Client, member: &Member, found: &Found, checks: &mut Checks) {
        let Login::Ours { source, tunnel } = &found.login else { return };
        let get = Permission { verb: "get", resource: "secrets", ..Permission::default() };
        match source {
            Source::SyncedSecret { secret, .. } => {
                let namespace = member.namespace();
                may(client, &Permission { namespace, name: secret, ..get }, true, checks).await;
            }
            Source::ManagedServiceAccount { cluster, secret, .. } => {
                let namespace = cluster.as_str();
                may(client, &Permission { namespace, name: secret, ..get }, true, checks).await;
                let list = Permission {
                    verb: "list",
                    group: account::API.group,
                    resource: account::API.plural,
                    namespace,
                    ..Permission::default()
                };
                may(client, &list, false, checks).await;
            }
            Source::TokenSecret { secret, .. } | Source::KubeconfigSecret { secret, .. } => {
                let (namespace, name) = (secret.namespace.as_str(), secret.name.as_str());
                may(client, &Permission { namespace, name, ..get }, true, checks).await;
            }
            Source::HubIdentity { .. } => {}
        }
        if let Some(tunnel) = tunnel {
            let namespace = tunnel.namespace.as_str();
            let there = Permission { namespace, ..Permission::default() };
            for asked in [
                Permission { verb: "get", resource: "services", name: USER_SERVER, ..there },
                Permission { verb: "list", resource: "pods", ..there },
                Permission { verb: "create", resource: "pods", subresource: "portforward", ..there },
            ] {
                may(client, &asked, true, checks).await;
            }
        }
    }

    /// The credential as kubectl would get it, and the cluster as kubectl would ask it.
    async fn behind(&self, member: &Member, found: &Found, way: &WayIn<'_>, checks: &mut Checks) {
        let user = match &found.login {
            Login::HubUser(_) => {
                checks.ok("credential", "the hub's own");
                way.chosen.hub.user.clone()
            }
            Login::Ours { .. } | Login::Plugin(_) => {
                let asked = Entries::new(way, None)
                    .and_then(|entries| entries.user(member, found))
                    .and_then(|user| self.credential(&user, &found.cluster));
                let now = jiff::Timestamp::try_from(self.env.clock()).unwrap_or_default();
                let Some(credential) = checks.take("credential", asked, |credential| credential.life(now))
                else {
                    return checks.skipped(&OF_CLUSTER[3..], "needs the credential");
                };
                credential.user
            }
        };
        let api = Hub { user, ..as_api(&found.cluster) };
        let options = Options { deadline: self.global.request_timeout, ..Options::default() };
        let asked = match Client::connect(&api, self.env, options).await {
            Ok(client) => version_of(&client, "cluster").await.map(|version| (client, version)),
            Err(error) => Err(error),
        };
        let Some((client, _)) = checks.take("cluster API", asked, |(_, version)| version.clone()) else {
            return checks.skipped(&OF_CLUSTER[4..], "needs the cluster API");
        };
        let who = whoami(&client, "cluster").await;
        let shown =
            |who: &Option<String>| who.clone().unwrap_or_else(|| "known (too old to say as whom)".to_owned());
        let Some(who) = checks.take("cluster identity", who, shown) else {
            return checks.skipped(&OF_CLUSTER[5..], "needs the cluster identity");
        };
        let list = |resource| Permission { verb: "list", resource, ..Permission::default() };
        let mut allowed = Vec::new();
        for asked in [list("namespaces"), list("pods"), Permission { namespace: "default", ..list("pods") }] {
            if !permission::refuses(&client, &asked).await {
                allowed.push(asked.to_string());
            }
        }
        match allowed.is_empty() {
            false => checks.ok("cluster permissions", format!("among others: {}", allowed.join(", "))),
            true => checks.warn(
                "cluster permissions",
                format!(
                    "authenticated as {}, which may list neither namespaces nor pods",
                    who.unwrap_or_else(|| "somebody".to_owned())
                ),
                "grant it a role on the cluster (docs/hub-setup.md, step 5)",
            ),
        }
    }

    /// Runs the plugin as kubectl would, without a terminal.
    fn credential(&self, user: &UserEntry, cluster: &ClusterEntry) -> Result<Credential> {
        let UserEntry::Exec(exec) = user else {
            return Err(Error::new(Kind::Failed, "there is no plugin to ask"));
        };
        let mut plugin = Command::new(&exec.command);
        plugin.args(&exec.args).stdin(Stdio::null());
        plugin.envs(exec.env.iter().map(|(name, value)| (name, value)));
        plugin.env("KUBERNETES_EXEC_INFO", exec_info(exec, cluster).to_string());
        let ran = plugin.output().map_err(|error| {
            let hint = exec.install_hint.clone().unwrap_or_else(|| "install it".to_owned());
            Error::new(Kind::NotFound, format!("{} cannot be run: {error}", exec.command)).remedy(hint)
        })?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            let line = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
            let line = line.trim_start_matches("credential-exec: ");
            let (cause, remedy) = line.split_once("; ").unwrap_or((line, "see what the plugin says"));
            let code = ran.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            return Err(Error::new(Kind::from_code(code), cause).remedy(remedy));
        }
        Credential::parse(&ran.stdout)
    }
}

/// What kubectl tells a plugin.
fn exec_info(exec: &ExecEntry, cluster: &ClusterEntry) -> Value {
    let mut told = json!({
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "certificate-authority-data": cluster.ca_data,
        "insecure-skip-tls-verify": cluster.insecure,
        "config": cluster.plugin_config,
    });
    if let Some(fields) = told.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let mut spec = json!({"interactive": false});
    if exec.provide_cluster_info {
        spec["cluster"] = told;
    }
    json!({"apiVersion": exec.api_version.as_str(), "kind": "ExecCredential", "spec": spec})
}

/// What a plugin answered.
struct Credential {
    user: User,
    expires: Option<jiff::Timestamp>,
}

impl Credential {
    fn parse(answer: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Answer {
            status: Status,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            token: Option<secrecy::SecretString>,
            client_certificate_data: Option<String>,
            client_key_data: Option<secrecy::SecretString>,
            expiration_timestamp: Option<jiff::Timestamp>,
        }
        use base64::Engine as _;
        use secrecy::ExposeSecret as _;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let status = serde_json::from_slice::<Answer>(answer).map(|answer| answer.status).map_err(|_| {
            Error::new(Kind::Failed, "the plugin's answer is no ExecCredential")
                .remedy("run it by hand to see why")
        })?;
        let user = User {
            token: status.token,
            client_certificate_data: status.client_certificate_data.as_deref().map(encode),
            client_key_data: status.client_key_data.map(|key| encode(key.expose_secret()).into()),
            ..User::default()
        };
        Ok(Self { user, expires: status.expiration_timestamp })
    }

    /// How long it lives, in words.
    fn life(&self, now: jiff::Timestamp) -> String {
        let Some(expires) = self.expires else { return "of unknown life".to_owned() };
        let left = expires.as_second() - now.as_second();
        let words = match left {
            s if s >= 2 * 86_400 => format!("{} d", s / 86_400),
            s if s >= 2 * 3_600 => format!("{} h", s / 3_600),
            s => format!("{} min", s / 60),
        };
        format!("good for {words} more")
    }
}

/// Whether something is allowed on the hub; what is not `needed` is only a warning.
async fn may(client: &Client, asked: &Permission<'_>, needed: bool, checks: &mut Checks) {
    let link = "hub permission";
    let remedy = "ask the hub's administrator for it (docs/hub-setup.md, step 6)";
    match (permission::refuses(client, asked).await, needed) {
        (false, _) => checks.ok(link, asked.to_string()),
        (true, true) => {
            checks.broken(link, &Error::new(Kind::Refused, format!("you may not {asked}")).remedy(remedy));
        }
        (true, false) => checks.warn(link, format!("you may not {asked}"), remedy),
    }
}

/// Which Kubernetes answers. That it tells nobody but those who are logged in is an answer too.
async fn version_of(client: &Client, what: &str) -> Result<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    let answer = client.get("/version", None).await?;
    if matches!(answer.status.as_u16(), 401 | 403) {
        return Ok("answers".to_owned());
    }
    let version = answer.json::<Version>("the version").map_err(|error| match what {
        "cluster" => Error::new(Kind::Unreachable, error.cause)
            .remedy("the cluster, or its agent, is not connected to the hub: look at the agent's pods there"),
        _ => error,
    })?;
    Ok(version.git_version)
}

/// Who we are there; `None` where the server is too old to say.
async fn whoami(client: &Client, what: &str) -> Result<Option<String>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Review {
        status: Status,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        user_info: UserInfo,
    }
    #[derive(Deserialize)]
    struct UserInfo {
        username: String,
    }
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = client.post(path, review.to_string().into_bytes()).await?;
    match answer.status.as_u16() {
        404 => Ok(None),
        401 if what == "hub" => {
            Err(Error::new(Kind::Refused, "the hub does not know you").remedy("log in to the hub again"))
        }
        401 => Err(Error::new(Kind::Refused, "the cluster does not take this credential")
            .remedy("`kubectl inventory cache clear`; if that does not help, the account was made anew and its new token is not on the hub yet")),
        _ => Ok(Some(answer.json::<Review>("who we are")?.status.user_info.username)),
    }
}

/// Contexts that trust another server than this way in leads to.
fn stale(chosen: &Chosen, member: &Member, found: &Found, checks: &mut Checks) {
    let id = format!("{}/{}", member.namespace(), member.metadata().name);
    let held = chosen.held();
    let ca = found.cluster.ca_data.as_deref().unwrap_or_default();
    let old: Vec<&str> = held.distrusting(&id, ca).collect();
    let all: Vec<&str> = held.contexts(&id).collect();
    match (all.is_empty(), old.is_empty()) {
        (true, _) => {}
        (false, true) => checks.ok("contexts", all.join(", ")),
        (false, false) => checks.broken(
            "contexts",
            &Error::new(Kind::Failed, format!("certificate changed since {} was written", old.join(", ")))
                .remedy(format!("run kubectl inventory use {} again", member.metadata().name)),
        ),
    }
}

/// What kubectl says of itself. Without any kubeconfig: a wrapper around kubectl that picks the version by asking the
/// server would log in there first, and so mend what is about to be looked at.
fn kubectl_version() -> Option<String> {
    let said = Command::new("kubectl")
        .args(["version", "--client", "-o", "json"])
        .env("KUBECONFIG", if cfg!(windows) { "NUL" } else { "/dev/null" })
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said: Value = serde_json::from_slice(&said.stdout).ok()?;
    said["clientVersion"]["gitVersion"].as_str().map(str::to_owned)
}

/// Whether it knows no `client.authentication.k8s.io/v1`.
fn older(version: &str) -> bool {
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor < 22)
}
