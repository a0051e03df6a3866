//! Which hub is meant, and the door to it.

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};
use credential_exec::find_hub;
use credential_exec::hub::client::Options;
use credential_exec::hub::identity::Mode;
use credential_exec::hub::{Client, Hub, Kubeconfig};
use credential_exec::key;
use credential_exec::os;
use credential_exec::request::{CredentialRequest, Impersonate};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::access::kubeconfig::ClusterEntry;
use crate::access::stale::Held;
use crate::cli::Global;
use crate::config::Config;
use crate::kubeconfig_file::EXTENSION;

/// The hub, and what was learnt on the way to it.
pub struct Chosen {
    /// The hub.
    pub hub: Hub,
    /// Whom to be there: the flags, else what the current context of ours says.
    pub impersonate: Impersonate,
    /// The context that kubectl uses now.
    pub current_context: Option<String>,
    kubeconfig: Kubeconfig,
}

impl Chosen {
    /// The name of the hub's user entry, where the hub is a context of this kubeconfig.
    pub fn user(&self) -> Option<&str> {
        let context = self.kubeconfig.context(&self.hub.context)?;
        let same = self.kubeconfig.select(Some(&self.hub.context)).ok()?;
        let user = context.user.as_str();
        (same.server() == self.hub.server() && !user.is_empty()).then_some(user)
    }

    /// Our contexts for this hub, with the CA that each trusts.
    pub fn held(&self) -> Held {
        let mut held = Held::default();
        let Ok(fingerprint) = fingerprint(&self.hub) else { return held };
        for name in self.kubeconfig.contexts() {
            let extensions = self.kubeconfig.context(name).map(|context| &context.extensions);
            let mark = extensions.into_iter().flatten().find(|extension| extension.name == EXTENSION);
            let Some(mark) = mark.filter(|mark| mark.extension["hub"] == fingerprint) else { continue };
            let cluster = self.kubeconfig.select(Some(name)).map(|hub| hub.cluster);
            if let (Some(profile), Ok(Some(ca))) = (
                mark.extension["profile"].as_str(),
                cluster.map(|cluster| cluster.certificate_authority_data),
            ) {
                held.add(profile.to_owned(), name.to_owned(), ca);
            }
        }
        held
    }
}

/// The hub that the flags, the surroundings and the config file mean: `--context`,
/// `$KUBECTL_INVENTORY_HUB`, the config file's `hub`, the hub that the current context came from,
/// the current context.
///
/// # Errors
/// Those of reading the kubeconfig; an unknown context names the ones on offer.
pub fn choose(global: &Global, config: &Config, env: &Env) -> Result<Chosen> {
    let kubeconfig = Kubeconfig::load(&Kubeconfig::paths(env, global.kubeconfig.as_deref()))?;
    let named =
        global.context.clone().or_else(|| env.var("KUBECTL_INVENTORY_HUB")).or_else(|| config.hub.clone());
    let mut impersonate = Impersonate::default();
    let mut hub = match named {
        Some(name) => kubeconfig.select(Some(&name))?,
        None => {
            let current = kubeconfig.select(None)?;
            // Behind cluster-gateway a context logs in with the hub's user, which may be one of ours for another.
            let about_it = |request: &CredentialRequest| {
                let profile = format!("{}/{}", request.profile.namespace, request.profile.name);
                mark(&kubeconfig, &current.context).is_none_or(|mark| mark["profile"] == profile)
            };
            match made_for(&current).filter(|request| about_it(request)) {
                Some(request) => {
                    impersonate = request.hub.impersonate.clone();
                    find_hub::pinned(&request.hub, env)
                        .map_err(|e| e.context(format_args!("the hub of context {}", current.context)))?
                }
                None => match mark(&kubeconfig, &current.context) {
                    Some(mark) => {
                        marked(&kubeconfig, mark).ok_or_else(|| came_from(&current.context, mark))?
                    }
                    None => current,
                },
            }
        }
    };
    let impersonate = Impersonate {
        user: global.as_user.clone().or(impersonate.user),
        groups: if global.as_group.is_empty() { impersonate.groups } else { global.as_group.clone() },
        uid: global.as_uid.clone().or(impersonate.uid),
    };
    find_hub::impersonate(&mut hub, &impersonate);
    let current_context = kubeconfig.current_context.clone();
    Ok(Chosen { hub, impersonate, current_context, kubeconfig })
}

/// The request that a context of ours was made for; `None` for anybody else's.
fn made_for(hub: &Hub) -> Option<Box<CredentialRequest>> {
    use credential_exec::cli::{Asked, parse};
    let exec = hub.user.exec.as_ref()?;
    exec.args.first().filter(|arg| arg.starts_with("--request="))?;
    let args: Vec<_> = exec.args.iter().map(std::ffi::OsString::from).collect();
    match parse(&args).ok()?.asked {
        Asked::Request(request) => Some(request),
        Asked::DropIn(_) | Asked::Text(_) => None,
    }
}

