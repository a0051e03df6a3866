//! Every flag and every line of help. No I/O.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use credential_exec::protocol::ApiVersion;

use crate::access::reach::Reach;
use crate::cmd::env::Shell;
use crate::foreach::print::Form;
use crate::inventory::Origin;
use crate::output::Format;
use crate::select::{self, Selection};
use crate::term::Color;
use semver::VersionReq;

/// Use the inventory of clusters that a hub keeps: list it, and turn each cluster into a context.
#[derive(Parser, Debug)]
#[command(name = "kubectl inventory", bin_name = "kubectl inventory", version, disable_version_flag = true)]
pub struct Cli {
    /// Flags that act on the hub
    #[command(flatten)]
    pub global: Global,
    /// The verb
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags that act on the hub as they do in kubectl.
#[derive(Args, Debug, Clone, Default)]
pub struct Global {
    /// Kubeconfig file to use instead of $KUBECONFIG and ~/.kube/config
    #[arg(long, global = true, value_name = "FILE", help_heading = "Hub")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the hub (default: $KUBECTL_INVENTORY_HUB, the config file's `hub`, or the current context and its hub)
    #[arg(long, global = true, value_name = "NAME", help_heading = "Hub")]
    pub context: Option<String>,
    /// Namespace of the ClusterProfiles (default: the hub context's, the config file's, or all)
    #[arg(short, long, global = true, value_name = "NAME", help_heading = "Hub")]
    pub namespace: Option<String>,
    /// User to impersonate at the hub
    #[arg(long = "as", global = true, value_name = "USER", help_heading = "Hub")]
    pub as_user: Option<String>,
    /// Group to impersonate at the hub; may be given several times
    #[arg(long, global = true, value_name = "GROUP", help_heading = "Hub")]
    pub as_group: Vec<String>,
    /// UID to impersonate at the hub
    #[arg(long, global = true, value_name = "UID", help_heading = "Hub")]
    pub as_uid: Option<String>,
    /// How long one answer of the hub may take, such as 30s or 2m; 0 means 1 hour
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Hub")]
    pub request_timeout: Duration,
    /// When to colour the output
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_parser = clap::builder::PossibleValuesParser::new(Color::CHOICES))]
    pub color: String,
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// List the clusters of the inventory
    Get(Get),
    /// Show everything known about a cluster, and which ways into it can be used here
    Describe(Describe),
    /// Make a kubeconfig context for a cluster and switch to it
    Use(Use),
    /// Make a context for every cluster, or for those that are chosen
    Sync(Sync),
    /// Print shell code that points this shell at one cluster
    Env(EnvCluster),
    /// Print a kubeconfig for clusters, without any credential in it
    Kubeconfig(KubeconfigOf),
    /// Run one command on many clusters
    Foreach(Foreach),
    /// Look at each link from here to the hub, and to a cluster: which is broken, and what to do
    Doctor(Doctor),
    /// Print what other programs on the hub are configured with, so that credential-exec is their plugin
    #[command(subcommand)]
    ProviderConfig(ConsumerForm),
    /// Look after the tokens kept on this machine
    #[command(subcommand)]
    Cache(Cache),
    /// Look after the tunnels that lead to addresses within hubs
    #[command(subcommand)]
    Tunnel(Tunnel),
    /// Show the versions and paths of both binaries
    Version,
    /// Print completion for a shell, or for kubectl itself
    Completion(Completion),
    /// What kubectl asks for completion
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete {
        /// The words so far
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// `get`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  kubectl inventory get
  kubectl inventory get -A -l multicluster.x-k8s.io/clusterset=prod
  kubectl inventory get --healthy --version '>=1.33' --property region=eu
  kubectl inventory get --placement team-a/web
  kubectl inventory get --source capi
  kubectl inventory get cluster1 -o yaml")]
pub struct Get {
    /// Clusters to show, as NAME or NAMESPACE/NAME (default: all)
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Look in all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only clusters with these labels, such as env=prod,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Which of them
    #[command(flatten)]
    pub selection: Selecting,
    /// Kind of inventory: clusterprofile, managedcluster or capi (default: the first of these that the hub
    /// serves)
    #[arg(long, value_name = "KIND", value_parser = origin)]
    pub source: Option<Origin>,
    /// Output format: wide, json, yaml or name
    #[arg(short, long, value_name = "FORMAT", value_parser = format)]
    pub output: Option<Format>,
    /// Leave the header line out
    #[arg(long)]
    pub no_headers: bool,
}

/// Flags that choose clusters by what is known of them; all must hold.
#[derive(Args, Debug, Default)]
pub struct Selecting {
    /// Only clusters of this set
    #[arg(long, value_name = "NAME")]
    pub clusterset: Option<String>,
    /// Only clusters with this property, such as region=eu; may be given several times
    #[arg(long = "property", value_name = "NAME[=VALUE]", value_parser = select::property)]
    pub properties: Vec<(String, Option<String>)>,
    /// Only clusters that are healthy (available, ready)
    #[arg(long)]
    pub healthy: bool,
    /// Only clusters with such a Kubernetes version, for example '>=1.33'
    #[arg(long = "version", value_name = "RANGE", value_parser = select::versions)]
    pub kubernetes: Option<VersionReq>,
    /// Only the clusters that a scheduler chose for this placement, as NAME or NAMESPACE/NAME, in its order
    #[arg(long, value_name = "NAME", value_parser = select::placement)]
    pub placement: Option<String>,
}

impl Selecting {
    /// The selection that they say, without what the hub says of the placement.
    pub fn selection(&self) -> Selection {
        Selection {
            clusterset: self.clusterset.clone(),
            properties: self.properties.clone(),
            healthy: self.healthy,
            version: self.kubernetes.clone(),
            placed: None,
        }
    }
}

/// `describe`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  kubectl inventory describe cluster1
  kubectl inventory describe team-a/cluster1 --clusterprofile-provider-file providers.json")]
pub struct Describe {
    /// The clusters, as NAME or NAMESPACE/NAME
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Kind of inventory: clusterprofile, managedcluster or capi (default: the first of these that the hub
    /// serves)
    #[arg(long, value_name = "KIND", value_parser = origin)]
    pub source: Option<Origin>,
    /// Which of the ways in is looked at
    #[command(flatten)]
    pub access: Access,
}

/// `use`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  kubectl inventory use cluster1       then: kubectl get pods
  kubectl inventory use team-a/cluster1
  kubectl inventory use -              back to the context before
  kubectl inventory use --hub          to the hub of the current cluster
  kubectl inventory use cluster1 -o -  print the kubeconfig instead")]
pub struct Use {
    /// The cluster, as NAME or NAMESPACE/NAME; `-` goes back to the context before
    #[arg(value_name = "NAME", required_unless_present = "hub")]
    pub name: Option<String>,
    /// Switch to the hub itself
    #[arg(long, conflicts_with = "name")]
    pub hub: bool,
    /// Which of the published ways in is taken
    #[command(flatten)]
    pub access: Access,
    /// Kind of inventory: clusterprofile, managedcluster or capi (default: the first of these that the hub
    /// serves)
    #[arg(long, value_name = "KIND", value_parser = origin)]
    pub source: Option<Origin>,
    /// Hand this cluster's token to the server that its profile names, though it is not OCM's own
    #[arg(long)]
    pub trust_server: bool,
    /// Write the context but do not switch to it
    #[arg(long)]
    pub no_switch: bool,
    /// Have the token fetched from the hub each time, and kept nowhere
    #[arg(long)]
    pub no_cache: bool,
    /// Write to this file instead of the kubeconfig; `-` prints
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Version of the exec protocol to write: v1, or v1beta1 for kubectl before 1.22
    #[arg(long, value_name = "VERSION", default_value = "v1", value_parser = api_version)]
    pub exec_api_version: ApiVersion,
    /// Path of credential-exec to write (default: the one beside this binary)
    #[arg(long, value_name = "PATH")]
    pub exec_command: Option<PathBuf>,
    /// Name of the context to write
    #[arg(long, value_name = "NAME")]
    pub context_name: Option<String>,
    /// Overwrite entries of the same name that are not ours
    #[arg(long)]
    pub force: bool,
}

/// Which clusters a verb is about.
#[derive(Args, Debug, Default)]
pub struct Clusters {
    /// The clusters, as NAME or NAMESPACE/NAME (default: all)
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Look in all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only clusters with these labels, such as env=prod,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    pub selector: Option<String>,
    /// Which of them
    #[command(flatten)]
    pub selection: Selecting,
}

/// `foreach`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  kubectl inventory foreach -- get nodes
  kubectl inventory foreach -l env=test --output group -- rollout restart deployment/web
  kubectl inventory foreach --healthy -P 16 --output json -- get --raw /version
  kubectl inventory foreach cluster1 cluster2 -- apply -f - < web.yaml
  kubectl inventory foreach --command -- helm list -A

The exit code is 0 when all succeed, that of the failures where they agree, else 1.")]
pub struct Foreach {
    /// Which clusters
    #[command(flatten)]
    pub clusters: Clusters,
    /// What kubectl is given on each cluster
    #[arg(last = true, required = true, value_name = "ARGS")]
    pub args: Vec<String>,
    /// ARGS are a program and its own arguments; $KUBECONFIG leads it to the cluster
    #[arg(long)]
    pub command: bool,
    /// Kind of inventory: clusterprofile, managedcluster or capi (default: the first of these that the hub
    /// serves)
    #[arg(long, value_name = "KIND", value_parser = origin)]
    pub source: Option<Origin>,
    /// How many run at once (default: four for each processor; fewer when a server says it is too much)
    #[arg(short = 'P', long, value_name = "N", value_parser = at_least_one)]
    pub parallel: Option<usize>,
    /// How outputs are shown: prefix, group, json or raw
    #[arg(long, value_name = "FORM", default_value = "prefix", value_parser = form)]
    pub output: Form,
    /// Show the clusters in the order of the inventory, each when it is its turn
    #[arg(long)]
    pub in_order: bool,
    /// End all when one fails
    #[arg(long)]
    pub fail_fast: bool,
    /// How long the command may take on one cluster, such as 30s or 2m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,
    /// Only say what would run where
    #[arg(long)]
    pub dry_run: bool,
    /// Change protected clusters without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Which of the published ways in is taken
    #[command(flatten)]
    pub access: Access,
}

/// `env`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  eval \"$(kubectl inventory env cluster1)\"     in bash and zsh; also in direnv's .envrc
  kubectl inventory env cluster1 | source       in fish
  eval \"$(kubectl inventory env --unset)\"      back to the usual kubeconfig")]
