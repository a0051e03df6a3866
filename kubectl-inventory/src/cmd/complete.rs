//! Completion: scripts for shells, and what kubectl asks for `kubectl inventory <TAB>`. The latter is fast, never
//! asks a person, and says nothing rather than something wrong.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory as _};
use credential_exec::env::Env;
use credential_exec::error::{Result, printable};
use credential_exec::hub::client::Options;
use credential_exec::hub::identity::Mode;
use credential_exec::hub::{Client, Kubeconfig};
use serde_json::value::RawValue;

use super::detect;
use super::list::{Query, Scope, list};
use crate::cli::{Cli, CompletionFor, Global};
use crate::config::Config;
use crate::hub;
use crate::inventory::Origin;
use crate::inventory::cluster_profile::Summary;
use crate::term::not_written;

/// How long a person waits for names at most.
const LIMIT: Duration = Duration::from_millis(700);

/// kubectl's completion runs this program by its name, and lets it answer in cobra's form.
const FOR_KUBECTL: &str = "#!/bin/sh\n# Completion of `kubectl inventory`: kubectl looks for this program on PATH.\nexec kubectl-inventory __complete \"$@\"\n";

/// Prints the script for a shell, or the program that kubectl asks.
///
/// # Errors
/// An output that cannot be written.
pub fn script(wanted: CompletionFor, out: &mut dyn Write) -> Result<()> {
    let text = match wanted.shell() {
        None => FOR_KUBECTL.as_bytes().to_vec(),
        Some(shell) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "kubectl-inventory", &mut text);
            text
        }
    };
    out.write_all(&text).map_err(not_written)
}

/// Prints what may stand for the last of these words, one a line, and cobra's directive 4: no files.
///
/// # Errors
/// An output that cannot be written; nothing else is one.
pub fn answer(words: &[String], env: &Env, out: &mut dyn Write) -> Result<()> {
    let mut command = Cli::command();
    command.build();
    let (last, before) =
        words.split_last().map_or(("", [].as_slice()), |(last, before)| (last.as_str(), before));
    for (value, about) in candidates(&command, before, last, env) {
        let about = about.lines().next().unwrap_or_default();
        let separator = if about.is_empty() { "" } else { "\t" };
        writeln!(out, "{}{separator}{about}", printable(&value)).map_err(not_written)?;
    }
    writeln!(out, ":4").map_err(not_written)
}

fn candidates(command: &Command, before: &[String], last: &str, env: &Env) -> Vec<(String, String)> {
    let mut command = command;
    let mut words = before.iter();
    let mut flags: BTreeMap<String, String> = BTreeMap::new();
    let mut wanted: Option<&Arg> = None;
    while let Some(word) = words.next() {
        if word == "--" {
            return Vec::new();
        }
        if let Some(arg) = flag(command, word) {
            if takes_value(arg) && !word.contains('=') {
                match words.next() {
                    Some(value) => drop(flags.insert(arg.get_id().to_string(), value.clone())),
                    None => wanted = Some(arg),
                }
            } else if let Some((_, value)) = word.split_once('=') {
                flags.insert(arg.get_id().to_string(), value.to_owned());
            }
        } else if let Some(inner) = command.find_subcommand(word) {
            command = inner;
        }
    }
    let (wanted, before_value, partial) = match last.split_once('=').filter(|_| last.starts_with("--")) {
        Some((name, partial)) if wanted.is_none() => (flag(command, name), format!("{name}="), partial),
        _ => (wanted, String::new(), last),
    };
    let found = match wanted {
        Some(arg) => values(command, arg, &flags, env),
        None if partial.starts_with('-') && !partial.is_empty() => long_flags(command),
        None if command.has_subcommands() => verbs(command),
        None => names(command, &flags, env),
    };
    found
        .into_iter()
        .filter(|(value, _)| value.starts_with(partial))
        .map(|(value, about)| (format!("{before_value}{value}"), about))
        .collect()
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or(word);
    command.get_arguments().find(|arg| {
        let long = name.strip_prefix("--");
        let longs = arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default());
        let short = name.strip_prefix('-').filter(|short| short.len() == 1);
        long.is_some_and(|long| longs.into_iter().any(|known| known == long))
            || short.is_some_and(|short| arg.get_short().is_some_and(|known| short.starts_with(known)))
    })
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn verbs(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    shown.map(|inner| (inner.get_name().to_owned(), about(inner.get_about()))).collect()
}

