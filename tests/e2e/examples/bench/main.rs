//! The benchmark: our binaries beside what people run without them, against a real API server.
//! One line for each goal with the measured ratio, both medians, and `ok` or `MISSED`; exit code 1
//! when one is missed. `tests/bench/run` builds what it needs and starts it.

mod far;
mod hub;
mod timing;
mod tunnel;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use e2e::controlplane::go_program;
use hub::Laid;
use timing::{Pair, Run, pairs, peak};

const USAGE: &str = "usage: bench --binaries FOLDER --kubectl FILE [--profiles N] [--only warm,yardstick,cold,get,tunnel] [--hold]\n";

type Outcome<T> = Result<T, String>;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|first| first == timing::ONCE) {
        return timing::once(&args[1..]);
    }
    let result = Options::parse(args).and_then(|options| bench(&options));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr().lock(), "bench: {error}");
            ExitCode::from(2)
        }
    }
}

struct Options {
    /// Where `kubectl-inventory` and `credential-exec` lie.
    binaries: PathBuf,
    /// A real kubectl.
    kubectl: PathBuf,
    profiles: usize,
    only: Vec<String>,
    /// Stay up afterwards, to look closer by hand.
    hold: bool,
}

impl Options {
    fn parse(args: Vec<OsString>) -> Outcome<Self> {
        let mut options = Self {
            binaries: PathBuf::new(),
            kubectl: PathBuf::new(),
            profiles: 10_000,
            only: Vec::new(),
            hold: false,
        };
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or(USAGE);
            match flag.to_str() {
                Some("--binaries") => options.binaries = value()?.into(),
                Some("--kubectl") => options.kubectl = value()?.into(),
                Some("--profiles") => {
                    options.profiles = value()?.to_str().and_then(|n| n.parse().ok()).ok_or(USAGE)?;
                }
                Some("--only") => {
                    options.only = value()?.to_string_lossy().split(',').map(str::to_owned).collect();
                }
                Some("--hold") => options.hold = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        for file in
            [options.binary("kubectl-inventory"), options.binary("credential-exec"), options.kubectl.clone()]
        {
            if !file.is_file() {
                return Err(format!("{} is not there\n{USAGE}", file.display()));
            }
        }
        Ok(options)
    }

    fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

/// Whether every goal was met.
fn bench(options: &Options) -> Outcome<bool> {
    let mut report = Report::default();
    if options.wants("tunnel") {
        tunnel::measure(options, &mut report)?;
    }
    let others = ["cold", "yardstick", "warm", "get"];
    if !options.hold && !others.iter().any(|part| options.wants(part)) {
        return Ok(!report.missed);
    }
    let laid = Laid::out(&options.binaries)?;
    if options.wants("cold") {
        report.at_most(0.4, "cold credential / curl of the same Secret", &cold(&laid)?)?;
    }
    if options.wants("yardstick") {
        report.faster(30.0, "warm credential / client-go plugin", &yardstick(&laid)?)?;
    }
    if options.wants("warm") {
        report.at_most(0.6, "warm credential / a dynamic /bin/true", &warm(&laid)?)?;
    }
    if options.wants("get") || options.hold {
        laid.fill(options.profiles)?;
    }
    if options.wants("get") {
        let get = laid.home.ours("kubectl-inventory").args(["get", "-A"]);
        let kubectl = laid.home.run(&options.kubectl).args(["get", "clusterprofiles", "-A"]);
        for (run, who) in [(&get, "get"), (&kubectl, "kubectl")] {
            let lines = run.output()?.lines().count();
            if lines != options.profiles + 2 {
                return Err(format!(
                    "{who} prints {lines} lines, not a header and {} rows",
                    options.profiles + 1
                ));
            }
        }
        // A hub of this size changes all the time. One at rest lists slower: its API server then reads
        // pages from etcd instead of its memory, and everybody only waits for that.
        let touch = || laid.touch();
        let what = format!("get -A of {} profiles / kubectl get", options.profiles);
        report.at_most(0.6, &what, &pairs(11, &get, &kubectl, touch, touch)?)?;
        let urls = laid.home.path("pages.curl");
        let curl = laid.home.run("curl").arg("--config").arg(&urls);
        let what = format!("get -A of {} profiles / curl of the same pages", options.profiles);
        let renew = || touch().and_then(|()| laid.write_pages(&urls));
        report.at_most(1.3, &what, &pairs(11, &get, &curl, touch, renew)?)?;
        report.memory(64.0, "get -A, peak memory", &get, &kubectl)?;
        filtered(&laid, &get, options.profiles, &mut report)?;
    }
    if options.hold {
        hold(&laid)?;
    }
    Ok(!report.missed)
}

/// A choice among all profiles against all of them: by properties, and by a scheduler's choice, of a few and
/// of all.
fn filtered(laid: &Laid, plain: &Run, profiles: usize, report: &mut Report) -> Outcome<()> {
    laid.place("few", profiles / 10)?;
    laid.place("all", profiles)?;
    let by_property = ["--property", "clusterset.k8s.io=prod", "--property", "cpu=24"];
    let third = (0..profiles).filter(|number| number % 3 == 1).count();
    for (flags, what, rows) in [
        (&by_property[..], "--property", third),
        (&["--placement", "few"], "--placement of a tenth", profiles / 10),
        (&["--placement", "all"], "--placement of all", profiles),
    ] {
        let chosen = laid.home.ours("kubectl-inventory").args(["get", "-A"]).args(flags);
        let lines = chosen.output()?.lines().count();
        if lines != rows + 1 {
            return Err(format!("{what} prints {lines} lines, not a header and {rows} rows"));
        }
        let touch = || laid.touch();
        report.at_most(1.1, &format!("get -A {what} / get -A"), &pairs(31, &chosen, plain, touch, touch)?)?;
        if rows == profiles {
            report.size(64.0, &format!("get -A {what}, peak memory"), peak(&chosen)?, "")?;
        }
    }
    Ok(())
}

/// Ours with a token in the cache against a program that does nothing.
fn warm(laid: &Laid) -> Outcome<Pair> {
    let plugin = laid.plugin();
    laid.expect_token(&plugin)?;
    let before = laid.cached()?;
    let pair = pairs(300, &plugin, &laid.home.run("/bin/true"), || Ok(()), || Ok(()))?;
    still_warm(laid, &before)?;
    Ok(pair)
}

/// Ours with a token in the cache against what a client-go program does for every kubectl.
fn yardstick(laid: &Laid) -> Outcome<Pair> {
    let program = go_program("yardstick")?.ok_or("no yardstick without Go")?;
    let (plugin, yardstick) = (laid.plugin(), laid.yardstick(&program));
    laid.expect_token(&plugin)?;
    laid.expect_token(&yardstick)?;
    let before = laid.cached()?;
    let pair = pairs(60, &plugin, &yardstick, || Ok(()), || Ok(()))?;
    still_warm(laid, &before)?;
    Ok(pair)
}

fn still_warm(laid: &Laid, before: &[(PathBuf, std::time::SystemTime)]) -> Outcome<()> {
    if laid.cached()? == before {
        Ok(())
    } else {
        Err("the cache entry changed: some runs were not warm".into())
    }
}

/// Ours with an emptied cache against curl.
fn cold(laid: &Laid) -> Outcome<Pair> {
    let plugin = laid.plugin();
    laid.expect_token(&plugin)?;
    let curl = laid.curl_secret()?;
    if !curl.output()?.contains("\"token\"") {
        return Err("curl does not get the Secret".into());
    }
    pairs(100, &plugin, &curl, || laid.empty_cache(), || Ok(()))
}

#[derive(Default)]
struct Report {
    missed: bool,
}

impl Report {
    fn at_most(&mut self, goal: f64, what: &str, pair: &Pair) -> Outcome<()> {
        self.line(
            what,
            &format!("{:.3}x", pair.ratio()),
            &format!("<= {goal:.3}x"),
            &pair.medians(),
            pair.ratio() <= goal,
        )
    }

    fn faster(&mut self, goal: f64, what: &str, pair: &Pair) -> Outcome<()> {
        let times = 1.0 / pair.ratio();
        self.line(
            what,
            &format!("{times:.1}x faster"),
            &format!(">= {goal}x"),
            &pair.medians(),
            times >= goal,
        )
    }

    fn memory(&mut self, goal: f64, what: &str, ours: &Run, theirs: &Run) -> Outcome<()> {
        let detail = format!("kubectl {:.1} MiB", peak(theirs)?);
        self.size(goal, what, peak(ours)?, &detail)
    }

    /// In MiB.
    fn size(&mut self, goal: f64, what: &str, size: f64, detail: &str) -> Outcome<()> {
        self.line(what, &format!("{size:.1} MiB"), &format!("<= {goal} MiB"), detail, size <= goal)
    }

    fn line(&mut self, what: &str, measured: &str, goal: &str, detail: &str, met: bool) -> Outcome<()> {
        self.missed |= !met;
        let verdict = if met { "ok" } else { "MISSED" };
        writeln!(io::stdout().lock(), "{what}: {measured} (goal {goal}) {verdict}   [{detail}]")
            .map_err(|error| error.to_string())
    }
}

/// Says where everything is, and waits until standard input ends.
fn hold(laid: &Laid) -> Outcome<()> {
    let mut out = io::stdout().lock();
    let said = laid.home.exports().and_then(|exports| {
        writeln!(out, "{exports}").map_err(|error| error.to_string())?;
        out.flush().map_err(|error| error.to_string())
    });
    drop(out);
    said?;
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map(drop).map_err(|error| error.to_string())
}

/// A child that must succeed, its stdout as text.
fn stdout_of(command: &mut Command, what: &Path) -> Outcome<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} cannot be run: {error}", what.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} fails, {}: {said}", what.display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