pub struct EnvCluster {
    /// The cluster, as NAME or NAMESPACE/NAME
    #[arg(value_name = "NAME", required_unless_present = "unset")]
    pub name: Option<String>,
    /// Take KUBECONFIG away again
    #[arg(long, conflicts_with = "name")]
    pub unset: bool,
    /// The shell: bash, zsh, sh, fish or powershell (default: that of $SHELL)
    #[arg(long, value_name = "SHELL", value_parser = shell)]
    pub shell: Option<Shell>,
    /// Kind of inventory: clusterprofile, managedcluster or capi (default: the first of these that the hub
    /// serves)
    #[arg(long, value_name = "KIND", value_parser = origin)]
    pub source: Option<Origin>,
    /// Path of credential-exec to write (default: the one beside this binary)
    #[arg(long, value_name = "PATH")]
    pub exec_command: Option<PathBuf>,
    /// Which of the published ways in is taken
    #[command(flatten)]
    pub access: Access,
}

/// `kubeconfig`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  kubectl inventory kubeconfig cluster1 > cluster1.yaml
  kubectl inventory kubeconfig -l env=test --shareable > test.yaml")]
pub struct KubeconfigOf {
    /// Which clusters
    #[command(flatten)]
    pub clusters: Clusters,
    /// Kind of inventory: clusterprofile, managedcluster or capi (default: the first of these that the hub
    /// serves)
    #[arg(long, value_name = "KIND", value_parser = origin)]
    pub source: Option<Origin>,
    /// For other machines too: credential-exec is looked for on PATH, and the hub by its server and CA
    #[arg(long, conflicts_with = "exec_command")]
    pub shareable: bool,
    /// Path of credential-exec to write (default: the one beside this binary)
    #[arg(long, value_name = "PATH")]
    pub exec_command: Option<PathBuf>,
    /// Which of the published ways in is taken
    #[command(flatten)]
    pub access: Access,
}