fn long_flags(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), about(arg.get_help())))).collect()
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// The values that a flag may have.
fn values(
    command: &Command,
    arg: &Arg,
    flags: &BTreeMap<String, String>,
    env: &Env,
) -> Vec<(String, String)> {
    let of = |choices: &[&str]| choices.iter().map(|choice| ((*choice).to_owned(), String::new())).collect();
    match (command.get_name(), arg.get_id().as_str()) {
        (_, "source") => of(&Origin::CHOICES),
        ("get", "output") => of(&["wide", "json", "yaml", "name", "jsonpath=", "custom-columns="]),
        ("foreach", "output") => of(&crate::foreach::print::Form::CHOICES),
        (_, "reach") => of(&["auto", "direct", "tunnel"]),
        ("env", "shell") => of(&["bash", "zsh", "sh", "fish", "powershell"]),
        (_, "exec_api_version") => of(&["v1", "v1beta1"]),
        (_, "context") => {
            let paths = Kubeconfig::paths(env, flags.get("kubeconfig").map(AsRef::as_ref));
            let contexts = Kubeconfig::load(&paths)
                .map(|config| config.contexts().map(|name| (name.to_owned(), String::new())).collect());
            contexts.unwrap_or_default()
        }
        _ => arg
            .get_possible_values()
            .iter()
            .map(|value| (value.get_name().to_owned(), String::new()))
            .collect(),
    }
}

/// The clusters of the hub, where the verb wants one; nothing where the hub does not answer at once.
fn names(command: &Command, flags: &BTreeMap<String, String>, env: &Env) -> Vec<(String, String)> {
    if !command.get_positionals().any(|arg| matches!(arg.get_id().as_str(), "name" | "names")) {
        return Vec::new();
    }
    let asked = async { tokio::time::timeout(LIMIT, live(flags, env)).await.ok()?.ok() };
    let found = hub::runtime().ok().and_then(|runtime| runtime.block_on(asked)).unwrap_or_default();
    found.into_iter().map(|name| (name, String::new())).collect()
}

async fn live(flags: &BTreeMap<String, String>, env: &Env) -> Result<Vec<String>> {
    let text = |id: &str| flags.get(id).cloned();
    let global = Global {
        kubeconfig: text("kubeconfig").map(Into::into),
        context: text("context"),
        namespace: text("namespace"),
        as_user: text("as_user"),
        request_timeout: LIMIT,
        ..Global::default()
    };
    let config = Config::load(env)?;
    let chosen = hub::choose(&global, &config, env)?;
    let options = Options { deadline: LIMIT, mode: Mode::Background, gzip: true, ..Options::default() };
    let client = Client::connect(&chosen.hub, env, options).await?;
    let context = &chosen.hub.context;
    let scope = Scope::new(
        global.namespace.as_deref(),
        false,
        chosen.hub.namespace.as_deref(),
        config.namespace.as_deref(),
    );
    let wanted = text("source").and_then(|source| source.parse().ok());
    let of = detect::first(&client, wanted).await?;
    match listed(&client, context, &scope, of).await {
        Err(error) => {
            let of = detect::instead(&client, wanted, of, error).await?;
            listed(&client, context, &scope, of).await
        }
        found => found,
    }
}

/// Each name once; with its namespace where several have it.
async fn listed(client: &Client, hub: &str, scope: &Scope, of: Origin) -> Result<Vec<String>> {
    let query = Query { metadata_only: true, ..Query::all(of.api()) };
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    list(client, hub, scope, &query, |page: Vec<Box<RawValue>>| {
        for object in page {
            if let Ok(Summary { metadata, .. }) = serde_json::from_str(object.get()) {
                places.entry(metadata.name).or_default().push(metadata.namespace);
            }
        }
        Ok(())
    })
    .await?;
    let names = places.into_iter().flat_map(|(name, namespaces)| match namespaces.len() {
        1 => vec![name],
        _ => namespaces.into_iter().map(|namespace| format!("{namespace}/{name}")).collect(),
    });
    Ok(names.collect())
}
