//! The background process: listens on the ports that kubeconfigs name, and carries what comes to the
//! Service on the hub. One for each hub and Service; it leaves when it was not used for a while.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Notify};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::Instant;

use super::backend;
use super::carrier::Carrier;
use super::control::{Ask, Failure, Reply, Status};
use super::forward::{self, Opening, Traffic};
use super::link;
use super::log::Log;
use super::place::{self, Place};
use super::{VERSION, name};
use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::find_hub;
use crate::hub::Client;
use crate::hub::client::Options;
use crate::hub::identity::Mode;
use crate::os::{self, LocalListener};
use crate::request::{CredentialRequest, Tunnel};

/// For how long a failure to connect is the answer to whoever asks next.
const FAILURE_LIFE: Duration = Duration::from_secs(1);

/// How long the process before may take to go.
const HANDOVER: Duration = Duration::from_secs(3);

/// How many Pods are tried before giving up.
const TRIES: usize = 3;

/// Runs the tunnel of a request until it is not needed any more. Whether it is up is said in one line on
/// `said`; from then on only the log hears of it.
pub fn serve(request: CredentialRequest, env: &Env, said: &mut dyn Write) -> u8 {
    let started = start(request, env);
    let (reply, running) = match started {
        Ok(running) => (reply(None), Some(running)),
        Err(failure) => (reply(Some(failure)), None),
    };
    let mut line = serde_json::to_vec(&reply).unwrap_or_default();
    line.push(b'\n');
    let _ = said.write_all(&line).and_then(|()| said.flush());
    os::close_stdout();
    match running {
        Some((runtime, tasks, server, control)) => {
            tasks.block_on(&runtime, server.run(control));
            0
        }
        None => Kind::Failed.code(),
    }
}

type Running = (tokio::runtime::Runtime, LocalSet, Rc<Server>, LocalListener);

fn start(request: CredentialRequest, env: &Env) -> Result<Running, Failure> {
    let plain = |error: Error| Failure::new(error, false);
    let failed = |cause: String| Failure::new(Error::new(Kind::Failed, cause), false);
    let Some(tunnel) = request.tunnel.clone() else {
        return Err(failed("the request names no tunnel".to_owned()));
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(format!("cannot start: {error}")))?;
    let dir = place::usable(env).map_err(plain)?;
    let place = Place::new(&dir, &name(&request.hub.server, &request.hub.ca, &tunnel.target()));
    let server = Rc::new(Server::new(request, tunnel, place, env));
    let tasks = LocalSet::new();
    let control = tasks.block_on(&runtime, async {
        server.begin_to_live().await?;
        server.listen(server.tunnel.port).await.map_err(plain)?;
        let control = LocalListener::bind(&server.place.socket())
            .map_err(|error| failed(format!("{}: {error}", server.place.socket().display())))?;
        server.carrier().await.inspect_err(|_| server.remove_socket())?;
        Ok(control)
    })?;
    Ok((runtime, tasks, server, control))
}

struct Server {
    request: CredentialRequest,
    tunnel: Tunnel,
    place: Place,
    env: Env,
    log: Log,
    started: SystemTime,
    /// Held while this is the tunnel that new connections are to come to.
    living: RefCell<Option<File>>,
    socket: RefCell<PathBuf>,
    listeners: RefCell<BTreeMap<u16, JoinHandle<()>>>,
    carrier: Mutex<Link>,
    /// The trusts by which the server behind the present carrier was met.
    met: RefCell<HashSet<u64>>,
    open: Cell<u64>,
    total: Cell<u64>,
    traffic: Traffic,
    last_use: Cell<Instant>,
    last_error: RefCell<String>,
    leaving: Cell<Leaving>,
    changed: Notify,
    pod: RefCell<String>,
    /// The Pod that failed last; the others are tried first.
    shunned: RefCell<String>,
}

#[derive(Default)]
struct Link {
    carrier: Option<Carrier>,
    failed: Option<(Instant, Failure)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    WhenEmpty,
    Now,
}

