//! The contract between the two binaries: what kubectl-inventory writes into `exec.args` of a
//! kubeconfig, and credential-exec reads back. It identifies hub, profile and account by itself
//! and holds no secret.
//!
//! ```text
//! --request=v1
//! --kubeconfig=/home/me/.kube/config --context=hub --hub-server=https://hub:6443 --hub-ca=<sha256>
//! --namespace=cluster-inventory --profile=cluster1 --profile-uid=<uid>
//! --source=synced-secret --cluster=cluster1 --managed-serviceaccount=inventory --secret=cluster1-inventory
//! --tunnel=open-cluster-management-addon/cluster-proxy-addon-user:9092 --tunnel-port=21212
//! ```

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Kind, Result};

/// The version of the form below; an unknown one is refused with the advice to upgrade.
pub const VERSION: &str = "v1";

/// How long our own I/O may take unless the request says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after it was read from the hub a token is handed out without asking the hub again.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(3600);

/// How long a tunnel lives without being used unless the request says otherwise.
pub const DEFAULT_IDLE: Duration = Duration::from_secs(900);

/// Everything needed to get the credential of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialRequest {
    /// The hub, and what it must be.
    pub hub: HubPin,
    /// The ClusterProfile that `use` resolved.
    pub profile: ProfileRef,
    /// Where the token lies on the hub.
    pub source: Source,
    /// The way to an address that exists only inside the hub; none where it can be reached from here.
    pub tunnel: Option<Tunnel>,
    /// The limit of our own I/O.
    pub timeout: Duration,
    /// See [`DEFAULT_MAX_AGE`].
    pub max_age: Duration,
    /// Neither read nor write the token cache.
    pub no_cache: bool,
}

/// A way to find the hub (files and context), and what it must be (server and CA).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubPin {
    /// The kubeconfig files, in order.
    pub kubeconfig: Vec<PathBuf>,
    /// The hub's context in them.
    pub context: String,
    /// The hub's server URL.
    pub server: String,
    /// [`crate::hub::Hub::ca_fingerprint`].
    pub ca: String,
    /// Whom to impersonate at the hub.
    pub impersonate: Impersonate,
}

/// kubectl's `--as`, `--as-group`, `--as-uid`, acting on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Impersonate {
    /// The user.
    pub user: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// The UID.
    pub uid: Option<String>,
}

/// One ClusterProfile, by name and by identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: a profile created anew under the same name is another one.
    pub uid: String,
}

/// Where the token lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// OCM's copy beside the ClusterProfile, bound to it by an ownerReference.
    SyncedSecret {
        /// The managed cluster.
        cluster: String,
        /// The managed service account.
        account: String,
        /// The Secret's name in the profile's namespace.
        secret: String,
    },
    /// The account's own Secret in the managed cluster's namespace.
    ManagedServiceAccount {
        /// The managed cluster, which is also the Secret's namespace.
        cluster: String,
        /// The managed service account.
        account: String,
        /// The Secret's name.
        secret: String,
    },
    /// A bearer token in a Secret.
    TokenSecret {
        /// The Secret.
        secret: SecretKey,
        /// UID of the ClusterProfile that the Secret must belong to, where it was found to belong to one.
        owner: Option<String>,
    },
    /// A kubeconfig in a Secret.
    KubeconfigSecret {
        /// The Secret.
        secret: SecretKey,
        /// The kubeconfig's context, where it is not the current one.
        context: Option<String>,
        /// What its cluster must still be; none where whoever asks says so.
        spoke: Option<Spoke>,
    },
    /// The person's own identity at the hub.
    HubIdentity {
        /// Whether it may be a client certificate: the hub itself asks for it.
        certificate: bool,
    },
}

/// One value of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Display for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret {}/{}", self.namespace, self.name)
    }
}

/// A server and whom to trust there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoke {
    /// Its URL.
    pub server: String,
    /// [`crate::hub::Hub::ca_fingerprint`].
    pub ca: String,
}

/// A tunnel from a port of this machine to a Service on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub service: String,
    /// The Service's port.
    pub service_port: u16,
    /// The port of this machine, on 127.0.0.1.
    pub port: u16,
    /// How long it lives without being used.
    pub idle: Duration,
}

impl Tunnel {
    /// The Service, as `namespace/name:port`.
    pub fn target(&self) -> String {
        format!("{}/{}:{}", self.namespace, self.service, self.service_port)
    }

