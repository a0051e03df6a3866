//! From a way into a cluster to its entries in a kubeconfig.

use std::path::PathBuf;

use credential_exec::error::{Error, Kind, Result};
use credential_exec::protocol::ApiVersion;
use credential_exec::request::{CredentialRequest, DEFAULT_TIMEOUT, ProfileRef, Source, Tunnel};

use super::member::Member;
use super::version;
use super::way_in::{Found, Login, WayIn};
use crate::access::kubeconfig::{ExecEntry, UserEntry, render};
use crate::hub;
use crate::kubeconfig_file::{Entry, Mark};

/// What is the same for all entries that one command writes.
pub struct Entries<'a> {
    /// The way in.
    pub way: &'a WayIn<'a>,
    /// credential-exec, as kubectl is to run it.
    pub command: String,
    /// The protocol's version.
    pub api_version: ApiVersion,
    /// Whether tokens are kept nowhere.
    pub no_cache: bool,
    /// Whether nothing of this machine stands in the entries.
    shared: bool,
}

impl<'a> Entries<'a> {
    /// With credential-exec at `exec_command`, else at its own place.
    ///
    /// # Errors
    /// A credential-exec that is not there, or whose path cannot stand in a kubeconfig.
    pub fn new(way: &'a WayIn<'a>, exec_command: Option<&PathBuf>) -> Result<Self> {
        let path = match exec_command {
            // kubectl resolves a relative path against the kubeconfig's folder; a bare name is looked for on PATH.
            Some(path) if path.components().count() > 1 => {
                std::path::absolute(path).unwrap_or_else(|_| path.clone())
            }
            Some(path) => path.clone(),
            None => version::companion(way.env)?,
        };
        let command = path.to_str().map(str::to_owned).ok_or_else(|| {
            Error::new(Kind::Usage, format!("the path {} is not UTF-8", path.display()))
                .remedy("name credential-exec by another path with --exec-command")
        })?;
        Ok(Self { way, command, api_version: ApiVersion::default(), no_cache: false, shared: false })
    }

    /// From now on nothing of this machine stands in the entries: credential-exec is looked for on PATH, and the hub
    /// by its server and CA in whatever kubeconfig the reader has.
    pub fn share(&mut self) {
        self.shared = true;
        "credential-exec".clone_into(&mut self.command);
    }

    /// Where an entry of this way in comes from.
    ///
    /// # Errors
    /// Those of reading the hub's CA.
    pub fn mark(&self, member: &Member, found: &Found) -> Result<Mark> {
        let account = match &found.login {
            Login::Ours { source: source @ Source::HubIdentity { certificate: false }, .. } => {
                Some(source.kind().to_owned())
            }
            Login::Ours { source, .. } => source.managed().map(|(_, account)| account.to_owned()),
            Login::Plugin(_) | Login::HubUser(_) => None,
        };
        let hub = &self.way.chosen.hub;
        Ok(Mark {
            hub: hub::fingerprint(hub)?,
            hub_context: hub.context.clone(),
            source: member.origin().option().to_owned(),
            profile: format!("{}/{}", member.namespace(), member.metadata().name),
            account,
            uid: member.metadata().uid.clone(),
        })
    }

    /// The entries, under this name.
    ///
    /// # Errors
    /// A name from the hub that cannot stand in a kubeconfig.
    pub fn entry(&self, name: &str, mark: Mark, member: &Member, found: &Found) -> Result<Entry> {
        Ok(render(name, &found.cluster, &self.user(member, found)?, None, mark))
    }

    /// What kubectl logs in with.
    ///
    /// # Errors
    /// As [`Entries::entry`].
    pub fn user(&self, member: &Member, found: &Found) -> Result<UserEntry> {
        Ok(match &found.login {
            Login::Ours { source, tunnel } => {
                UserEntry::Exec(self.credential_exec(&self.request(member, source, tunnel.as_ref())?)?)
            }
            Login::Plugin(exec) => UserEntry::Exec(exec.clone()),
            Login::HubUser(name) => UserEntry::Named(name.clone()),
        })
    }

    /// What our own plugin is asked for.
    ///
    /// # Errors
    /// Those of reading the hub's CA.
    pub fn request(
        &self,
        member: &Member,
        source: &Source,
        tunnel: Option<&Tunnel>,
    ) -> Result<CredentialRequest> {
        let mut hub = self.way.pin()?;
        if self.shared {
            hub.kubeconfig.clear();
        }
        Ok(CredentialRequest {
            hub,
            profile: ProfileRef {
                namespace: member.namespace().to_owned(),
                name: member.metadata().name.clone(),
                uid: member.metadata().uid.clone(),
            },
            source: source.clone(),
            tunnel: tunnel.cloned(),
            timeout: DEFAULT_TIMEOUT,
            max_age: self.way.config.max_age(),
            no_cache: self.no_cache,
        })
    }

    fn credential_exec(&self, request: &CredentialRequest) -> Result<ExecEntry> {
        Ok(ExecEntry {
            api_version: self.api_version,
            command: self.command.clone(),
            args: request.to_args()?,
            install_hint: Some(
                "This context needs credential-exec, a part of the kubectl plugin `inventory`.".to_owned(),
            ),
            provide_cluster_info: true,
            ..ExecEntry::default()
        })
    }
}
