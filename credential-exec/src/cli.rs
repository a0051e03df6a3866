//! The command line of credential-exec: the request that `kubectl inventory use` wrote, or the
//! flags of OCM's own exec plugin, for which this binary can stand in.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;

use crate::error::{Error, Kind, Result};
use crate::request::{
    CredentialRequest, DEFAULT_IDLE, DEFAULT_MAX_AGE, DEFAULT_TIMEOUT, HubPin, Impersonate, ProfileRef,
    SecretKey, Source, Spoke, Tunnel, VERSION,
};

/// Exec credential plugin: prints the token of a spoke cluster, fetched from its hub.
///
/// kubectl runs it; `kubectl inventory use CLUSTER` writes its arguments. With
/// --managed-serviceaccount alone it does the work of Open Cluster Management's own plugin, and without any
/// flag that of the Cluster Inventory API's secretreader and kubeconfig-secretreader.
#[derive(Parser, Debug)]
#[command(name = "credential-exec", version)]
struct Flags {
    /// Version of the request that the other flags make up, as `kubectl inventory use` writes it
    #[arg(long)]
    request: Option<String>,
    /// Kubeconfig file that leads to the hub; may be given several times
    #[arg(long, value_name = "FILE")]
    kubeconfig: Vec<PathBuf>,
    /// Context of the hub
    #[arg(long)]
    context: Option<String>,
    /// Server URL that the hub must have
    #[arg(long, value_name = "URL")]
    hub_server: Option<String>,
    /// SHA-256 of the CA that the hub must have
    #[arg(long, value_name = "SHA256")]
    hub_ca: Option<String>,
    /// User to impersonate at the hub
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,
    /// Group to impersonate at the hub; may be given several times
    #[arg(long, value_name = "GROUP")]
    as_group: Vec<String>,
    /// UID to impersonate at the hub
    #[arg(long, value_name = "UID")]
    as_uid: Option<String>,
    /// Namespace of the ClusterProfile (default: $NAMESPACE, the Pod's, or the context's)
    #[arg(long)]
    namespace: Option<String>,
    /// Name of the ClusterProfile
    #[arg(long)]
    profile: Option<String>,
    /// UID of the ClusterProfile
    #[arg(long, value_name = "UID")]
    profile_uid: Option<String>,
    /// Where the credential lies: synced-secret, managed-service-account, token-secret, kubeconfig-secret
    /// or hub-identity
    #[arg(long)]
    source: Option<String>,
    /// Managed cluster that the account belongs to (default: the one that kubectl names)
    #[arg(long)]
    cluster: Option<String>,
    /// ManagedServiceAccount whose token is wanted
    #[arg(long, value_name = "NAME")]
    managed_serviceaccount: Option<String>,
    /// Secret that holds the token
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
    /// Namespace of that Secret
    #[arg(long, value_name = "NAME")]
    secret_namespace: Option<String>,
    /// Key of that Secret
    #[arg(long, value_name = "KEY")]
    secret_key: Option<String>,
    /// UID of the ClusterProfile that the Secret must belong to
    #[arg(long, value_name = "UID")]
    secret_owner: Option<String>,
    /// Context of the kubeconfig in that Secret (default: its current one)
    #[arg(long, value_name = "NAME")]
    secret_context: Option<String>,
    /// Server URL that the kubeconfig in that Secret must have
    #[arg(long, value_name = "URL", requires = "spoke_ca")]
    spoke_server: Option<String>,
    /// SHA-256 of the CA that the kubeconfig in that Secret must have
    #[arg(long, value_name = "SHA256", requires = "spoke_server")]
    spoke_ca: Option<String>,
    /// Whether the identity at the hub may be a client certificate
    #[arg(long, value_name = "BOOL")]
    client_certificate: Option<bool>,
    /// Service on the hub through which the cluster is reached, as NAMESPACE/NAME:PORT
    #[arg(long, value_name = "SERVICE", requires = "tunnel_port")]
    tunnel: Option<String>,
    /// Port of this machine that leads to that Service
    #[arg(long, value_name = "PORT", requires = "tunnel")]
    tunnel_port: Option<u16>,
    /// Seconds without use after which the tunnel ends
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_IDLE.as_secs(), value_parser = seconds)]
    tunnel_idle: u64,
    /// Seconds that reading from the hub may take; a hub login that asks a person gets 5 minutes
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_TIMEOUT.as_secs(), value_parser = seconds)]
    timeout: u64,
    /// Seconds for which a cached token is used without asking the hub again
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_MAX_AGE.as_secs(), value_parser = seconds)]
    max_age: u64,
    /// Neither read nor write the token cache
    #[arg(long)]
    no_cache: bool,
    /// Say on stderr why the cache could not be used
    #[arg(short, long)]
    verbose: bool,
}