    /// Reads what [`Tunnel::target`] writes; the port of this machine is still to be chosen.
    pub fn parse_target(text: &str) -> Option<Self> {
        let (namespace, rest) = text.split_once('/')?;
        let (service, port) = rest.split_once(':')?;
        Some(Self {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            service_port: port.parse().ok()?,
            port: 0,
            idle: DEFAULT_IDLE,
        })
    }

    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        let target = "open-cluster-management-addon/cluster-proxy-addon-user:9092";
        Self { port: 20_000, ..Self::parse_target(target).unwrap() }
    }
}

impl Source {
    /// The managed cluster and the managed service account whose token it is, where it is one of OCM's.
    pub fn managed(&self) -> Option<(&str, &str)> {
        match self {
            Self::SyncedSecret { cluster, account, .. }
            | Self::ManagedServiceAccount { cluster, account, .. } => Some((cluster, account)),
            _ => None,
        }
    }

    /// Its name in arguments.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SyncedSecret { .. } => "synced-secret",
            Self::ManagedServiceAccount { .. } => "managed-service-account",
            Self::TokenSecret { .. } => "token-secret",
            Self::KubeconfigSecret { .. } => "kubeconfig-secret",
            Self::HubIdentity { .. } => "hub-identity",
        }
    }

    /// Everything else that tells one source from another, as flags and values in a fixed order.
    pub fn details(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::SyncedSecret { cluster, account, secret }
            | Self::ManagedServiceAccount { cluster, account, secret } => {
                vec![("cluster", cluster), ("managed-serviceaccount", account), ("secret", secret)]
            }
            Self::TokenSecret { secret, owner } => {
                let mut details = secret.details();
                details.extend(owner.as_deref().map(|owner| ("secret-owner", owner)));
                details
            }
            Self::KubeconfigSecret { secret, context, spoke } => {
                let mut details = secret.details();
                details.extend(context.as_deref().map(|context| ("secret-context", context)));
                if let Some(Spoke { server, ca }) = spoke {
                    details.extend([("spoke-server", server.as_str()), ("spoke-ca", ca)]);
                }
                details
            }
            Self::HubIdentity { certificate } => {
                vec![("client-certificate", if *certificate { "true" } else { "false" })]
            }
        }
    }
}

impl SecretKey {
    fn details(&self) -> Vec<(&'static str, &str)> {
        vec![("secret-namespace", &self.namespace), ("secret", &self.name), ("secret-key", &self.key)]
    }
}

impl CredentialRequest {
    /// The arguments that [`CredentialRequest::parse`] reads back.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a name from the hub that could be taken for something else, or a path
    /// that is not UTF-8 and so cannot stand in a kubeconfig.
    pub fn to_args(&self) -> Result<Vec<String>> {
        let mut args = vec![format!("--request={VERSION}")];
        for path in &self.hub.kubeconfig {
            let path = path.to_str().ok_or_else(|| {
                Error::new(Kind::Usage, format!("the path {} is not UTF-8", path.display()))
                    .remedy("move the hub's kubeconfig to a path that is")
            })?;
            args.push(format!("--kubeconfig={path}"));
        }
        args.push(format!("--context={}", self.hub.context));
        args.push(format!("--hub-server={}", self.hub.server));
        args.push(format!("--hub-ca={}", self.hub.ca));
        let on_hub = &self.hub.impersonate;
        args.extend(on_hub.user.iter().map(|v| format!("--as={v}")));
        args.extend(on_hub.groups.iter().map(|v| format!("--as-group={v}")));
        args.extend(on_hub.uid.iter().map(|v| format!("--as-uid={v}")));
        for (flag, name) in [
            ("namespace", self.profile.namespace.as_str()),
            ("profile", &self.profile.name),
            ("profile-uid", &self.profile.uid),
            ("source", self.source.kind()),
        ] {
            args.push(format!("--{flag}={}", hub_name(flag, name)?));
        }
        for (flag, value) in self.source.details() {
            args.push(format!("--{flag}={}", hub_name(flag, value)?));
        }
        if let Some(tunnel) = &self.tunnel {
            args.push(format!("--tunnel={}", hub_name("tunnel", &tunnel.target())?));
            args.push(format!("--tunnel-port={}", tunnel.port));
            if tunnel.idle != DEFAULT_IDLE {
                args.push(format!("--tunnel-idle={}", tunnel.idle.as_secs()));
            }
        }
        if self.timeout != DEFAULT_TIMEOUT {
            args.push(format!("--timeout={}", self.timeout.as_secs()));
        }
        if self.max_age != DEFAULT_MAX_AGE {
            args.push(format!("--max-age={}", self.max_age.as_secs()));
        }
        if self.no_cache {
            args.push("--no-cache".to_owned());
        }
        Ok(args)
    }
}

