//! One API server: its state, and the handle by which a test looks at it and changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::watch::{self, Receiver};

use crate::auth::Auth;
use crate::certs::{Identity, Signer};
use crate::faults::{Fault, FaultRule, Matcher, Plan, plan};
use crate::forwards::Forwards;
use crate::key::Key;
use crate::request::{Logged, Request};
use crate::resources::{Resource, Resources};
use crate::store::Store;

/// What a server is started from.
pub(crate) struct Setup {
    pub(crate) version: String,
    pub(crate) resources: Resources,
    pub(crate) identity: Identity,
    pub(crate) clusters: BTreeSet<String>,
    pub(crate) client_ca: Option<Signer>,
    pub(crate) role: Role,
}

/// What a server does besides being an API server.
#[derive(Default)]
pub(crate) enum Role {
    #[default]
    Plain,
    /// Its Pods listen: they are this server.
    Forwards(SocketAddr),
    /// It hands on to the API servers of clusters, and is none itself.
    Relay,
}

/// A running API server. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    address: SocketAddr,
    version: String,
    resources: Mutex<Resources>,
    clusters: Mutex<BTreeSet<String>>,
    store: Mutex<Store>,
    changed: watch::Sender<()>,
    stop: watch::Sender<bool>,
    mute: watch::Sender<bool>,
    hang: watch::Sender<bool>,
    hang_up: watch::Sender<()>,
    delay: Mutex<Duration>,
    role: Role,
    forwards: Forwards,
    behind: Mutex<BTreeMap<String, Server>>,
    auth: Mutex<Auth>,
    faults: Mutex<Vec<FaultRule>>,
    forbidden: Mutex<Vec<Matcher>>,
    log: Mutex<Vec<Logged>>,
    identity: Mutex<Identity>,
    certificate: Mutex<Arc<CertifiedKey>>,
}

impl Server {
    pub(crate) fn start(runtime: &Handle, setup: Setup) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let inner = Arc::new(Inner {
            address: listener.local_addr()?,
            version: setup.version,
            resources: Mutex::new(setup.resources),
            clusters: Mutex::new(setup.clusters),
            store: Mutex::default(),
            changed: watch::Sender::new(()),
            stop: watch::Sender::new(false),
            mute: watch::Sender::new(false),
            hang: watch::Sender::new(false),
            hang_up: watch::Sender::new(()),
            delay: Mutex::default(),
            role: setup.role,
            forwards: Forwards::default(),
            behind: Mutex::default(),
            auth: Mutex::default(),
            faults: Mutex::default(),
            forbidden: Mutex::default(),
            log: Mutex::default(),
            certificate: Mutex::new(Arc::new(setup.identity.certified_key())),
            identity: Mutex::new(setup.identity),
        });
        crate::listen::spawn(runtime, listener, inner.clone(), setup.client_ca.as_ref())?;
        Ok(Self { inner })
    }

    /// `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://{}", self.inner.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// What is published as its CA, PEM.
    pub fn ca_pem(&self) -> String {
        self.identity().ca_pem().to_owned()
    }

    /// The certificate that it shows now.
    pub fn identity(&self) -> Identity {
        lock(&self.inner.identity).clone()
    }

    /// Shows another certificate from the next connection on. What was published stays.
    pub fn present(&self, identity: &Identity) {
        *lock(&self.inner.certificate) = Arc::new(identity.certified_key());
        *lock(&self.inner.identity) = identity.clone();
    }

    /// Creates or replaces an object, by its API path or `(group, version, resource, namespace, name)`.
    pub fn put(&self, key: impl Into<Key>, object: Value) {
        let key = key.into();
        assert!(!key.name.is_empty(), "the path of an object, not of a collection");
        self.inner.change(|store| store.put(key, object));
    }

    /// The object, if there is one.
    pub fn get(&self, key: impl Into<Key>) -> Option<Value> {
        let key = key.into();
        self.inner.with_store(|store| store.get(&key).map(|stored| stored.value.clone()))
    }

    /// Every object of the collection.
    pub fn list(&self, key: impl Into<Key>) -> Vec<Value> {
        let key = key.into();
        self.inner.with_store(|store| store.all(&key).map(|stored| stored.value.clone()).collect())
    }

    /// Changes an object in place; panics when it is not there.
    pub fn edit(&self, key: impl Into<Key>, change: impl FnOnce(&mut Value)) {
        let key = key.into();
        self.inner.change(|store| {
            let mut value = store.get(&key).unwrap_or_else(|| panic!("no {key:?}")).value.clone();
            change(&mut value);
            store.put(key, value)
        });
    }

    /// Deletes the object; tells whether it was there.
    pub fn delete(&self, key: impl Into<Key>) -> bool {
        let key = key.into();
        self.inner.change(|store| store.delete(&key).is_some())
    }

    /// Serves one more kind.
    pub fn serve(&self, resource: Resource) {
        lock(&self.inner.resources).add(resource);
    }

    /// Stops serving a group, or one kind given as `plural.group`.
    pub fn withdraw(&self, name: &str) {
        lock(&self.inner.resources).remove(name);
    }

    /// Answers requests below `/<cluster>/` too, as OCM's user-server does.
    pub fn answer_for(&self, cluster: &str) {
        lock(&self.inner.clusters).insert(cluster.to_owned());
    }

    /// Accepts a bearer token as this user, without end.
    pub fn accept(&self, token: &str, user: &str) {
        self.accept_until(token, user, None);
    }

    /// Accepts a bearer token until the second since the epoch, if one is given.
    pub fn accept_until(&self, token: &str, user: &str, until: Option<i64>) {
        lock(&self.inner.auth).accept_token(token, user, until);
    }

    /// Does not accept the token any more.
    pub fn revoke(&self, token: &str) {
        lock(&self.inner.auth).revoke_token(token);
    }

    /// Accepts a user name and password.
    pub fn accept_password(&self, user: &str, password: &str) {
        lock(&self.inner.auth).accept_password(user, password);
    }

    /// How many requests carried this token, accepted or not.
    pub fn requests_with(&self, token: &str) -> usize {
        lock(&self.inner.auth).times_seen(token)
    }

    /// Does something wrong for the requests that match, until told otherwise.
    pub fn fault(
        &self,
        matcher: impl Fn(&Request) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) -> FaultRule {
        let rule = FaultRule::new(Arc::new(matcher), fault);
        lock(&self.inner.faults).push(rule.clone());
        rule
    }

    /// Ends every fault.
    pub fn clear_faults(&self) {
        lock(&self.inner.faults).clear();
    }

    /// Refuses the requests that match with 403, as missing RBAC does.
    pub fn forbid(&self, matcher: impl Fn(&Request) -> bool + Send + Sync + 'static) {
        lock(&self.inner.forbidden).push(Arc::new(matcher));
    }

    /// Refuses nothing any more.
    pub fn allow_all(&self) {
        lock(&self.inner.forbidden).clear();
    }

    /// Accepts connections and says nothing, not even TLS, until told otherwise.
    pub fn mute(&self, mute: bool) {
        self.inner.mute.send_replace(mute);
    }

    /// Answers nothing any more, on no connection, and keeps all of them open, until told otherwise:
    /// what a laptop finds that has slept.
    pub fn hang(&self, hang: bool) {
        self.inner.hang.send_replace(hang);
    }

    /// Closes every connection that is open. New ones are served.
    pub fn hang_up(&self) {
        self.inner.hang_up.send_replace(());
    }

    /// Connections from now on take so long, each way.
    pub fn delay(&self, delay: Duration) {
        *lock(&self.inner.delay) = delay;
    }

    /// Closes the port and every connection, for good.
    pub fn stop(&self) {
        self.inner.stop.send_replace(true);
    }

    /// Every request so far, in the order of their answers.
    pub fn log(&self) -> Vec<Logged> {
        lock(&self.inner.log).clone()
    }

    /// Forgets the log.
    pub fn clear_log(&self) {
        lock(&self.inner.log).clear();
    }
}

