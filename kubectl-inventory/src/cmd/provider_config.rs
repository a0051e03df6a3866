//! `provider-config FORM`: what other programs are configured with, so that credential-exec is their plugin.

use std::collections::BTreeSet;
use std::io::Write;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::Client;
use serde_json::Value;

use super::list::Scope;
use super::member::Member;
use super::question::some_of;
use super::selection::choose;
use crate::access::consumer::{self, Plugin, Reached};
use crate::access::{BUILT_IN, Providers};
use crate::cli::{ConsumerForm, Consumers, Global, PodPlugin};
use crate::config::Config;
use crate::hub::{self, Chosen};
use crate::inventory::{ClusterProfile, Origin};
use crate::output::document::{self, Syntax};
use crate::providers;
use crate::term::not_written;

/// Prints the form that was asked for.
///
/// # Errors
/// Those of the hub, where the form is for clusters; of clusters that have no way in for the consumer.
pub fn run(
    form: &ConsumerForm,
    global: &Global,
    env: &Env,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<()> {
    let (consumers, argocd) = match form {
        ConsumerForm::File(plugin) => return print(Syntax::Json, &[of(plugin).provider_file()], out),
        ConsumerForm::Multikueue(plugin) => return print(Syntax::Yaml, &[of(plugin).multikueue()], out),
        ConsumerForm::Argocd(argocd) => (&argocd.consumers, Some(argocd.argocd_namespace.as_str())),
        ConsumerForm::Kubeconfig(consumers) => (consumers, None),
    };
    let config = Config::load(env)?;
    let chosen = hub::choose(global, &config, env)?;
    let profiles = hub::runtime()?.block_on(async {
        let client = hub::connect(&chosen.hub, global, env).await?;
        profiles(consumers, global, &config, &chosen, &client, err).await
    })?;
    let clusters = reached(consumers, argocd.is_none(), &config, env, &profiles, err)?;
    match argocd {
        None => print(Syntax::Yaml, &[consumer::kubeconfig(&clusters)], out),
        Some(namespace) => {
            let secrets: Vec<_> = clusters
                .iter()
                .map(|(profile, reached)| consumer::argocd_secret(profile, reached, namespace))
                .collect();
            print(Syntax::Yaml, &secrets, out)
        }
    }
}

fn of(plugin: &PodPlugin) -> Plugin<'_> {
    Plugin { command: &plugin.exec_command, account: plugin.managed_serviceaccount.as_deref() }
}

/// The profiles that are meant: at least one, and no two of one name.
async fn profiles(
    consumers: &Consumers,
    global: &Global,
    config: &Config,
    chosen: &Chosen,
    client: &Client,
    err: &mut dyn Write,
) -> Result<Vec<ClusterProfile>> {
    let hub = &chosen.hub;
    let scope = Scope::new(
        global.namespace.as_deref(),
        consumers.clusters.all_namespaces,
        hub.namespace.as_deref(),
        config.namespace.as_deref(),
    );
    let of = Some(Origin::ClusterProfile);
    let found = choose(client, &hub.context, &scope, &consumers.clusters, of, err).await?;
    let profiles: Vec<ClusterProfile> = found
        .members
        .into_iter()
        .filter_map(|member| match member {
            Member::Profile(profile) => Some(*profile),
            Member::Managed(_) | Member::Capi(_) => None,
        })
        .collect();
    let mut names = BTreeSet::new();
    let twice = profiles.iter().find(|profile| !names.insert(&profile.metadata.name));
    if let Some(profile) = twice {
        let cause = format!("{} is the name of several profiles", printable(&profile.metadata.name));
        return Err(Error::new(Kind::Usage, cause).remedy("choose a namespace with -n"));
    }
    Ok(profiles)
}

/// The way into each of them.
fn reached<'a>(
    consumers: &Consumers,
    told: bool,
    config: &Config,
    env: &Env,
    profiles: &'a [ClusterProfile],
    err: &mut dyn Write,
) -> Result<Vec<(&'a ClusterProfile, Reached)>> {
    let path = consumers.clusterprofile_provider_file.as_deref();
    let file = providers::load(path, config, env)?;
    let providers = Providers { file: &file, built_in: BUILT_IN };
    let (mut clusters, mut without) = (Vec::new(), Vec::new());
    for profile in profiles {
        let way =
            consumer::reach(profile, &providers, consumers.provider.as_deref(), &of(&consumers.plugin), told);
        match way {
            Ok(reached) => {
                for note in &reached.notes {
                    let _ = writeln!(err, "{}", printable(note));
                }
                clusters.push((profile, reached));
            }
            Err(error) => without.push((profile.metadata.name.clone(), error)),
        }
    }
    match without.first() {
        None => Ok(clusters),
        Some((_, first)) if profiles.len() == 1 => Err(first.clone()),
        Some((_, first)) => {
            let names: Vec<_> = without.iter().map(|(name, _)| name.clone()).collect();
            Err(first.clone().context(format_args!("{} cannot be configured", some_of(&names))))
        }
    }
}

fn print(syntax: Syntax, objects: &[Value], out: &mut dyn Write) -> Result<()> {
    document::several(syntax, objects, out).map_err(not_written)
}
