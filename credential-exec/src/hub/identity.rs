//! Who we are at a hub: the user entry turned into a header, a certificate and impersonation
//! headers, once a command. An exec plugin is run by client-go's rules, and only when needed.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use super::kubeconfig::{Exec, Hub, User, bytes};
use super::kuberc;
use super::tls::ClientCertificate;
use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::token::Certificate;

const V1: &str = "client.authentication.k8s.io/v1";
const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";
const CLUSTER_CONFIG: &str = "client.authentication.k8s.io/exec";
const PLUGIN_LIMIT: Duration = Duration::from_secs(300);

/// Whether a person waits for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A command that a person, or kubectl for one, runs: a plugin may ask.
    Foreground,
    /// The same, but stdin is not ours to give: a plugin may open a browser, and not read an answer.
    WithoutStdin,
    /// A process nobody looks at: a plugin gets no stdin and must not ask.
    Background,
}

/// What goes with each request. Nothing of it can be printed.
#[derive(Default)]
pub struct Identity {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) certificate: Option<ClientCertificate>,
    pub(super) impersonation: Vec<(HeaderName, HeaderValue)>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Turns the hub's user entry into an identity. `extra_env` goes to an exec plugin.
pub async fn resolve(hub: &Hub, env: &Env, mode: Mode, extra_env: &[(String, String)]) -> Result<Identity> {
    let user = &hub.user;
    check(hub)?;
    let mut identity = Identity {
        authorization: static_header(user)?,
        certificate: static_certificate(user)?,
        impersonation: impersonation(user)?,
    };
    if let Some(exec) = user.exec.as_ref().filter(|_| identity.authorization.is_none()) {
        let status = run_plugin(hub, exec, env, mode, extra_env).await?;
        identity.authorization = status.token.as_ref().map(bearer).transpose()?;
        if let (None, Some(chain), Some(key)) = (&identity.certificate, &status.certificate, &status.key) {
            identity.certificate =
                Some(ClientCertificate::from_pem(chain.as_bytes(), key.expose_secret().as_bytes())?);
        }
    }
    Ok(identity)
}

/// What the hub's user entry logs in with, as it is.
pub struct Login {
    /// The bearer token.
    pub token: Option<SecretString>,
    /// The client certificate.
    pub certificate: Option<Certificate>,
    /// When a plugin says that it ends, in seconds since the epoch.
    pub expires: Option<i64>,
}

/// Logs in, to hand the credential on. A user name and password is none that could be.
///
/// # Errors
/// As [`resolve`].
pub async fn login(hub: &Hub, env: &Env, mode: Mode, extra_env: &[(String, String)]) -> Result<Login> {
    let user = &hub.user;
    check(hub)?;
    let token = match &user.token_file {
        Some(path) => read_token(path).or_else(|error| user.token.clone().ok_or(error)).map(Some)?,
        None => user.token.clone(),
    };
    let mut login = Login { token, certificate: pem(user)?, expires: None };
    if let Some(exec) = user.exec.as_ref().filter(|_| login.token.is_none()) {
        let status = run_plugin(hub, exec, env, mode, extra_env).await?;
        login.token = status.token;
        login.expires =
            status.expires.and_then(|at| at.parse::<jiff::Timestamp>().ok()).map(|at| at.as_second());
        if let (None, Some(chain), Some(key)) = (&login.certificate, status.certificate, status.key) {
            login.certificate = Some(Certificate { chain, key });
        }
    }
    Ok(login)
}

fn check(hub: &Hub) -> Result<()> {
    let user = &hub.user;
    if user.auth_provider {
        return Err(usage(hub, "uses an auth-provider, which Kubernetes removed in 1.26").remedy(
            "replace it with the exec plugin of your provider (gke-gcloud-auth-plugin, kubelogin, …)",
        ));
    }
    let token = user.token.is_some() || user.token_file.is_some();
    let basic = user.username.is_some() || user.password.is_some();
    if token && basic {
        return Err(usage(hub, "has both a token and a user name").remedy("remove one of them"));
    }
    let certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
    if hub.server().starts_with("http://") && (token || basic || certificate || user.exec.is_some()) {
        let cause =
            format!("the hub's address {} is not https: credentials would travel in the clear", hub.server());
        return Err(
            Error::new(Kind::Usage, cause).remedy("set an https:// server in the hub's cluster entry")
        );
    }
    Ok(())
}