impl Server {
    fn new(request: CredentialRequest, tunnel: Tunnel, place: Place, env: &Env) -> Self {
        Self {
            log: Log::new(&place.log(), env),
            socket: RefCell::new(place.socket()),
            request,
            tunnel,
            place,
            env: env.clone(),
            started: env.clock(),
            living: RefCell::default(),
            listeners: RefCell::default(),
            carrier: Mutex::default(),
            met: RefCell::default(),
            open: Cell::new(0),
            total: Cell::new(0),
            traffic: Traffic::default(),
            last_use: Cell::new(Instant::now()),
            last_error: RefCell::default(),
            leaving: Cell::new(Leaving::No),
            changed: Notify::new(),
            pod: RefCell::default(),
            shunned: RefCell::default(),
        }
    }

    /// Becomes the only tunnel of its name.
    async fn begin_to_live(&self) -> Result<(), Failure> {
        let until = Instant::now() + HANDOVER;
        loop {
            if let Some(living) = self.place.living() {
                *self.living.borrow_mut() = Some(living);
                return Ok(());
            }
            if Instant::now() >= until {
                let cause = "another tunnel to this Service lives, and does not answer";
                let error = Error::new(Kind::Unreachable, cause)
                    .remedy("end its process (credential-exec --serve-tunnel …) and try again");
                return Err(Failure::new(error, false));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Listens on a local port, if it does not yet.
    async fn listen(self: &Rc<Self>, port: u16) -> Result<()> {
        if self.listeners.borrow().contains_key(&port) {
            return Ok(());
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| {
            let target = self.tunnel.target();
            let why = match error.kind() {
                ErrorKind::AddrInUse => "is taken by another program".to_owned(),
                _ => format!("cannot be used: {error}"),
            };
            Error::new(Kind::Unreachable, format!("port {port} of this machine, the way to {target}, {why}"))
                .remedy(format!(
                    "run `kubectl inventory use {}` again to take another port, or end that program",
                    self.request.profile.name
                ))
        })?;
        let accepting = spawn_local(self.clone().accept(listener));
        self.listeners.borrow_mut().insert(port, accepting);
        Ok(())
    }

    async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((local, _)) => {
                    spawn_local(self.clone().forward(local));
                }
                Err(error) => {
                    self.note(&format!("a connection could not be taken: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn forward(self: Rc<Self>, mut local: TcpStream) {
        let _open = Open::new(&self);
        let _ = local.set_nodelay(true);
        let opening = Opening::default();
        for _ in 0..TRIES {
            let Ok(carrier) = self.carrier().await else { return };
            let ended = match carrier.open().await {
                Ok((outbound, inbound)) => {
                    forward::run(&mut local, outbound, inbound, &opening, &self.traffic).await
                }
                Err(why) => Err(why),
            };
            let Err(why) = ended else { return };
            if why.is_empty() {
                return;
            }
            self.note(&format!("a connection to Pod {} broke: {why}", carrier.pod()));
            if !opening.can_be_repeated() {
                return;
            }
            carrier.give_up();
            carrier.pod().clone_into(&mut self.shunned.borrow_mut());
        }
    }

    /// The connection to the hub that new streams go on; a new one where there is none that is fit.
    async fn carrier(self: &Rc<Self>) -> Result<Carrier, Failure> {
        let mut link = self.carrier.lock().await;
        if let Some(carrier) = &link.carrier
            && carrier.is_fit().await
        {
            carrier.pod().clone_into(&mut self.pod.borrow_mut());
            return Ok(carrier.clone());
        }
        link.carrier = None;
        if let Some((at, failure)) = &link.failed
            && at.elapsed() < FAILURE_LIFE
        {
            return Err(failure.clone());
        }
        let limit = self.request.timeout;
        let dialled = tokio::time::timeout(limit, self.dial()).await.unwrap_or_else(|_| {
            let cause = format!("no connection to {} within {} s", self.tunnel.target(), limit.as_secs());
            Err(Failure::new(Error::new(Kind::Unreachable, cause), false))
        });
        match dialled {
            Ok(carrier) => {
                self.log.line(&format!("connected to Pod {}", carrier.pod()));
                *self.pod.borrow_mut() = carrier.pod().to_owned();
                self.last_error.borrow_mut().clear();
                self.met.borrow_mut().clear();
                spawn_local(self.clone().watch(carrier.ended()));
                *link = Link { carrier: Some(carrier.clone()), failed: None };
                Ok(carrier)
            }
            Err(failure) => {
                self.note(&Error::from(failure.clone()).one_line());
                link.failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    /// Says when a connection to the hub ends, and makes the next one before it is needed.
    async fn watch(self: Rc<Self>, ended: impl Future<Output = String>) {
        let why = ended.await;
        if self.leaving.get() == Leaving::Now {
            return;
        }
        let pod = self.pod.take();
        self.note(&format!("the connection to Pod {pod} ended: {why}"));
        let _ = self.carrier().await;
    }

    /// Connects to a ready Pod. Hub and login are looked up anew each time: they may have changed.
    async fn dial(&self) -> Result<Carrier, Failure> {
        let plain = |error: Error| Failure::new(error, false);
        let hub = find_hub::pinned(&self.request.hub, &self.env).map_err(plain)?;
        let has_login = hub.user.exec.is_some();
        let may_log_in = |error: Error| {
            let login = has_login && !matches!(error.kind, Kind::Unreachable | Kind::NotFound);
            Failure::new(error, login)
        };
        let options = Options {
            deadline: self.request.timeout,
            mode: Mode::Background,
            user_agent: concat!("credential-exec/", env!("CARGO_PKG_VERSION"), " tunnel").to_owned(),
            extra_env: Vec::new(),
            gzip: false,
        };
        let client = Client::connect(&hub, &self.env, options).await.map_err(may_log_in)?;
        let mut backends = backend::find(&client, &self.tunnel).await.map_err(may_log_in)?;
        // Several tunnels spread over several Pods.
        let shift = std::process::id() as usize % backends.len();
        backends.rotate_left(shift);
        backends.sort_by_key(|backend| backend.pod == *self.shunned.borrow());
        let mut gone = None;
        for backend in backends.into_iter().take(TRIES) {
            match link::open(&client, &self.tunnel.namespace, &backend.pod).await {
                Ok((reader, writer)) => {
                    let env = self.env.clone();
                    return Ok(Carrier::new(reader, writer, backend, Rc::new(move || env.clock())));
                }
                Err(error) if matches!(error.kind, Kind::NotFound | Kind::Unreachable) => gone = Some(error),
                Err(error) => return Err(may_log_in(error)),
            }
        }
        let none = || Error::new(Kind::Unreachable, "no Pod could be connected to");
        Err(plain(gone.unwrap_or_else(none)))
    }

    fn note(&self, what: &str) {
        self.log.line(what);
        what.clone_into(&mut self.last_error.borrow_mut());
    }

    fn remove_socket(&self) {
        let _ = std::fs::remove_file(&*self.socket.borrow());
    }

    /// Serves until it is told to leave, or nobody used it for long enough.
    async fn run(self: Rc<Self>, mut control: LocalListener) {
        self.log.line(&format!("version {VERSION} to {}", self.tunnel.target()));
        self.last_use.set(Instant::now());
        loop {
            tokio::select! {
                asker = control.accept() => match asker {
                    Ok(asker) => {
                        spawn_local(self.clone().answer(asker));
                    }
                    Err(error) => {
                        self.note(&format!("a question could not be taken: {error}"));
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                why = self.end() => {
                    self.remove_socket();
                    self.log.line(why);
                    return;
                }
            }
        }
    }

    /// Waits for the time to leave.
    async fn end(&self) -> &'static str {
        loop {
            let changed = self.changed.notified();
            let idle_end = self.last_use.get() + self.tunnel.idle;
            match self.leaving.get() {
                Leaving::Now => return "told to stop",
                Leaving::WhenEmpty if self.open.get() == 0 => return "a newer one took over",
                Leaving::WhenEmpty => changed.await,
                Leaving::No if self.open.get() > 0 => changed.await,
                Leaving::No if Instant::now() >= idle_end => return "not used any more",
                Leaving::No => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep_until(idle_end) => {}
                    }
                }
            }
        }
    }

    /// Answers the questions of one connection.
    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(self: Rc<Self>, asker: S) {
        const LONGEST_QUESTION: u64 = 4096;
        let (reader, mut writer) = tokio::io::split(asker);
        let mut line = String::new();
        let mut reader = BufReader::new(reader.take(LONGEST_QUESTION));
        let read = reader.read_line(&mut line);
        if !matches!(tokio::time::timeout(HANDOVER, read).await, Ok(Ok(1..))) {
            return;
        }
        let reply = match serde_json::from_str(&line) {
            Ok(ask) => self.reply_to(ask).await,
            Err(_) => {
                let cause = format!("the tunnel, of version {VERSION}, does not know what it is asked");
                reply(Some(Failure::new(Error::new(Kind::Usage, cause), false)))
            }
        };
        let mut line = serde_json::to_vec(&reply).unwrap_or_default();
        line.push(b'\n');
        let _ = writer.write_all(&line).await;
        let _ = writer.shutdown().await;
        self.changed.notify_waiters();
    }

    async fn reply_to(self: &Rc<Self>, ask: Ask) -> Reply {
        match ask {
            Ask::Ready { port, trust } => {
                self.last_use.set(Instant::now());
                let failure = match self.listen(port).await {
                    Ok(()) => self.carrier().await.err(),
                    Err(error) => Some(Failure::new(error, false)),
                };
                Reply { met: self.met.borrow().contains(&trust), ..reply(failure) }
            }
            Ask::LoggedIn => {
                self.carrier.lock().await.failed = None;
                reply(None)
            }
            Ask::Met { trust } => {
                self.met.borrow_mut().insert(trust);
                reply(None)
            }
            Ask::Status => Reply { status: Some(self.status()), ..reply(None) },
            Ask::Drain => {
                let listeners = self.listeners.take();
                for listener in listeners.into_values() {
                    listener.abort();
                    let _ = listener.await;
                }
                let leaving = self.place.leaving(std::process::id());
                if std::fs::rename(&*self.socket.borrow(), &leaving).is_ok() {
                    *self.socket.borrow_mut() = leaving;
                }
                *self.living.borrow_mut() = None;
                self.leaving.set(Leaving::WhenEmpty);
                reply(None)
            }
            Ask::Stop => {
                self.leaving.set(Leaving::Now);
                reply(None)
            }
        }
    }

    fn status(&self) -> Status {
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let idle_left = (self.last_use.get() + self.tunnel.idle).saturating_duration_since(Instant::now());
        Status {
            hub: self.request.hub.context.clone(),
            hub_server: self.request.hub.server.clone(),
            service: self.tunnel.target(),
            pod: self.pod.borrow().clone(),
            ports: self.listeners.borrow().keys().copied().collect(),
            pid: std::process::id(),
            version: VERSION.to_owned(),
            since: i64::try_from(since.as_secs()).unwrap_or(0),
            connections: self.open.get(),
            total_connections: self.total.get(),
            sent_bytes: self.traffic.sent.get(),
            received_bytes: self.traffic.received.get(),
            idle_left_seconds: if self.open.get() > 0 {
                self.tunnel.idle.as_secs()
            } else {
                idle_left.as_secs()
            },
            draining: self.leaving.get() == Leaving::WhenEmpty,
            last_error: self.last_error.borrow().clone(),
        }
    }
}

fn reply(error: Option<Failure>) -> Reply {
    Reply { version: VERSION.to_owned(), met: false, error, status: None }
}

/// A connection that is open, counted.
struct Open<'a>(&'a Server);

impl<'a> Open<'a> {
    fn new(server: &'a Server) -> Self {
        server.open.set(server.open.get() + 1);
        server.total.set(server.total.get() + 1);
        Self(server)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.last_use.set(Instant::now());
        self.0.changed.notify_waiters();
    }
}