/// A name that came from the hub, if it can do no harm in an argument.
///
/// # Errors
/// [`Kind::Usage`], naming it, and what it is.
pub fn hub_name<'a>(what: &str, name: &'a str) -> Result<&'a str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/:@=-".contains(c);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        return Ok(name);
    }
    Err(Error::new(Kind::Usage, format!("the hub's {what} {name:?} cannot stand in a kubeconfig"))
        .remedy("only letters, digits and ._/:@=- are accepted, and no leading dash"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Asked, parse};
    use proptest::prelude::*;
    use std::ffi::OsString;

    fn sample() -> CredentialRequest {
        CredentialRequest {
            hub: HubPin {
                kubeconfig: vec!["/home/me/.kube/config".into()],
                context: "hub".into(),
                server: "https://hub:6443".into(),
                ca: "ab".repeat(32),
                impersonate: Impersonate::default(),
            },
            profile: ProfileRef {
                namespace: "cluster-inventory".into(),
                name: "cluster1".into(),
                uid: "u".into(),
            },
            source: Source::SyncedSecret {
                cluster: "cluster1".into(),
                account: "inventory".into(),
                secret: "cluster1-inventory".into(),
            },
            tunnel: Some(Tunnel::sample()),
            timeout: DEFAULT_TIMEOUT,
            max_age: DEFAULT_MAX_AGE,
            no_cache: false,
        }
    }

    fn reparse(args: &[String]) -> Result<Asked> {
        parse(&args.iter().map(OsString::from).collect::<Vec<_>>()).map(|cli| cli.asked)
    }

    #[test]
    fn names_from_the_hub_that_could_be_mistaken_are_refused() {
        for bad in ["", "-x", "a b", "a\nb", "a;b", "ä", "$(x)", "\u{1b}[0m"] {
            let mut request = sample();
            request.profile.name = bad.to_owned();
            assert_eq!(request.to_args().unwrap_err().kind, Kind::Usage, "{bad:?}");
        }
    }

    #[test]
    fn an_unknown_version_asks_for_an_upgrade() {
        let mut args = sample().to_args().unwrap();
        args[0] = "--request=v2".to_owned();
        let error = reparse(&args).unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
        assert!(error.remedy.contains("upgrade"), "{error}");
    }

    prop_compose! {
        fn any_request()(
            paths in prop::collection::vec("[^\0]{1,30}", 1..3),
            (context, server, ca) in (".*", ".*", ".*"),
            (user, groups, uid) in (prop::option::of(".*"), prop::collection::vec(".*", 0..3), prop::option::of(".*")),
            names in prop::collection::vec("[A-Za-z0-9._/:@=][A-Za-z0-9._/:@=-]{0,20}", 8),
            tunnel in prop::option::of(("[a-z0-9-]{1,9}", "[a-z0-9-]{1,9}", any::<u16>(), any::<u16>(), 1u64..9999)),
            kind in 0..5, flag in any::<bool>(), no_cache in any::<bool>(), timeout in 1u64..600, max_age in 0u64..100_000,
        ) -> CredentialRequest {
            let name = |n: usize| names[n].clone();
            let (cluster, account, secret) = (name(3), name(4), name(5));
            let key = SecretKey { namespace: name(3), name: name(4), key: name(5) };
            CredentialRequest {
                hub: HubPin {
                    kubeconfig: paths.into_iter().map(PathBuf::from).collect(),
                    context, server, ca,
                    impersonate: Impersonate { user, groups, uid },
                },
                profile: ProfileRef { namespace: names[0].clone(), name: names[1].clone(), uid: names[2].clone() },
                source: match kind {
                    0 => Source::SyncedSecret { cluster, account, secret },
                    1 => Source::ManagedServiceAccount { cluster, account, secret },
                    2 => Source::TokenSecret { secret: key, owner: flag.then(|| name(6)) },
                    3 => Source::KubeconfigSecret {
                        secret: key,
                        context: flag.then(|| name(6)),
                        spoke: (!flag).then(|| Spoke { server: name(6), ca: name(7) }),
                    },
                    _ => Source::HubIdentity { certificate: flag },
                },
                tunnel: tunnel.map(|(namespace, service, service_port, port, idle)| Tunnel {
                    namespace: format!("n{namespace}"), service, service_port, port, idle: Duration::from_secs(idle),
                }),
                timeout: Duration::from_secs(timeout),
                max_age: Duration::from_secs(max_age),
                no_cache,
            }
        }
    }

    proptest! {
        #[test]
        fn what_use_writes_is_what_credential_exec_reads(request in any_request()) {
            let args = request.to_args().unwrap();
            prop_assert_eq!(reparse(&args).unwrap(), Asked::Request(Box::new(request)));
        }
    }
}