fn usage(hub: &Hub, what: &str) -> Error {
    Error::new(Kind::Usage, format!("the user of context {:?} {what}", hub.context))
}

fn static_header(user: &User) -> Result<Option<HeaderValue>> {
    if let Some(path) = &user.token_file {
        return match (read_token(path), &user.token) {
            (Ok(token), _) => bearer(&token).map(Some),
            (Err(_), Some(token)) => bearer(token).map(Some),
            (Err(error), None) => Err(error),
        };
    }
    if let Some(token) = &user.token {
        return bearer(token).map(Some);
    }
    if user.username.is_none() && user.password.is_none() {
        return Ok(None);
    }
    let password = user.password.as_ref().map_or("", |password| password.expose_secret());
    let pair = STANDARD.encode(format!("{}:{password}", user.username.as_deref().unwrap_or_default()));
    header(&format!("Basic {pair}"), "user name and password").map(Some)
}

fn read_token(path: &Path) -> Result<SecretString> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::new(Kind::Usage, format!("token file {} cannot be read: {error}", path.display()))
    })?;
    match text.trim() {
        "" => Err(Error::new(Kind::Usage, format!("token file {} is empty", path.display()))),
        token => Ok(SecretString::from(token)),
    }
}

fn bearer(token: &SecretString) -> Result<HeaderValue> {
    header(&format!("Bearer {}", token.expose_secret()), "token")
}

fn header(text: &str, what: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        Error::new(Kind::Usage, format!("the hub {what} holds characters that no request can carry"))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn static_certificate(user: &User) -> Result<Option<ClientCertificate>> {
    let pem = pem(user)?;
    pem.map(|pem| ClientCertificate::from_pem(pem.chain.as_bytes(), pem.key.expose_secret().as_bytes()))
        .transpose()
}

/// The client certificate of the user entry and its key, both or neither.
fn pem(user: &User) -> Result<Option<Certificate>> {
    let text = |bytes: Vec<u8>, what: &str| {
        String::from_utf8(bytes)
            .map_err(|_| Error::new(Kind::Usage, format!("the hub user's {what} is not PEM")))
    };
    let chain = bytes(
        user.client_certificate_data.as_deref(),
        user.client_certificate.as_deref(),
        "client-certificate",
    )?;
    let key_data = user.client_key_data.as_ref().map(|key| key.expose_secret());
    let key = bytes(key_data, user.client_key.as_deref(), "client-key")?;
    match (chain, key) {
        (Some(chain), Some(key)) => Ok(Some(Certificate {
            chain: text(chain, "client certificate")?,
            key: text(key, "client key")?.into(),
        })),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(Error::new(Kind::Usage, "the hub user has a client certificate and no client key"))
        }
        (None, Some(_)) => {
            Err(Error::new(Kind::Usage, "the hub user has a client key and no client certificate"))
        }
    }
}

fn impersonation(user: &User) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let Some(name) = &user.as_user else {
        if user.as_uid.is_some() || !user.as_groups.is_empty() || !user.as_user_extra.is_empty() {
            return Err(Error::new(
                Kind::Usage,
                "a uid, groups or extra attributes are to be impersonated without a user",
            )
            .remedy("name the user with --as"));
        }
        return Ok(Vec::new());
    };
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|_| {
            Error::new(Kind::Usage, format!("{text:?} cannot be impersonated: no request can carry it"))
        })
    };
    let mut headers = vec![(HeaderName::from_static("impersonate-user"), value(name)?)];
    if let Some(uid) = &user.as_uid {
        headers.push((HeaderName::from_static("impersonate-uid"), value(uid)?));
    }
    for group in &user.as_groups {
        headers.push((HeaderName::from_static("impersonate-group"), value(group)?));
    }
    for (key, values) in &user.as_user_extra {
        let name = format!("impersonate-extra-{}", escaped_key(key));
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Error::new(Kind::Usage, format!("the attribute {key:?} cannot be impersonated")))?;
        for text in values {
            headers.push((name.clone(), value(text)?));
        }
    }
    Ok(headers)
}

