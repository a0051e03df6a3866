//! `foreach [selection] -- ARGS`: one command on every cluster that is meant. Each cluster goes its own way:
//! resolved, logged in and run, so that a slow or a dead one holds nobody up.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::Client;
use credential_exec::request::Source;
use futures_util::StreamExt as _;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::{Semaphore, watch};

use super::accounts::Book;
use super::entries::Entries;
use super::list::Scope;
use super::member::Member;
use super::question::some_of;
use super::selection::choose;
use super::way_in::{Login, WayIn};
use crate::cli::{Foreach, Global};
use crate::foreach::child::{self, Stream};
use crate::foreach::print::{Form, Printer};
use crate::foreach::verb::{self, Effect};
use crate::foreach::{End, Outcome, merged};
use crate::hub;
use crate::kubeconfig_file::Document;
use crate::term::not_written;

/// How many clusters are resolved at once; the hub is asked for all of them.
const RESOLVED_AT_ONCE: usize = 8;
/// How many clusters are on their way at once, most of them waiting for their turn to run.
const UNDER_WAY: usize = 128;
/// How often a command is tried that may be tried again.
const TRIES: u32 = 3;

/// Everything that `foreach` is given.
pub struct ForeachRun<'a> {
    /// The verb's own flags.
    pub options: &'a Foreach,
    /// The hub's flags.
    pub global: &'a Global,
    /// Which way in is taken.
    pub way: WayIn<'a>,
    /// Whether the output is coloured.
    pub color: bool,
}

/// The clusters, and what runs on each.
struct Job<'a> {
    run: &'a ForeachRun<'a>,
    client: Client,
    entries: Entries<'a>,
    effect: Effect,
    input: Option<Vec<u8>>,
    folder: TempDir,
    resolving: Semaphore,
    running: Semaphore,
    /// How many run at once; fewer when somebody says it is too much.
    width: Cell<usize>,
    stop: watch::Sender<bool>,
}

impl ForeachRun<'_> {
    /// Runs the command everywhere and answers the merged exit code.
    ///
    /// # Errors
    /// Those before anything is run: the hub's, a selection that means no cluster, a protected cluster.
    pub async fn run(mut self, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
        let effect = match self.options.command {
            true => Effect::Changes,
            false => verb::of_kubectl(&self.options.args),
        };
        let client = hub::connect(&self.way.chosen.hub, self.global, self.way.env).await?;
        let hub = &self.way.chosen.hub;
        let scope = Scope::new(
            self.global.namespace.as_deref(),
            self.options.clusters.all_namespaces,
            hub.namespace.as_deref(),
            self.way.config.namespace.as_deref(),
        );
        let (clusters, source) = (&self.options.clusters, self.options.source);
        let members = choose(&client, &hub.context, &scope, clusters, source, err).await?.members;
        self.guard(&members, effect, err)?;
        if self.options.dry_run {
            return self.dry_run(&members, out).map(|()| 0);
        }
        let namespaces: BTreeSet<&str> = members.iter().map(Member::namespace).collect();
        if members.len() > 1 && members.iter().any(|member| matches!(member, Member::Profile(_))) {
            let hub = &self.way.chosen.hub.context;
            self.way.book = Book::read(&client, hub, &namespaces).await?;
        }
        let job = Job::new(&self, client, effect)?;
        let ends = job.all(&members, out, err).await?;
        said_last(&members, &ends, self.options.output, err);
        Ok(if *job.stop.borrow() && !self.options.fail_fast { 130 } else { merged(&ends) })
    }

    /// Asks before something is changed on a cluster that the config file protects.
    fn guard(&self, members: &[Member], effect: Effect, err: &mut dyn Write) -> Result<()> {
        if effect != Effect::Changes || self.options.yes || self.options.dry_run {
            return Ok(());
        }
        let protected: Vec<String> = members
            .iter()
            .filter(|member| self.way.config.protection(&member.row()).is_some())
            .map(|member| member.metadata().name.clone())
            .collect();
        if protected.is_empty() {
            return Ok(());
        }
        let cause = format!(
            "{} of {} clusters are protected: {}; this may change them: {}",
            protected.len(),
            members.len(),
            some_of(&protected),
            printable(&self.line().join(" "))
        );
        let env = self.way.env;
        if env.stdin_is_terminal && std::io::stderr().is_terminal() && env.os("CI").is_none() {
            let _ = write!(err, "{cause}.\nRun it? [y/N] ");
            let mut answer = String::new();
            let _ = std::io::stdin().lock().read_line(&mut answer);
            if matches!(answer.trim(), "y" | "Y" | "yes") {
                return Ok(());
            }
            return Err(Error::new(Kind::Failed, "nothing was run"));
        }
        Err(Error::new(Kind::Usage, cause)
            .remedy("add --yes if that is meant, or choose other clusters (`protect` in the config file)"))
    }

    /// The command as it is run.
    fn line(&self) -> Vec<String> {
        let kubectl = (!self.options.command).then(|| "kubectl".to_owned());
        kubectl.into_iter().chain(self.options.args.iter().cloned()).collect()
    }

    fn dry_run(&self, members: &[Member], out: &mut dyn Write) -> Result<()> {
        let line = printable(&self.line().join(" "));
        let width = members.iter().map(|member| member.metadata().name.len() + 1).max().unwrap_or_default();
        for member in members {
            let name = format!("{}:", printable(&member.metadata().name));
            let protected = match self.way.config.protection(&member.row()) {
                Some(rule) => format!("   # protected ({rule})"),
                None => String::new(),
            };
            writeln!(out, "{name:width$} {line}{protected}").map_err(not_written)?;
        }
        Ok(())
    }
}