/// `doctor`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  kubectl inventory doctor
  kubectl inventory doctor cluster1 -o json

The exit code is that of the first broken link.")]
pub struct Doctor {
    /// The cluster, as NAME or NAMESPACE/NAME (default: only what is before it)
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Output format: json
    #[arg(short, long, value_name = "FORMAT", value_parser = ["json"])]
    pub output: Option<String>,
    /// Kind of inventory: clusterprofile, managedcluster or capi (default: the first of these that the hub
    /// serves)
    #[arg(long, value_name = "KIND", value_parser = origin)]
    pub source: Option<Origin>,
    /// Which of the published ways in is looked at
    #[command(flatten)]
    pub access: Access,
}

/// `sync`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  kubectl inventory sync -l env=test
  kubectl inventory sync --prune
  kubectl inventory sync --watch")]
pub struct Sync {
    /// Which clusters
    #[command(flatten)]
    pub clusters: Clusters,
    /// Kind of inventory: clusterprofile, managedcluster or capi (default: the first of these that the hub
    /// serves)
    #[arg(long, value_name = "KIND", value_parser = origin)]
    pub source: Option<Origin>,
    /// Remove our contexts of clusters that the hub no longer has
    #[arg(long)]
    pub prune: bool,
    /// Update contexts whose server or CA has changed, too
    #[arg(long)]
    pub accept_changed: bool,
    /// Write more than 500 contexts without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Go on, and sync again whenever the hub's inventory changes
    #[arg(short, long)]
    pub watch: bool,
    /// Path of credential-exec to write (default: the one beside this binary)
    #[arg(long, value_name = "PATH")]
    pub exec_command: Option<PathBuf>,
    /// Which of the published ways in is taken
    #[command(flatten)]
    pub access: Access,
}

