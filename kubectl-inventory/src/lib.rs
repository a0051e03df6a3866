//! kubectl-inventory: the plugin that a person types as `kubectl inventory`.

pub mod access;
pub mod cli;
pub mod cmd;
pub mod config;
pub mod foreach;
pub mod hub;
pub mod inventory;
pub mod kubeconfig_file;
pub mod output;
pub mod providers;
pub mod select;
pub mod selector;
pub mod term;
pub mod trust_store;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::Parser;
use clap::error::ErrorKind;
use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};
use credential_exec::hub::Kubeconfig;

use cli::{Cache, Cli, Tunnel, Verb};
use cmd::way_in::WayIn;
use config::Config;

/// Runs one command (its arguments without the program's name) and answers the exit code.
pub fn run(args: &[OsString], env: &Env, stdout_is_terminal: bool, err: &mut dyn Write) -> u8 {
    let program = OsString::from("kubectl inventory");
    let cli = match Cli::try_parse_from(std::iter::once(&program).chain(args)) {
        Ok(cli) => cli,
        Err(e) => {
            let _ = e.print();
            let asked_for = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if asked_for { 0 } else { Kind::Usage.code() };
        }
    };
    let color = cli.global.color.parse::<term::Color>().unwrap_or_default().enabled(env, stdout_is_terminal);
    let mut out = term::Pipe::new(term::stdout(color));
    let result = dispatch(&cli, env, color, &mut out, err)
        .and_then(|code| out.flush().map(|()| code).map_err(term::not_written));
    match result {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(err, "error: {}", credential_exec::error::printable(&error.cause));
            if !error.remedy.is_empty() {
                let _ = writeln!(err, "  try: {}", credential_exec::error::printable(&error.remedy));
            }
            error.kind.code()
        }
    }
}

/// Runs the verb, and answers the exit code.
fn dispatch(cli: &Cli, env: &Env, color: bool, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    match &cli.verb {
        Verb::Foreach(options) => on_each(options, &cli.global, env, color, out, err),
        Verb::Doctor(options) => cmd::doctor::DoctorRun { options, global: &cli.global, env, color }.run(out),
        _ => one_answer(cli, env, color, out, err).map(|()| 0),
    }
}

fn on_each(
    options: &cli::Foreach,
    global: &cli::Global,
    env: &Env,
    color: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8> {
    let config = Config::load(env)?;
    let chosen = hub::choose(global, &config, env)?;
    let way = WayIn::of(&options.access, false, &config, env, &chosen)?;
    let job = cmd::foreach::ForeachRun { options, global, way, color };
    hub::runtime()?.block_on(job.run(out, err)).map_err(|error| at(&chosen.hub.context, error))
}

/// Those verbs that succeed or fail as a whole.
fn one_answer(cli: &Cli, env: &Env, color: bool, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
    let global = &cli.global;
    match &cli.verb {
        Verb::Cache(Cache::Clear { name }) => cmd::cache::clear(name.as_deref(), env, out),
        Verb::Tunnel(Tunnel::List { output }) => cmd::tunnel::list(output.is_some(), env, out, err),
        Verb::Tunnel(Tunnel::Stop { hub, all }) => cmd::tunnel::stop(hub.as_deref(), *all, env, out),
        Verb::ProviderConfig(form) => cmd::provider_config::run(form, global, env, out, err),
        Verb::Completion(options) => cmd::complete::script(options.wanted, out),
        Verb::Complete { words } => cmd::complete::answer(words, env, out),
        Verb::Version => cmd::version::run(env, out),
        Verb::Get(options) => {
            let config = Config::load(env)?;
            let chosen = hub::choose(global, &config, env)?;
            let hub = &chosen.hub;
            hub::runtime()?
                .block_on(async {
                    let client = hub::connect(hub, global, env).await?;
                    let get = cmd::get::GetOptions {
                        names: options.names.clone(),
                        all_namespaces: options.all_namespaces,
                        namespace: global.namespace.clone(),
                        context_namespace: hub.namespace.clone(),
                        config_namespace: config.namespace.clone(),
                        selector: options.selector.clone(),
                        source: options.source,
                        selection: options.selection.selection(),
                        placement: options.selection.placement.clone(),
                        output: options.output.unwrap_or_default(),
                        no_headers: options.no_headers,
                        color,
                        held: chosen.held(),
                    };
                    cmd::get::run(&get, &hub.context, &client, env, out, err).await
                })
                .map_err(|error| at(&hub.context, error))
        }
        Verb::Describe(options) => {
            let config = Config::load(env)?;
            let chosen = hub::choose(global, &config, env)?;
            let way = WayIn::of(&options.access, false, &config, env, &chosen)?;
            let job = cmd::describe::Describe { names: &options.names, source: options.source, global, way };
            hub::runtime()?.block_on(job.run(out)).map_err(|error| at(&chosen.hub.context, error))
        }
        Verb::Use(options) => {
            let config = Config::load(env)?;
            let back = options.name.as_deref() == Some("-");
            let target = kubeconfig_file::target(env, global.kubeconfig.as_deref())?;
            if back {
                let paths = Kubeconfig::paths(env, global.kubeconfig.as_deref());
                return cmd::switch::back(&paths, &target, env.clock(), out);
            }
            let chosen = hub::choose(global, &config, env)?;
            let hub = &chosen.hub;
            let Some(name) = options.name.as_deref() else {
                let paths = Kubeconfig::paths(env, global.kubeconfig.as_deref().map(Path::new));
                return cmd::switch::hub(&hub.context, &paths, &target, env.clock(), out);
            };
            let way = WayIn::of(&options.access, options.trust_server, &config, env, &chosen)?;
            let job = cmd::use_cluster::UseCluster { options, global, way };
            hub::runtime()?.block_on(job.run(name, out, err)).map_err(|error| at(&hub.context, error))
        }
        Verb::Sync(options) => {
            let config = Config::load(env)?;
            let chosen = hub::choose(global, &config, env)?;
            let way = WayIn::of(&options.access, false, &config, env, &chosen)?;
            let mut job = cmd::sync::SyncRun { options, global, way };
            hub::runtime()?.block_on(job.run(out, err)).map_err(|error| at(&chosen.hub.context, error))
        }
        Verb::Env(options) => {
            let Some(name) = options.name.as_deref() else {
                return cmd::env::unset(options.shell, env, out);
            };
            let config = Config::load(env)?;
            let chosen = hub::choose(global, &config, env)?;
            let way = WayIn::of(&options.access, false, &config, env, &chosen)?;
            let on_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
            let job = cmd::env::EnvRun { options, global, way, on_terminal };
            hub::runtime()?.block_on(job.run(name, out, err)).map_err(|error| at(&chosen.hub.context, error))
        }
        Verb::Kubeconfig(options) => {
            let config = Config::load(env)?;
            let chosen = hub::choose(global, &config, env)?;
            let way = WayIn::of(&options.access, false, &config, env, &chosen)?;
            let job = cmd::kubeconfig::KubeconfigRun { options, global, way };
            hub::runtime()?.block_on(job.run(out, err)).map_err(|error| at(&chosen.hub.context, error))
        }
        Verb::Foreach(_) | Verb::Doctor(_) => unreachable!("they were run before"),
    }
}

/// An error of the network says which hub was not reached; one of the hub's own answers does not
/// need it.
fn at(hub: &str, error: Error) -> Error {
    match error.kind {
        Kind::Unreachable if !error.cause.starts_with("hub context ") => {
            error.context(format_args!("hub context {hub}"))
        }
        _ => error,
    }
}