/// What was typed.
#[derive(Debug)]
pub struct Cli {
    /// The work.
    pub asked: Asked,
    /// Whether warnings are wanted on stderr.
    pub verbose: bool,
}

/// The three things this binary does.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// The form that `use` writes.
    Request(Box<CredentialRequest>),
    /// The form of OCM's own plugin.
    DropIn(Box<DropIn>),
    /// Help or version, to be printed.
    Text(String),
}

/// The flags of other exec plugins that this one stands in for: OCM's own, which is given an account, and the
/// two of the Cluster Inventory API, which are given nothing. Hub and cluster come from the surroundings.
#[derive(Debug, PartialEq, Eq)]
pub struct DropIn {
    /// The managed service account; none for the plugins that read another Secret.
    pub account: Option<String>,
    /// The cluster, where it is given here and not by who runs us.
    pub cluster: Option<String>,
    /// The namespace, where given.
    pub namespace: Option<String>,
    /// Kubeconfig files to find the hub in, where given.
    pub kubeconfig: Vec<PathBuf>,
    /// The hub's context, where given.
    pub context: Option<String>,
    /// Whom to impersonate at the hub.
    pub impersonate: Impersonate,
    /// The limit of our own I/O.
    pub timeout: Duration,
    /// How long a cached token is used without asking the hub again.
    pub max_age: Duration,
    /// Neither read nor write the token cache.
    pub no_cache: bool,
}

/// Reads the arguments (without the program's name).
///
/// # Errors
/// [`Kind::Usage`], naming the flag.
pub fn parse(args: &[OsString]) -> Result<Cli> {
    let name = OsString::from("credential-exec");
    let flags = match Flags::try_parse_from(std::iter::once(&name).chain(args)) {
        Ok(flags) => flags,
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return Ok(Cli { asked: Asked::Text(e.render().to_string()), verbose: false });
        }
        Err(e) => {
            let text = e.render().to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            return Err(Error::new(Kind::Usage, first).remedy(upgrade_or_help(args)));
        }
    };
    let verbose = flags.verbose;
    let asked = match &flags.request {
        Some(version) if version == VERSION => Asked::Request(Box::new(flags.into_request()?)),
        Some(version) => {
            return Err(Error::new(
                Kind::Usage,
                format!("this kubeconfig holds a request of version {version:?}"),
            )
            .remedy(format!(
                "upgrade kubectl inventory: this credential-exec {} reads {VERSION}",
                env!("CARGO_PKG_VERSION")
            )));
        }
        None => Asked::DropIn(Box::new(flags.into_drop_in()?)),
    };
    Ok(Cli { asked, verbose })
}

fn upgrade_or_help(args: &[OsString]) -> &'static str {
    if args.iter().any(|a| a.to_string_lossy().starts_with("--request")) {
        "the kubeconfig may have been written by a newer version: upgrade kubectl inventory, or run its `use` again"
    } else {
        "see credential-exec --help"
    }
}