/// Flags that say which of the published ways into a cluster is taken.
#[derive(Args, Debug, Default)]
pub struct Access {
    /// File of access providers and their plugins, as other consumers of the Cluster Inventory API read it
    /// (default: $KUBECTL_INVENTORY_PROVIDER_FILE, or the config file's `providerFile`)
    #[arg(long, value_name = "FILE")]
    pub clusterprofile_provider_file: Option<PathBuf>,
    /// Access provider to use (default: the first of the provider file that the profile publishes, then
    /// what is built in)
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// ManagedServiceAccount to be at the cluster (default: the only one there is)
    #[arg(long, visible_aliases = ["service-account", "sa"], value_name = "NAME")]
    pub managed_serviceaccount: Option<String>,
    /// Be at the cluster who you are at the hub, through OCM's cluster-proxy: its agent there sees your token
    /// for the hub
    #[arg(long, conflicts_with_all = ["managed_serviceaccount", "provider"])]
    pub hub_identity: bool,
    /// How to reach the published address: directly, through a tunnel over the hub, or auto:
    /// directly where that leads to the published server, else through a tunnel
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = reach)]
    pub reach: Reach,
    /// Accept a profile that asks to skip the check of the server's certificate
    #[arg(long)]
    pub allow_insecure: bool,
}

/// `provider-config`
#[derive(Subcommand, Debug)]
pub enum ConsumerForm {
    /// The file of access providers that consumers of the Cluster Inventory API read
    /// (--clusterprofile-provider-file)
    File(PodPlugin),
    /// The part of Kueue's configuration that lets MultiKueue use ClusterProfiles
    Multikueue(PodPlugin),
    /// Argo CD's cluster Secrets; without any credential in them
    #[command(after_help = "Examples:
  kubectl inventory provider-config argocd cluster1 --managed-serviceaccount argocd | kubectl apply -f -
  kubectl inventory provider-config argocd -l env=prod --managed-serviceaccount argocd")]
    Argocd(ArgoCd),
    /// A kubeconfig for a Pod on the hub, for whatever takes one
    Kubeconfig(Consumers),
}

/// credential-exec in another program's Pod.
#[derive(Args, Debug)]
pub struct PodPlugin {
    /// ManagedServiceAccount to be at the clusters
    #[arg(long, visible_aliases = ["service-account", "sa"], value_name = "NAME")]
    pub managed_serviceaccount: Option<String>,
    /// Path of credential-exec in the Pod
    #[arg(long, value_name = "PATH", default_value = "/plugins/credential-exec")]
    pub exec_command: String,
}

/// Clusters that another program is to know.
#[derive(Args, Debug)]
pub struct Consumers {
    /// Which clusters
    #[command(flatten)]
    pub clusters: Clusters,
    /// File of access providers and their plugins; paths in it are those of the Pod
    #[arg(long, value_name = "FILE")]
    pub clusterprofile_provider_file: Option<PathBuf>,
    /// Access provider to use (default: the first of the provider file that the profile publishes, then
    /// what is built in)
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// What logs in where no plugin of the file does
    #[command(flatten)]
    pub plugin: PodPlugin,
}

/// `provider-config argocd`
#[derive(Args, Debug)]
pub struct ArgoCd {
    /// Which clusters
    #[command(flatten)]
    pub consumers: Consumers,
    /// Namespace of Argo CD
    #[arg(long, value_name = "NAME", default_value = "argocd")]
    pub argocd_namespace: String,
}