/// What a context of ours says about where it comes from, whatever kubectl logs in with.
fn mark<'a>(kubeconfig: &'a Kubeconfig, context: &str) -> Option<&'a Value> {
    let extensions = &kubeconfig.context(context)?.extensions;
    extensions.iter().find(|extension| extension.name == EXTENSION).map(|extension| &extension.extension)
}

/// The hub that a mark names: by its context, else the first with its fingerprint.
fn marked(kubeconfig: &Kubeconfig, mark: &Value) -> Option<Hub> {
    let named = mark["hubContext"].as_str().into_iter();
    let is_it = |hub: &Hub| fingerprint(hub).is_ok_and(|fingerprint| mark["hub"] == fingerprint);
    named.chain(kubeconfig.contexts()).filter_map(|name| kubeconfig.select(Some(name)).ok()).find(is_it)
}

fn came_from(context: &str, mark: &Value) -> Error {
    let hub = mark["hubContext"].as_str().unwrap_or_default();
    Error::new(
        Kind::NotFound,
        format!("the hub of context {context}, {hub:?}, is not in the kubeconfig any more"),
    )
    .remedy("name the hub with --context")
}

/// What tells one hub from another wherever it is met: its server and its CA.
///
/// # Errors
/// Those of reading the hub's CA.
pub fn fingerprint(hub: &Hub) -> Result<String> {
    Ok(key::sha256(&[hub.server(), &hub.ca_fingerprint()?])[..32].to_owned())
}

/// The hub as a cluster entry of a kubeconfig.
///
/// # Errors
/// [`Kind::Refused`] for a hub whose certificate goes unchecked, unless the person allows that, and for a
/// proxy with a password, which is written into no file.
pub fn entry(hub: &Hub, allow_insecure: bool) -> Result<ClusterEntry> {
    let cluster = &hub.cluster;
    if cluster.insecure_skip_tls_verify && !allow_insecure {
        let cause = format!("hub context {} skips the check of the hub's certificate", hub.context);
        return Err(Error::new(Kind::Refused, cause).remedy(
            "add --allow-insecure if you accept that anybody between may read the hub's credentials",
        ));
    }
    let proxy = cluster.proxy_url.as_ref().map(|url| url.expose_secret().to_owned());
    if proxy.as_ref().is_some_and(|url| url.contains('@')) {
        let cause = format!("hub context {} has a proxy with a password", hub.context);
        return Err(Error::new(Kind::Refused, cause)
            .remedy("no secret is written into another entry; use HTTPS_PROXY instead"));
    }
    Ok(ClusterEntry {
        server: hub.server().to_owned(),
        tls_server_name: cluster.tls_server_name.clone(),
        ca_data: cluster.ca_bundle()?.map(|bundle| STANDARD.encode(bundle)),
        proxy_url: proxy,
        disable_compression: cluster.disable_compression,
        insecure: cluster.insecure_skip_tls_verify,
        plugin_config: None,
    })
}

/// Opens the door to the hub.
///
/// # Errors
/// Those of logging in.
pub async fn connect(hub: &Hub, global: &Global, env: &Env) -> Result<Client> {
    let options = Options {
        deadline: global.request_timeout,
        mode: Mode::Foreground,
        user_agent: concat!("kubectl-inventory/", env!("CARGO_PKG_VERSION")).to_owned(),
        extra_env: Vec::new(),
        gzip: true,
    };
    Client::connect(hub, env, options)
        .await
        .map_err(|e| e.context(format_args!("hub context {}", hub.context)))
}

/// The runtime of one command.
///
/// # Errors
/// [`Kind::Failed`] where the system gives us none.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Failed, format!("cannot start: {e}")))
}

/// The directory for what we must remember: `$KUBECTL_INVENTORY_DATA_DIR`, else the system's.
///
/// # Errors
/// [`Kind::Failed`], naming the directory.
pub fn data_dir(env: &Env) -> Result<std::path::PathBuf> {
    let dir = env
        .path("KUBECTL_INVENTORY_DATA_DIR")
        .or_else(|| Some(directories::ProjectDirs::from("", "", "kubectl-inventory")?.data_dir().to_owned()))
        .ok_or_else(|| Error::new(Kind::Failed, "there is no home directory").remedy("set HOME"))?;
    os::create_private_dir(&dir)
        .map_err(|e| Error::new(Kind::Failed, format!("{} cannot be made: {e}", dir.display())))?;
    Ok(dir)
}