impl Flags {
    fn into_request(mut self) -> Result<CredentialRequest> {
        let needed = |flag: &str, value: Option<String>| {
            value.ok_or_else(|| {
                Error::new(Kind::Usage, format!("--{flag} is missing"))
                    .remedy("run `kubectl inventory use` again to have the arguments written anew")
            })
        };
        let kind = needed("source", self.source)?;
        let mut of_ocm = || -> Result<[String; 3]> {
            Ok([
                needed("cluster", self.cluster.take())?,
                needed("managed-serviceaccount", self.managed_serviceaccount.take())?,
                needed("secret", self.secret.take())?,
            ])
        };
        let source = match kind.as_str() {
            "synced-secret" => {
                let [cluster, account, secret] = of_ocm()?;
                Source::SyncedSecret { cluster, account, secret }
            }
            "managed-service-account" => {
                let [cluster, account, secret] = of_ocm()?;
                Source::ManagedServiceAccount { cluster, account, secret }
            }
            "token-secret" | "kubeconfig-secret" => {
                let secret = SecretKey {
                    namespace: needed("secret-namespace", self.secret_namespace)?,
                    name: needed("secret", self.secret)?,
                    key: needed("secret-key", self.secret_key)?,
                };
                if kind == "token-secret" {
                    Source::TokenSecret { secret, owner: self.secret_owner }
                } else {
                    let spoke = self.spoke_server.zip(self.spoke_ca);
                    Source::KubeconfigSecret {
                        secret,
                        context: self.secret_context,
                        spoke: spoke.map(|(server, ca)| Spoke { server, ca }),
                    }
                }
            }
            "hub-identity" => {
                Source::HubIdentity { certificate: self.client_certificate.unwrap_or_default() }
            }
            other => {
                return Err(Error::new(Kind::Usage, format!("--source={other} is unknown"))
                    .remedy("upgrade kubectl inventory: this kubeconfig was written by a newer version"));
            }
        };
        let tunnel = match self.tunnel.as_deref().zip(self.tunnel_port) {
            None => None,
            Some((target, port)) => Some(Tunnel {
                port,
                idle: Duration::from_secs(self.tunnel_idle),
                ..Tunnel::parse_target(target).ok_or_else(|| {
                    Error::new(Kind::Usage, format!("--tunnel={target} is not NAMESPACE/NAME:PORT"))
                        .remedy("run `kubectl inventory use` again to have the arguments written anew")
                })?
            }),
        };
        Ok(CredentialRequest {
            hub: HubPin {
                kubeconfig: self.kubeconfig,
                context: needed("context", self.context)?,
                server: needed("hub-server", self.hub_server)?,
                ca: needed("hub-ca", self.hub_ca)?,
                impersonate: Impersonate { user: self.as_user, groups: self.as_group, uid: self.as_uid },
            },
            profile: ProfileRef {
                namespace: needed("namespace", self.namespace)?,
                name: needed("profile", self.profile)?,
                uid: needed("profile-uid", self.profile_uid)?,
            },
            source,
            tunnel,
            timeout: Duration::from_secs(self.timeout),
            max_age: Duration::from_secs(self.max_age),
            no_cache: self.no_cache,
        })
    }

    fn into_drop_in(self) -> Result<DropIn> {
        for (flag, given) in [
            ("hub-server", self.hub_server.is_some()),
            ("hub-ca", self.hub_ca.is_some()),
            ("profile", self.profile.is_some()),
            ("profile-uid", self.profile_uid.is_some()),
            ("source", self.source.is_some()),
            ("secret", self.secret.is_some()),
            ("secret-namespace", self.secret_namespace.is_some()),
            ("secret-key", self.secret_key.is_some()),
            ("secret-owner", self.secret_owner.is_some()),
            ("secret-context", self.secret_context.is_some()),
            ("spoke-server", self.spoke_server.is_some()),
            ("client-certificate", self.client_certificate.is_some()),
            ("tunnel", self.tunnel.is_some()),
        ] {
            if given {
                return Err(Error::new(Kind::Usage, format!("--{flag} goes with --request={VERSION}"))
                    .remedy("see credential-exec --help"));
            }
        }
        if self.managed_serviceaccount.as_ref().is_some_and(String::is_empty) {
            return Err(Error::new(Kind::Usage, "--managed-serviceaccount is empty")
                .remedy("name the ManagedServiceAccount whose token is wanted"));
        }
        Ok(DropIn {
            account: self.managed_serviceaccount,
            cluster: self.cluster,
            namespace: self.namespace,
            kubeconfig: self.kubeconfig,
            context: self.context,
            impersonate: Impersonate { user: self.as_user, groups: self.as_group, uid: self.as_uid },
            timeout: Duration::from_secs(self.timeout),
            max_age: Duration::from_secs(self.max_age),
            no_cache: self.no_cache,
        })
    }
}

/// A year, in seconds: what is longer means no limit.
const LONGEST: u64 = 365 * 86_400;

/// A number of seconds, with or without its unit.
fn seconds(text: &str) -> std::result::Result<u64, String> {
    let seconds: u64 = text
        .strip_suffix('s')
        .unwrap_or(text)
        .parse()
        .map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Ok(seconds.min(LONGEST))
}
