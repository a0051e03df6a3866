//! credential-exec: the exec credential plugin that a context made by `kubectl inventory use`
//! names. One run: request → cache → source → remember → answer.

pub mod cache;
pub mod cli;
pub mod env;
pub mod error;
pub mod find_hub;
mod guard;
pub mod hub;
pub mod key;
pub mod os;
pub mod protocol;
pub mod request;
pub mod source;
mod token;
pub mod tunnel;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::Command;
use std::time::{Duration, SystemTime};

use cache::{Cache, Entry, Slot};
use cli::{Asked, Cli, DropIn};
use env::Env;
use error::{Error, Kind, Result};
use hub::{Client, Hub, identity::Mode};
use os::Stamp;
use protocol::ExecInfo;
use request::{CredentialRequest, HubPin, ProfileRef, SecretKey, Source, Spoke, Tunnel};
pub use token::{Certificate, Claims, Credential};

/// Set for the run that renews a cache entry in the background.
pub(crate) const RENEWAL: &str = "KUBECTL_INVENTORY_RENEWAL";

/// The longest wait for another run that asks the hub: it may be waiting for a person to log in.
const LOCK_LIMIT: Duration = Duration::from_secs(310);

/// Runs the plugin and answers the exit code. stdout gets the answer in one piece, or nothing.
pub fn run(args: &[OsString], env: &Env, stdout: &mut dyn Write, stderr: &mut dyn Write) -> u8 {
    let mut warnings = Vec::new();
    let result = match args.split_first() {
        Some((first, rest)) if first == tunnel::SERVE => match serve_tunnel(rest, env, stdout) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        _ => answer(args, env, &mut warnings),
    };
    for warning in warnings {
        let _ = writeln!(stderr, "credential-exec: {}", error::printable(&warning));
    }
    match result {
        Ok(bytes) => match stdout.write_all(&bytes).and_then(|()| stdout.flush()) {
            Ok(()) => 0,
            Err(_) => Kind::Failed.code(),
        },
        Err(error) => {
            let _ = writeln!(stderr, "credential-exec: {error}");
            error.kind.code()
        }
    }
}

fn answer(args: &[OsString], env: &Env, warnings: &mut Vec<String>) -> Result<Vec<u8>> {
    let raw_info = env.os("KUBERNETES_EXEC_INFO");
    let raw_info = raw_info.as_ref().map(|text| text.as_encoded_bytes());
    let by_kubectl = raw_info.is_some();
    let info = ExecInfo::parse(raw_info)?;
    let renewal = env.os(RENEWAL).is_some();
    let use_cache = !args.iter().any(|arg| arg == "--no-cache");
    let slot = if use_cache { Cache::of(env).slot(question(args, &info, env)) } else { None };

    let mut again = renewal;
    if let Some(slot) = slot.as_ref().filter(|_| !renewal)
        && let Some(entry) = slot.read()
        && entry.fresh(millis(env.now))
        && entry.files_unchanged()
    {
        again = by_kubectl && os::parent().is_some_and(|parent| slot.answered_before(parent, env.now));
        if !again && tunnel::is_up(args, raw_info, env) {
            if entry.aging(millis(env.now)) && slot.claim_renewal(env.now) {
                renew_in_background(args);
            }
            return Ok(protocol::answer(info.api_version, &entry.credential));
        }
    }
    let mode = match (renewal, by_kubectl && !info.interactive) {
        (true, _) => Mode::Background,
        (false, true) => Mode::WithoutStdin,
        (false, false) => Mode::Foreground,
    };
    let cold = Cold { args, env, slot: slot.as_ref(), again, renewal, mode };
    ask_hub(&cold, &info, raw_info, warnings)
}

/// What the cache alone could not answer. Kept apart from the warm way, which would else carry this
/// one's weight: each page of code or stack that a short run touches is felt.
#[cold]
#[inline(never)]
fn ask_hub(
    cold: &Cold<'_>,
    info: &ExecInfo,
    raw_info: Option<&[u8]>,
    warnings: &mut Vec<String>,
) -> Result<Vec<u8>> {
    let Cold { args, env, slot, renewal, .. } = *cold;
    let Cli { asked, verbose } = cli::parse(args)?;
    let job = match asked {
        Asked::Text(text) => return Ok(text.into_bytes()),
        Asked::Request(request) => Job::of_request(*request, info, env)?,
        Asked::DropIn(drop_in) => Job::of_drop_in(*drop_in, info, raw_info, env)?,
    };
    let outcome = cold.run(&job).map_err(|e| e.context(job.whence()))?;
    if let Some(tunnel) = job.request.tunnel.as_ref().filter(|_| !renewal) {
        cold.open_way(&job, tunnel, raw_info).map_err(|e| e.context(job.whence()))?;
    }
    if raw_info.is_some()
        && let (Some(slot), Some(parent)) = (slot, os::parent())
    {
        slot.answered_before(parent, env.now);
    }
    if verbose {
        warnings.extend(outcome.warning);
    }
    Ok(if renewal { Vec::new() } else { protocol::answer(info.api_version, &outcome.credential) })
}