/// Bytes that a header's name may not hold, and `%`, as `%XX`: client-go's rule.
fn escaped_key(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// What a plugin answers, checked: a token, or a certificate with its key, or both.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    token: Option<SecretString>,
    #[serde(default, rename = "clientCertificateData")]
    certificate: Option<String>,
    #[serde(default, rename = "clientKeyData")]
    key: Option<SecretString>,
    #[serde(default, rename = "expirationTimestamp")]
    expires: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<Status>,
}

async fn run_plugin(
    hub: &Hub,
    exec: &Exec,
    env: &Env,
    mode: Mode,
    extra_env: &[(String, String)],
) -> Result<Status> {
    if exec.command.is_empty() {
        return Err(usage(hub, "has an exec plugin without a command"));
    }
    if !matches!(exec.api_version.as_str(), V1 | V1BETA1) {
        return Err(usage(hub, &format!("has an exec plugin of apiVersion {:?}", exec.api_version))
            .remedy(format!("supported are {V1} and {V1BETA1}")));
    }
    if let Some(refused) = kuberc::refuses(&exec.command, env) {
        return Err(Error::from(refused).context(format_args!("the hub's login command {:?}", exec.command)));
    }
    let interactive = interactive(hub, exec, env, mode)?;
    let mut command = tokio::process::Command::new(&exec.command);
    command.args(&exec.args);
    for var in &exec.env {
        command.env(&var.name, var.value.expose_secret());
    }
    // A credential-exec beneath answers in earnest, whatever this run is for.
    command.env_remove(crate::RENEWAL);
    command.envs(extra_env.iter().map(|(name, value)| (name, value)));
    command.env("KUBERNETES_EXEC_INFO", exec_info(hub, exec, interactive)?.to_string());
    command.stdin(if interactive { Stdio::inherit() } else { Stdio::null() });
    command.stderr(if mode == Mode::Background { Stdio::null() } else { Stdio::inherit() });
    command.stdout(Stdio::piped()).kill_on_drop(true);

    let named = format!("the hub's login command {:?}", exec.command);
    let child = command.spawn().map_err(|error| not_started(exec, &named, &error))?;
    let output = tokio::time::timeout(PLUGIN_LIMIT, child.wait_with_output())
        .await
        .map_err(|_| Error::new(Kind::Unreachable, format!("{named} did not end within 5 minutes")))?
        .map_err(|error| Error::new(Kind::Failed, format!("{named} cannot be read: {error}")))?;
    credential(exec, &named, &output)
}

/// Whether the plugin may ask: client-go's three modes.
fn interactive(hub: &Hub, exec: &Exec, env: &Env, mode: Mode) -> Result<bool> {
    let possible = mode == Mode::Foreground && env.stdin_is_terminal;
    match exec.interactive_mode.as_deref() {
        Some("Never") => Ok(false),
        Some("IfAvailable") => Ok(possible),
        Some("Always") if possible => Ok(true),
        Some("Always") => Err(usage(
            hub,
            &format!("has the login command {:?}, which must ask, and stdin is no terminal", exec.command),
        )
        .remedy("run `kubectl get --raw /version` with that context on a terminal first")),
        None if exec.api_version == V1BETA1 => Ok(possible),
        None => Err(usage(hub, "has an exec plugin without interactiveMode").remedy("set it to IfAvailable")),
        Some(other) => Err(usage(hub, &format!("has an exec plugin with the interactiveMode {other:?}"))
            .remedy("allowed are Never, IfAvailable and Always")),
    }
}