impl Inner {
    pub(crate) fn with_store<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&lock(&self.store))
    }

    pub(crate) fn change<T>(&self, write: impl FnOnce(&mut Store) -> T) -> T {
        let result = write(&mut lock(&self.store));
        self.changed.send_replace(());
        result
    }

    pub(crate) fn changes(&self) -> Receiver<()> {
        self.changed.subscribe()
    }

    pub(crate) fn stopped(&self) -> Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn muted(&self) -> Receiver<bool> {
        self.mute.subscribe()
    }

    pub(crate) fn hangs(&self) -> Receiver<bool> {
        self.hang.subscribe()
    }

    pub(crate) fn hang_ups(&self) -> Receiver<()> {
        self.hang_up.subscribe()
    }

    pub(crate) fn link_delay(&self) -> Duration {
        *lock(&self.delay)
    }

    pub(crate) fn pods_listen_at(&self) -> Option<SocketAddr> {
        match self.role {
            Role::Forwards(address) => Some(address),
            _ => None,
        }
    }

    pub(crate) fn forwards(&self) -> &Forwards {
        &self.forwards
    }

    pub(crate) fn relays(&self) -> bool {
        matches!(self.role, Role::Relay)
    }

    pub(crate) fn put_behind(&self, cluster: &str, server: &Server) {
        lock(&self.behind).insert(cluster.to_owned(), server.clone());
    }

    pub(crate) fn behind(&self, cluster: &str) -> Option<Server> {
        lock(&self.behind).get(cluster).cloned()
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn resource(&self, key: &Key) -> Option<Resource> {
        lock(&self.resources).find(key).cloned()
    }

    pub(crate) fn discovery(&self, path: &str) -> Option<Value> {
        lock(&self.resources).discovery(path)
    }

    pub(crate) fn answers_for(&self, cluster: &str) -> bool {
        cluster.is_empty() || lock(&self.clusters).contains(cluster)
    }

    pub(crate) fn is_forbidden(&self, request: &Request) -> bool {
        let rules = lock(&self.forbidden).clone();
        rules.iter().any(|rule| rule(request))
    }

    pub(crate) fn plan(&self, request: &Request) -> Plan {
        let rules = lock(&self.faults).clone();
        plan(&rules, request)
    }

    pub(crate) fn auth(&self) -> MutexGuard<'_, Auth> {
        lock(&self.auth)
    }

    pub(crate) fn record(&self, line: Logged) {
        lock(&self.log).push(line);
    }
}

/// Shows whatever certificate is the current one.
pub(crate) struct Current(pub(crate) Arc<Inner>);

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Current")
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(lock(&self.0.certificate).clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