/// `cache`
#[derive(Subcommand, Debug)]
pub enum Cache {
    /// Remove the tokens kept for one cluster, or for all
    Clear {
        /// The cluster, as NAME or NAMESPACE/NAME
        name: Option<String>,
    },
}

/// `completion`
#[derive(Args, Debug)]
#[command(
    after_help = "kubectl completes `kubectl inventory` itself, with the names of your clusters, once this is on PATH:

  kubectl inventory completion kubectl > ~/.local/bin/kubectl_complete-inventory && chmod +x ~/.local/bin/kubectl_complete-inventory

For the program by its own name, in bash: source <(kubectl inventory completion bash)"
)]
pub struct Completion {
    /// What for
    #[arg(value_name = "FOR")]
    pub wanted: CompletionFor,
}

/// What completion is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CompletionFor {
    /// The program kubectl_complete-inventory, which kubectl's own completion runs
    Kubectl,
    /// bash, for kubectl-inventory
    Bash,
    /// zsh, for kubectl-inventory
    Zsh,
    /// fish, for kubectl-inventory
    Fish,
    /// PowerShell, for kubectl-inventory
    Powershell,
}

impl CompletionFor {
    /// The shell; none for kubectl.
    pub fn shell(self) -> Option<clap_complete::Shell> {
        match self {
            Self::Kubectl => None,
            Self::Bash => Some(clap_complete::Shell::Bash),
            Self::Zsh => Some(clap_complete::Shell::Zsh),
            Self::Fish => Some(clap_complete::Shell::Fish),
            Self::Powershell => Some(clap_complete::Shell::PowerShell),
        }
    }
}

/// `tunnel`
#[derive(Subcommand, Debug)]
pub enum Tunnel {
    /// Show the tunnels that run on this machine
    List {
        /// Output format: json
        #[arg(short, long, value_name = "FORMAT", value_parser = ["json"])]
        output: Option<String>,
    },
    /// End a tunnel; the next kubectl that needs it starts it again
    Stop {
        /// The hub, by context or server (default: the only one)
        hub: Option<String>,
        /// End all of them
        #[arg(long, conflicts_with = "hub")]
        all: bool,
    },
}

fn origin(text: &str) -> Result<Origin, String> {
    text.parse()
}

fn reach(text: &str) -> Result<Reach, String> {
    text.parse()
}

fn format(text: &str) -> Result<Format, String> {
    text.parse()
}

fn shell(text: &str) -> Result<Shell, String> {
    text.parse()
}

fn form(text: &str) -> Result<Form, String> {
    text.parse()
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("{text:?} is no number of at least 1"))
}

fn api_version(text: &str) -> Result<ApiVersion, String> {
    ApiVersion::parse(text).ok_or_else(|| format!("{text:?} is neither v1 nor v1beta1"))
}

/// kubectl's spelling of a duration: a number of seconds, or numbers with units.
fn time(text: &str) -> Result<Duration, String> {
    let parsed = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => text
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|d| Duration::try_from(d).ok())
            .ok_or_else(|| format!("{text:?} is not a duration such as 30s or 2m"))?,
    };
    Ok(if parsed.is_zero() { Duration::from_secs(3600) } else { parsed.min(Duration::from_secs(86_400)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
        let _: Cli = Cli::try_parse_from(["kubectl inventory", "get"]).unwrap();
    }

    #[test]
    fn both_spellings_of_the_exec_version_are_taken_and_nothing_else() {
        let version = |v: &str| match Cli::try_parse_from(["x", "use", "c", "--exec-api-version", v])?.verb {
            Verb::Use(parsed) => Ok::<_, clap::Error>(parsed.exec_api_version),
            other => panic!("{other:?}"),
        };
        assert_eq!(version("v1").unwrap(), ApiVersion::V1);
        assert_eq!(version("client.authentication.k8s.io/v1beta1").unwrap(), ApiVersion::V1Beta1);
        for bad in ["v1alpha1", "", "v2", "client.authentication.k8s.io/v1alpha1", "apps/v1"] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_timeout_is_spelled_as_in_kubectl() {
        for (text, seconds) in [("5", 5), ("5s", 5), ("2m", 120), ("1m30s", 90), ("0", 3600), ("0s", 3600)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert!(time("soon").is_err() && time("-1s").is_err());
    }
}