fn exec_info(hub: &Hub, exec: &Exec, interactive: bool) -> Result<Value> {
    let mut spec = json!({ "interactive": interactive });
    if exec.provide_cluster_info {
        let cluster = &hub.cluster;
        let mut info = json!({ "server": hub.server() });
        if let Some(name) = &cluster.tls_server_name {
            info["tls-server-name"] = json!(name);
        }
        if cluster.insecure_skip_tls_verify {
            info["insecure-skip-tls-verify"] = json!(true);
        }
        if let Some(bundle) = cluster.ca_bundle()? {
            info["certificate-authority-data"] = json!(STANDARD.encode(bundle));
        }
        if let Some(proxy) = &cluster.proxy_url {
            info["proxy-url"] = json!(proxy.expose_secret());
        }
        if cluster.disable_compression {
            info["disable-compression"] = json!(true);
        }
        if let Some(found) = cluster.extensions.iter().find(|extension| extension.name == CLUSTER_CONFIG) {
            info["config"] = found.extension.clone();
        }
        spec["cluster"] = info;
    }
    Ok(json!({ "kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec }))
}

fn not_started(exec: &Exec, named: &str, error: &std::io::Error) -> Error {
    let bare = !exec.command.contains(std::path::is_separator);
    if error.kind() != ErrorKind::NotFound {
        return Error::new(Kind::Failed, format!("{named} cannot be started: {error}"));
    }
    let place = if bare { "on PATH" } else { "there" };
    let error = Error::new(Kind::Failed, format!("{named} is not {place}"));
    match &exec.install_hint {
        Some(hint) if bare => error.remedy(hint.trim()),
        _ => error.remedy("install it, or correct the hub's user entry"),
    }
}

fn credential(exec: &Exec, named: &str, output: &Output) -> Result<Status> {
    let failed = |why: String| Error::new(Kind::Failed, format!("{named} {why}"));
    if !output.status.success() {
        let how = output
            .status
            .code()
            .map_or("was killed by a signal".to_owned(), |code| format!("failed with exit code {code}"));
        return Err(failed(how).remedy("run it by hand, or log in to the hub again"));
    }
    let answer: ExecCredential = serde_json::from_slice(&output.stdout)
        .ok()
        .or_else(|| serde_saphyr::from_str(std::str::from_utf8(&output.stdout).ok()?).ok())
        .ok_or_else(|| failed("did not answer with an ExecCredential".to_owned()))?;
    if answer.kind != "ExecCredential" {
        return Err(failed("did not answer with an ExecCredential".to_owned()));
    }
    if answer.api_version != exec.api_version {
        return Err(failed(format!(
            "answers in {:?}, and {:?} was asked for",
            answer.api_version, exec.api_version
        ))
        .remedy("set its real apiVersion in the hub's user entry"));
    }
    let Some(mut status) = answer.status else { return Err(failed("answered without a status".to_owned())) };
    status.token = status.token.filter(|token| !token.expose_secret().is_empty());
    status.certificate = status.certificate.filter(|chain| !chain.is_empty());
    status.key = status.key.filter(|key| !key.expose_secret().is_empty());
    match (&status.token, &status.certificate, &status.key) {
        (None, None, None) => Err(failed("answered without a token and without a certificate".to_owned())),
        (_, Some(_), None) => Err(failed("answered with a certificate and no key".to_owned())),
        (_, None, Some(_)) => Err(failed("answered with a key and no certificate".to_owned())),
        _ => Ok(status),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{hub, pem, self_signed, server_params};
    use super::*;

    fn nowhere() -> Env {
        Env::of([("X", "")])
    }

    async fn identity(user: User) -> Result<Identity> {
        let mut hub = hub("https://hub", None);
        hub.user = user;
        resolve(&hub, &nowhere(), Mode::Foreground, &[]).await
    }

    async fn header_of(user: User) -> String {
        identity(user).await.unwrap().authorization.unwrap().to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn the_token_file_goes_before_the_token_and_is_trimmed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, " of-file\n").unwrap();
        let user = User { token: Some("plain".into()), token_file: Some(file.clone()), ..User::default() };
        assert_eq!(header_of(user.clone()).await, "Bearer of-file");
        std::fs::write(&file, "\n").unwrap();
        assert_eq!(header_of(user.clone()).await, "Bearer plain");
        let error = identity(User { token: None, ..user }).await.unwrap_err();
        assert!(error.cause.contains("is empty"), "{error}");
    }

    #[tokio::test]
    async fn basic_authentication_is_encoded_and_excludes_a_token() {
        let user = User { username: Some("me".into()), password: Some("pä:ss".into()), ..User::default() };
        assert_eq!(header_of(user.clone()).await, format!("Basic {}", STANDARD.encode("me:pä:ss")));
        identity(User { token: Some("t".into()), ..user }).await.unwrap_err();
    }

    #[tokio::test]
    async fn certificate_data_goes_before_files_and_comes_with_its_key() {
        let chain = self_signed(server_params(&["me"]));
        let user = User {
            client_certificate_data: Some(STANDARD.encode(pem(&chain.certificates))),
            client_certificate: Some("/gone".into()),
            client_key_data: Some(STANDARD.encode(chain.key.serialize_pem()).into()),
            ..User::default()
        };
        assert!(identity(user.clone()).await.unwrap().certificate.is_some());
        identity(User { client_key_data: None, ..user.clone() }).await.unwrap_err();
        identity(User { client_certificate_data: None, client_certificate: None, ..user }).await.unwrap_err();
    }

    #[tokio::test]
    async fn nothing_secret_goes_to_a_hub_without_tls() {
        let mut hub = hub("http://hub", None);
        resolve(&hub, &nowhere(), Mode::Foreground, &[]).await.unwrap();
        hub.user.exec =
            Some(Exec { api_version: V1.into(), command: "/never-run".into(), ..Exec::default() });
        let error = resolve(&hub, &nowhere(), Mode::Foreground, &[]).await.unwrap_err();
        assert!(error.kind == Kind::Usage && error.cause.contains("not https"), "{error}");
        hub.user = User { token: Some("t".into()), ..User::default() };
        resolve(&hub, &nowhere(), Mode::Foreground, &[]).await.unwrap_err();
    }

    #[tokio::test]
    async fn what_cannot_be_honoured_is_refused_with_a_remedy() {
        let refused = [
            User { auth_provider: true, ..User::default() },
            User { as_groups: vec!["g".into()], ..User::default() },
            User { token: Some("a\nb".into()), ..User::default() },
        ];
        for user in refused {
            assert_eq!(identity(user).await.unwrap_err().kind, Kind::Usage);
        }
    }

    #[test]
    fn extra_keys_are_escaped_as_client_go_does() {
        assert_eq!(escaped_key("acme.com/Team%é"), "acme.com%2FTeam%25%C3%A9");
    }

    #[cfg(unix)]
    mod plugins {
        use super::super::super::kubeconfig::{ExecVar, Extension};
        use super::*;

        fn script(body: &str) -> Exec {
            Exec {
                api_version: V1.into(),
                command: "/bin/sh".into(),
                args: vec!["-c".into(), body.into()],
                interactive_mode: Some("IfAvailable".into()),
                ..Exec::default()
            }
        }

        async fn run(exec: Exec) -> Result<Identity> {
            identity(User { exec: Some(exec), ..User::default() }).await
        }

        fn answer(status: &str) -> Exec {
            script(&format!(r#"echo '{{"apiVersion":"{V1}","kind":"ExecCredential","status":{status}}}'"#))
        }

        #[tokio::test]
        async fn it_is_run_once_and_not_at_all_beside_a_token() {
            let folder = tempfile::tempdir().unwrap();
            let count = folder.path().join("count");
            let mut exec = answer(r#"{"token":"from-plugin"}"#);
            exec.args[1] = format!("echo run >> '{}'; {}", count.display(), exec.args[1]);
            let user = User { exec: Some(exec), ..User::default() };
            assert_eq!(header_of(user.clone()).await, "Bearer from-plugin");
            assert_eq!(std::fs::read_to_string(&count).unwrap(), "run\n");
            assert_eq!(header_of(User { token: Some("own".into()), ..user }).await, "Bearer own");
            assert_eq!(std::fs::read_to_string(&count).unwrap(), "run\n");
        }

        #[tokio::test]
        async fn it_gets_its_arguments_variables_and_the_cluster() {
            let folder = tempfile::tempdir().unwrap();
            let seen = folder.path().join("seen");
            let mut exec = answer(r#"{"token":"t"}"#);
            exec.args[1] = format!(
                "printf '%s|%s|%s' \"$MINE\" \"$GUARD\" \"$KUBERNETES_EXEC_INFO\" > '{}'; {}",
                seen.display(),
                exec.args[1]
            );
            exec.env = vec![ExecVar { name: "MINE".into(), value: "mine".into() }];
            exec.provide_cluster_info = true;
            let mut hub = hub("https://hub/prefix", Some("ca"));
            hub.cluster.tls_server_name = Some("name".into());
            hub.cluster.extensions =
                vec![Extension { name: CLUSTER_CONFIG.into(), extension: json!({ "clusterName": "c" }) }];
            hub.user.exec = Some(exec);
            resolve(&hub, &nowhere(), Mode::Background, &[("GUARD".to_owned(), "g".to_owned())])
                .await
                .unwrap();
            let text = std::fs::read_to_string(seen).unwrap();
            let info = text.strip_prefix("mine|g|").unwrap();
            assert_eq!(
                serde_json::from_str::<Value>(info).unwrap(),
                json!({
                    "kind": "ExecCredential",
                    "apiVersion": V1,
                    "spec": {
                        "interactive": false,
                        "cluster": {
                            "server": "https://hub/prefix",
                            "tls-server-name": "name",
                            "certificate-authority-data": "Y2E=",
                            "config": { "clusterName": "c" },
                        },
                    },
                })
            );
        }

        #[tokio::test]
        async fn a_token_and_a_certificate_are_both_used() {
            let chain = self_signed(server_params(&["me"]));
            let status = json!({
                "token": "t",
                "clientCertificateData": pem(&chain.certificates),
                "clientKeyData": chain.key.serialize_pem(),
            });
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("answer");
            std::fs::write(
                &file,
                json!({ "apiVersion": V1, "kind": "ExecCredential", "status": status }).to_string(),
            )
            .unwrap();
            let identity = run(script(&format!("cat '{}'", file.display()))).await.unwrap();
            assert!(identity.authorization.is_some() && identity.certificate.is_some());
        }

        #[tokio::test]
        async fn its_failure_names_command_and_code_and_never_its_output() {
            let error = run(script("echo hush; exit 3")).await.unwrap_err();
            assert!(error.cause.contains("/bin/sh") && error.cause.contains("exit code 3"), "{error}");
            for exec in [
                script("echo hush; exit 3"),
                script("echo hush"),
                script("kill -9 $$"),
                answer("null"),
                answer("{}"),
                answer(r#"{"token":""}"#),
                answer(r#"{"clientKeyData":"hush"}"#),
                answer(r#"{"clientCertificateData":"hush"}"#),
                Exec { api_version: V1BETA1.into(), ..answer(r#"{"token":"hush"}"#) },
            ] {
                let error = run(exec).await.unwrap_err();
                assert!(!error.one_line().contains("hush"), "{error}");
            }
        }

        #[tokio::test]
        async fn versions_and_modes_are_held_to_client_go_s_rules() {
            for version in ["client.authentication.k8s.io/v1alpha1", "v1", ""] {
                let error = run(Exec { api_version: version.into(), ..answer(r#"{"token":"t"}"#) })
                    .await
                    .unwrap_err();
                assert!(error.cause.contains(&format!("{version:?}")), "{error}");
            }
            let mode = |mode: Option<&str>| Exec {
                interactive_mode: mode.map(str::to_owned),
                ..answer(r#"{"token":"t"}"#)
            };
            run(mode(Some("Never"))).await.unwrap();
            for refused in [None, Some("Always"), Some("Sometimes")] {
                run(mode(refused)).await.unwrap_err();
            }
            let mut old = mode(None);
            old.api_version = V1BETA1.into();
            old.args[1] = old.args[1].replace(V1, V1BETA1);
            run(old).await.unwrap();
        }

        #[tokio::test]
        async fn stdin_is_not_its_own_unless_a_person_can_answer() {
            let exec = answer(r#"{"token":"t"}"#);
            let reads = Exec { args: vec!["-c".into(), format!("cat; {}", exec.args[1])], ..exec };
            run(reads).await.unwrap();
            let mut env = nowhere();
            env.stdin_is_terminal = true;
            let hub = hub("https://hub", None);
            assert!(interactive(&hub, &answer("{}"), &env, Mode::Foreground).unwrap());
            assert!(!interactive(&hub, &answer("{}"), &env, Mode::WithoutStdin).unwrap());
            assert!(!interactive(&hub, &answer("{}"), &env, Mode::Background).unwrap());
        }

        #[tokio::test]
        async fn a_missing_command_shows_the_install_hint_if_its_name_is_bare() {
            let missing = |command: &str| Exec {
                command: command.into(),
                install_hint: Some("get it\n".into()),
                ..script("")
            };
            assert_eq!(run(missing("no-such-login-command")).await.unwrap_err().remedy, "get it");
            assert_ne!(run(missing("/no/such/command")).await.unwrap_err().remedy, "get it");
        }
    }
}