/// The variables that say which hub and which namespace are meant where the arguments do not.
const DECIDING: [&str; 6] = [
    "NAMESPACE",
    "POD_NAMESPACE",
    "KUBECONFIG",
    "HOME",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
];

/// Everything that tells one question from another before anything is parsed: the arguments, the
/// cluster that kubectl names and, where arguments alone do not name the hub, the variables that do.
fn question(args: &[OsString], info: &ExecInfo, env: &Env) -> String {
    let mut question = String::with_capacity(1024);
    let mut add = |text: &OsStr| {
        match text.to_str() {
            Some(text) => question.push_str(text),
            None => question.push_str(&format!("{text:?}")),
        }
        question.push('\0');
    };
    for arg in args {
        add(arg);
    }
    add(OsStr::new(info.cluster_name.as_deref().unwrap_or_default()));
    if let Some(secret) = &info.secret {
        for part in
            [Some(&secret.name), Some(&secret.key), secret.namespace.as_ref(), secret.context.as_ref()]
        {
            add(OsStr::new(part.map_or("", String::as_str)));
        }
    }
    if !args.iter().any(|arg| arg.as_encoded_bytes().starts_with(b"--request")) {
        add(std::env::current_dir().unwrap_or_default().as_os_str());
        for name in DECIDING {
            add(&env.os(name).unwrap_or_default());
        }
    }
    question
}

/// A request and the hub that it goes to.
struct Job {
    request: CredentialRequest,
    hub: Hub,
    /// Files that would decide which hub is meant if they were there.
    candidates: Vec<std::path::PathBuf>,
}

impl Job {
    fn of_request(request: CredentialRequest, info: &ExecInfo, env: &Env) -> Result<Self> {
        if let Some(named) = &info.cluster_name
            && *named != request.profile.name
            && request.source.managed().is_none_or(|(cluster, _)| named != cluster)
        {
            return Err(Error::new(
                Kind::Usage,
                format!("the arguments ask for cluster {}, kubectl for {named}", request.profile.name),
            )
            .remedy(
                "cluster and user of this context do not belong together: run `kubectl inventory use` again",
            ));
        }
        let whence = whence(&request.profile.name, &request.hub.context);
        let hub = find_hub::pinned(&request.hub, env).map_err(|e| e.context(whence))?;
        Ok(Self { request, hub, candidates: Vec::new() })
    }

    fn of_drop_in(asked: DropIn, info: &ExecInfo, raw_info: Option<&[u8]>, env: &Env) -> Result<Self> {
        let mut hub = find_hub::for_drop_in(&asked.kubeconfig, asked.context.as_deref(), env)?;
        find_hub::impersonate(&mut hub, &asked.impersonate);
        let pod = || Hub::in_cluster(env).ok().flatten().and_then(|hub| hub.namespace);
        let namespace = asked.namespace.clone().or_else(|| env.var("NAMESPACE")).or_else(pod);
        let namespace = namespace.or_else(|| hub.namespace.clone()).unwrap_or_else(|| "default".to_owned());
        let (cluster, source) = drop_in_source(&asked, &namespace, info, raw_info)?;
        let request = CredentialRequest {
            hub: HubPin {
                kubeconfig: hub.files.clone(),
                context: hub.context.clone(),
                server: hub.server().to_owned(),
                ca: hub.ca_fingerprint()?,
                impersonate: asked.impersonate,
            },
            profile: ProfileRef { namespace, name: cluster, uid: String::new() },
            source,
            tunnel: None,
            timeout: asked.timeout,
            max_age: asked.max_age,
            no_cache: asked.no_cache,
        };
        let candidates =
            if asked.kubeconfig.is_empty() { hub::Kubeconfig::paths(env, None) } else { asked.kubeconfig };
        Ok(Self { request, hub, candidates })
    }

    fn whence(&self) -> String {
        whence(&self.request.profile.name, &self.hub.context)
    }
}