impl<'a> Job<'a> {
    fn new(run: &'a ForeachRun<'a>, client: Client, effect: Effect) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("kubectl-inventory-")
            .tempdir()
            .map_err(|error| Error::new(Kind::Failed, format!("no temporary folder: {error}")))?;
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let width = run.options.parallel.unwrap_or(cores * 4).max(1);
        Ok(Self {
            run,
            client,
            entries: Entries::new(&run.way, None)?,
            effect,
            input: input(run)?,
            folder,
            resolving: Semaphore::new(RESOLVED_AT_ONCE),
            running: Semaphore::new(width),
            width: Cell::new(width),
            stop: watch::channel(false).0,
        })
    }

    /// Runs it on all clusters, and answers how each ended, in the fleet's order.
    async fn all(&self, members: &[Member], out: &mut dyn Write, err: &mut dyn Write) -> Result<Vec<End>> {
        let options = self.run.options;
        let names: Vec<&str> = members.iter().map(|member| member.metadata().name.as_str()).collect();
        let terminal = std::io::stderr().is_terminal() && members.len() > 2;
        let printer =
            Printer::new((out, err), options.output, options.in_order, self.run.color, terminal, &names);
        let printer = Rc::new(RefCell::new(printer));
        let mut ends: Vec<End> = vec![End::Stopped; members.len()];
        {
            let one = |(number, member)| {
                let printer = Rc::clone(&printer);
                async move {
                    let outcome = self.one(number, member, &printer).await;
                    (number, outcome)
                }
            };
            let mut done =
                futures_util::stream::iter(members.iter().enumerate().map(one)).buffer_unordered(UNDER_WAY);
            let mut signals = std::pin::pin!(interrupted());
            loop {
                tokio::select! {
                    next = done.next() => {
                        let Some((number, outcome)) = next else { break };
                        ends[number] = outcome.end.clone();
                        if options.fail_fast && outcome.end.code() != 0 {
                            self.stop.send_replace(true);
                        }
                        printer.borrow_mut().outcome(number, outcome);
                    }
                    () = &mut signals, if !*self.stop.borrow() => {
                        self.stop.send_replace(true);
                    }
                }
            }
        }
        let printer = Rc::into_inner(printer).expect("every cluster is done").into_inner();
        printer.finish().map_err(not_written)?;
        Ok(ends)
    }

    /// One cluster, from its way in to the command's end.
    async fn one(&self, number: usize, member: &Member, printer: &RefCell<Printer<'_>>) -> Outcome {
        let mut outcome = Outcome {
            name: member.metadata().name.clone(),
            namespace: member.metadata().namespace.clone(),
            end: End::Stopped,
            stdout: Vec::new(),
            stderr: Vec::new(),
            took: Duration::ZERO,
        };
        if *self.stop.borrow() {
            return outcome;
        }
        let started = Instant::now();
        let file = match self.prepare(number, member).await {
            Ok(file) => file,
            Err(error) => {
                outcome.end = End::NotRun(error.to_string(), error.kind.code());
                outcome.took = started.elapsed();
                return outcome;
            }
        };
        let _turn = self.running.acquire().await;
        let streams = printer.borrow().streams();
        for tried in 1..=TRIES {
            if *self.stop.borrow() {
                break;
            }
            outcome.stdout.clear();
            outcome.stderr.clear();
            let (mut shown, mut said) = (false, Vec::new());
            let line = |stream, text: &[u8]| {
                let kept = if stream == Stream::Out { &mut outcome.stdout } else { &mut said };
                if streams && stream == Stream::Out {
                    shown = true;
                    printer.borrow_mut().line(number, &outcome.name, stream, text);
                } else {
                    kept.extend_from_slice(text);
                    kept.push(b'\n');
                }
            };
            let command = self.command(member, &file);
            let limit = self.run.options.timeout;
            let (end, took) =
                child::run(command, self.input.as_deref(), limit, self.stop.subscribe(), line).await;
            let words = String::from_utf8_lossy(&said).into_owned();
            outcome.stderr = said;
            (outcome.end, outcome.took) = (end, took);
            if outcome.end != End::Exited(0) && verb::is_too_much(&words) {
                self.narrow();
            }
            let again = matches!(outcome.end, End::Exited(code) if code != 0)
                && self.effect == Effect::Reads
                && !shown
                && verb::may_pass(&words);
            if !again || tried == TRIES {
                break;
            }
            let mut stop = self.stop.subscribe();
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(300) * tried.pow(2)) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        outcome
    }

    /// Fewer at once from now on.
    fn narrow(&self) {
        if self.width.get() > 1 && self.running.forget_permits(1) == 1 {
            self.width.set(self.width.get() - 1);
        }
    }

    /// The way in, its credential fetched over the one connection to the hub, and a kubeconfig for it alone.
    async fn prepare(&self, number: usize, member: &Member) -> Result<std::path::PathBuf> {
        let _turn = self.resolving.acquire().await;
        let found = member.way_in(&self.run.way, &self.client, false, false).await?;
        let mut document = Document::empty();
        let mark = self.entries.mark(member, &found)?;
        let name = document.name_for(&mark);
        let entry = self.entries.entry(&name, mark, member, &found)?;
        document.put(&entry, true)?;
        document.set_current_context(&entry.context);
        let file = self.folder.path().join(format!("{number}.yaml"));
        write_private(&file, &document.to_yaml())?;
        if let Login::Ours { source, tunnel } = &found.login
            && !matches!(source, Source::HubIdentity { .. } | Source::KubeconfigSecret { .. })
        {
            let request = self.entries.request(member, source, tunnel.as_ref())?;
            let args: Vec<OsString> = request.to_args()?.into_iter().map(OsString::from).collect();
            let hub = &self.run.way.chosen.hub;
            credential_exec::prepare(&self.client, hub, &request, &args, self.run.way.env).await?;
        }
        Ok(file)
    }

    fn command(&self, member: &Member, file: &Path) -> Command {
        let line = self.run.line();
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .env("KUBECONFIG", file)
            .env("KUBECTL_INVENTORY_CLUSTER", &member.metadata().name)
            .env("KUBECTL_INVENTORY_CLUSTER_NAMESPACE", &member.metadata().namespace);
        command
    }
}

/// Ends with the first signal that asks us to end.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (term, hangup) = (signal(SignalKind::terminate()), signal(SignalKind::hangup()));
        if let (Ok(mut term), Ok(mut hangup)) = (term, hangup) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
                _ = hangup.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// What each command is to read: our own stdin where its arguments name it.
fn input(run: &ForeachRun<'_>) -> Result<Option<Vec<u8>>> {
    if run.way.env.stdin_is_terminal || !run.options.args.iter().any(|arg| arg == "-") {
        return Ok(None);
    }
    let mut input = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut input)
        .map_err(|error| Error::new(Kind::Failed, format!("stdin cannot be read: {error}")))?;
    Ok(Some(input))
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Error::new(Kind::Failed, format!("{} cannot be written: {error}", path.display())))
}

/// Which clusters failed, for a person.
fn said_last(members: &[Member], ends: &[End], form: Form, err: &mut dyn Write) {
    let failed: Vec<String> = members
        .iter()
        .zip(ends)
        .filter(|(_, end)| end.code() != 0)
        .map(|(member, end)| {
            let words = match end {
                End::NotRun(..) => "not run".to_owned(),
                end => end.words(),
            };
            format!("{} ({words})", member.metadata().name)
        })
        .collect();
    if !failed.is_empty() && form != Form::Json {
        let _ = writeln!(err, "{} of {} clusters failed: {}", failed.len(), ends.len(), some_of(&failed));
    }
}