/// The cluster and the place of its credential, as the plugin would find them that this one stands in for.
fn drop_in_source(
    asked: &DropIn,
    namespace: &str,
    info: &ExecInfo,
    raw_info: Option<&[u8]>,
) -> Result<(String, Source)> {
    let cluster = asked.cluster.clone().or_else(|| info.cluster_name.clone());
    if let Some(account) = &asked.account {
        let cluster = cluster.ok_or_else(|| {
            Error::new(Kind::Usage, "kubectl names no cluster (spec.cluster.config.clusterName)")
                .remedy("set provideClusterInfo: true, and the extension client.authentication.k8s.io/exec in the cluster entry; or name it with --cluster")
        })?;
        let secret = format!("{cluster}-{account}");
        let source = Source::SyncedSecret { cluster: cluster.clone(), account: account.clone(), secret };
        return Ok((cluster, source));
    }
    if let Some(told) = &info.secret {
        let secret = SecretKey {
            namespace: told.namespace.clone().unwrap_or_else(|| namespace.to_owned()),
            name: told.name.clone(),
            key: told.key.clone(),
        };
        let spoke = protocol::cluster(raw_info).map(told_spoke).transpose()?.flatten();
        let source = Source::KubeconfigSecret { secret, context: told.context.clone(), spoke };
        return Ok((told.name.clone(), source));
    }
    let cluster = cluster.ok_or_else(|| {
        Error::new(Kind::Usage, "nothing says which credential is wanted").remedy(
            "name an account with --managed-serviceaccount; or have kubectl say which Secret: spec.cluster.config with clusterName, or with name and key (provideClusterInfo: true)",
        )
    })?;
    let secret =
        SecretKey { namespace: namespace.to_owned(), name: cluster.clone(), key: "token".to_owned() };
    Ok((cluster, Source::TokenSecret { secret, owner: None }))
}

/// The server that whoever runs us is going to ask: a kubeconfig of another one must not be handed on.
fn told_spoke(cluster: hub::kubeconfig::Cluster) -> Result<Option<Spoke>> {
    if cluster.server.is_empty() {
        return Ok(None);
    }
    let hub = Hub {
        context: String::new(),
        namespace: None,
        cluster,
        user: hub::kubeconfig::User::default(),
        files: Vec::new(),
    };
    Ok(Some(Spoke { server: hub.server().to_owned(), ca: hub.ca_fingerprint()? }))
}

fn whence(cluster: &str, context: &str) -> String {
    format!("{cluster} (hub context {context})")
}

/// The way of a run that the cache alone could not answer.
struct Cold<'a> {
    args: &'a [OsString],
    env: &'a Env,
    slot: Option<&'a Slot>,
    again: bool,
    renewal: bool,
    mode: Mode,
}

struct Outcome {
    credential: Credential,
    warning: Option<String>,
}

impl Outcome {
    fn quiet(credential: Credential) -> Self {
        Self { credential, warning: None }
    }
}

impl Cold<'_> {
    fn run(&self, job: &Job) -> Result<Outcome> {
        let started = millis(self.env.now);
        // Before the lock: in a circle of hubs the one above holds it.
        let chain = self.guard(job)?;
        let Some(slot) = self.slot else { return Ok(Outcome::quiet(self.fetch(job, chain)?)) };
        let limit = if self.renewal { Duration::ZERO } else { LOCK_LIMIT };
        let lock = slot.lock(limit);
        if self.renewal && lock.is_none() {
            return Err(Error::new(Kind::Failed, "another run is asking the hub"));
        }
        let now = millis(self.env.clock());
        if let Some(failure) = slot.failure(now) {
            return Err(failure);
        }
        let key = key::full(&job.hub, &job.request)?;
        let kept = slot.read().filter(|entry| entry.key == key && entry.fresh(now));
        if let Some(entry) = &kept
            && (!self.again || entry.read_ms >= started)
        {
            let warning = self.remember(slot, Entry { files: stamps(job), ..entry.clone() });
            return Ok(Outcome { credential: entry.credential.clone(), warning });
        }
        match self.fetch(job, chain) {
            Ok(credential) => {
                let warning = self.remember(
                    slot,
                    Entry {
                        key,
                        profile: format!("{}/{}", job.request.profile.namespace, job.request.profile.name),
                        files: stamps(job),
                        credential: credential.clone(),
                        read_ms: millis(self.env.clock()),
                        max_age: job.request.max_age.as_secs(),
                    },
                );
                Ok(Outcome { credential, warning })
            }
            Err(error) => {
                match (error.kind, kept) {
                    (Kind::Unreachable, Some(entry)) => return Ok(Outcome::quiet(entry.credential)),
                    (Kind::Refused | Kind::NotFound, _) => slot.forget(),
                    _ => {}
                }
                slot.remember_failure(&error, millis(self.env.clock()));
                Err(error)
            }
        }
    }

    /// Keeps an answer that lives long enough to be of use again; says why it could not.
    fn remember(&self, slot: &Slot, entry: Entry) -> Option<String> {
        if !entry.credential.outlasts_margin(millis(self.env.clock()) / 1000) {
            slot.forget();
            return None;
        }
        slot.write(&entry).err().map(|e| format!("the token is not cached: {e}"))
    }

    /// Refuses a circle of hubs; else the guard's variable for what runs beneath.
    fn guard(&self, job: &Job) -> Result<String> {
        let own_args: Vec<String> = self.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        guard::check_hub(&job.hub, &own_args)?;
        let own_args: Vec<&str> = own_args.iter().map(String::as_str).collect();
        guard::enter(&key::sha256(&own_args)[..16], self.env)
    }

    /// Makes the cluster's address reachable where it exists only inside the hub. What failed is
    /// remembered as a failure of the hub is, for kubectl's next tries.
    fn open_way(&self, job: &Job, tunnel: &Tunnel, raw_info: Option<&[u8]>) -> Result<()> {
        let chain = self.guard(job)?;
        let runtime = runtime()?;
        let way = tunnel::Way {
            request: &job.request,
            tunnel,
            args: self.args,
            cluster: protocol::cluster(raw_info),
            env: self.env,
            chain: &chain,
            login: &|| {
                let options = self.options(job, chain.clone());
                runtime.block_on(Client::connect(&job.hub, self.env, options)).map(|_| ())
            },
            runtime: &runtime,
        };
        way.ensure().inspect_err(|error| {
            if let Some(slot) = self.slot {
                slot.remember_failure(error, millis(self.env.clock()));
            }
        })
    }

    fn options(&self, job: &Job, chain: String) -> hub::client::Options {
        hub::client::Options {
            deadline: job.request.timeout,
            mode: self.mode,
            user_agent: concat!("credential-exec/", env!("CARGO_PKG_VERSION")).to_owned(),
            extra_env: vec![(guard::VARIABLE.to_owned(), chain)],
            gzip: false,
        }
    }

    fn fetch(&self, job: &Job, chain: String) -> Result<Credential> {
        let now = millis(self.env.clock()) / 1000;
        let options = self.options(job, chain);
        runtime()?.block_on(source::fetch(&job.hub, self.env, options, &job.request, now))
    }
}

/// Fetches what a request asks for over a connection to its hub that is there already, and keeps it: so that the
/// plugin, run with these arguments, answers from the cache. Does nothing where a good answer is kept.
///
/// # Errors
/// Those of the source. That nothing can be kept is none: the plugin then asks by itself.
pub async fn prepare(
    client: &Client,
    hub: &Hub,
    request: &CredentialRequest,
    args: &[OsString],
    env: &Env,
) -> Result<()> {
    if request.no_cache {
        return Ok(());
    }
    let Some(slot) = Cache::of(env).slot(question(args, &ExecInfo::parse(None)?, env)) else { return Ok(()) };
    let key = key::full(hub, request)?;
    let now = millis(env.clock());
    let good = |entry: &Entry| entry.key == key && entry.fresh(now) && entry.files_unchanged();
    if slot.read().as_ref().is_some_and(good) {
        return Ok(());
    }
    let credential = source::read(client, request, now / 1000).await?;
    let job = Job { request: request.clone(), hub: hub.clone(), candidates: Vec::new() };
    let entry = Entry {
        key,
        profile: format!("{}/{}", request.profile.namespace, request.profile.name),
        files: stamps(&job),
        credential,
        read_ms: millis(env.clock()),
        max_age: request.max_age.as_secs(),
    };
    if entry.credential.outlasts_margin(millis(env.clock()) / 1000) {
        let _ = slot.write(&entry);
    }
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Failed, format!("cannot start: {e}")))
}

/// The background process that a run starts for a tunnel: the same arguments after [`tunnel::SERVE`].
fn serve_tunnel(args: &[OsString], env: &Env, stdout: &mut dyn Write) -> Result<u8> {
    match cli::parse(args)?.asked {
        Asked::Request(request) => Ok(tunnel::server::serve(*request, env, stdout)),
        Asked::DropIn(_) | Asked::Text(_) => {
            Err(Error::new(Kind::Usage, "a tunnel is served for a request of `kubectl inventory use` alone"))
        }
    }
}

/// The files that decide which hub is meant and who we are there, as they are now.
fn stamps(job: &Job) -> Vec<(std::path::PathBuf, Stamp)> {
    let mut paths = job.request.hub.kubeconfig.clone();
    paths.extend(job.hub.files.iter().cloned());
    paths.extend(job.candidates.iter().cloned());
    let user = &job.hub.user;
    let more = [
        &job.hub.cluster.certificate_authority,
        &user.token_file,
        &user.client_certificate,
        &user.client_key,
    ];
    paths.extend(more.into_iter().flatten().cloned());
    paths.sort();
    paths.dedup();
    paths.into_iter().map(|path| (path.clone(), Stamp::of(&path))).collect()
}

#[cold]
#[inline(never)]
fn renew_in_background(args: &[OsString]) {
    if let Ok(this) = std::env::current_exe() {
        let _ = os::detached(Command::new(this).args(args).env(RENEWAL, "1")).spawn();
    }
}

fn millis(at: SystemTime) -> i64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}
