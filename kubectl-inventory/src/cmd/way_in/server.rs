//! The server behind a way in: whether it may be given the token, and how it is reached from here.

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result, printable};
use credential_exec::hub::client::Options;
use credential_exec::hub::kubeconfig::{Cluster, User};
use credential_exec::hub::{Client, Hub};
use credential_exec::key::sha256;
use credential_exec::request::Tunnel;
use credential_exec::tunnel;

use super::WayIn;
use crate::access::kubeconfig::ClusterEntry;
use crate::access::reach::{self, Reach};
use crate::access::trust::{self, Known, Remembered, Token, Verdict};
use crate::hub;

impl WayIn<'_> {
    /// How the published server is reached from here.
    pub(super) async fn reach(
        &self,
        published: ClusterEntry,
        managed: &str,
        user_server_namespace: &str,
        agreed: bool,
        notes: &mut Vec<String>,
    ) -> Result<(ClusterEntry, Option<Tunnel>)> {
        let wanted = self.flags.reach;
        if wanted != Reach::Tunnel
            && let Some(moved) = reach::by_rule(&published, &self.config.reach)
        {
            return Ok((moved, None));
        }
        if wanted == Reach::Direct {
            return Ok((published, None));
        }
        let remembered = self.once.remembered(self.env).await?;
        let known = Known { user_server_namespace, hosts: &self.config.trusted_hosts, remembered };
        let token = if self.flags.hub_identity { Token::Hub } else { Token::Unbound };
        let offer = self.offer(&published, managed, token)?;
        // Only to a Service that is OCM's, or that the person trusts: not to whatever a profile names.
        let trusted = agreed || trust::judge(&offer, &known) == Verdict::Trusted;
        let service = reach::service(&published);
        let Some(service) = service.clone().filter(|_| trusted) else {
            if wanted == Reach::Auto {
                if let Some(service) = service
                    && !self.answers_here(&published).await
                {
                    let host = format!("{}.{}", service.service, service.namespace);
                    notes.push(format!(
                        "note: {host} looks like a Service on the hub and does not answer here; \
                         for a tunnel to it, add {host} to trustedHosts in the config file"
                    ));
                }
                return Ok((published, None));
            }
            return Err(Error::new(
                Kind::Refused,
                format!("{} names no Service on the hub that a tunnel may lead to", published.server),
            )
            .remedy("tunnels lead to OCM's user-server, or to a Service NAME.NAMESPACE in trustedHosts"));
        };
        if wanted == Reach::Auto && self.answers_here(&published).await {
            return Ok((published, None));
        }
        let target = service.target();
        let port = self.once.port(&target, || tunnel::choose_port(&self.pin()?, &target, self.env))?;
        let tunnel = Tunnel { port, idle: self.config.tunnel_idle(), ..service };
        Ok((reach::through(&published, port)?, Some(tunnel)))
    }

    /// Whether the published server answers on this machine's own way, and is the published one: names
    /// resolve by accident, and something else may answer there.
    async fn answers_here(&self, published: &ClusterEntry) -> bool {
        self.once.answers(published, self.probe(published)).await
    }

    async fn probe(&self, published: &ClusterEntry) -> bool {
        const LIMIT: Duration = Duration::from_secs(2);
        let hub = as_api(published);
        let options = Options { deadline: LIMIT, ..Options::default() };
        let shaken = async {
            let client = Client::connect(&hub, self.env, options).await.ok()?;
            client.handshake().await.ok()
        };
        matches!(tokio::time::timeout(LIMIT, shaken).await, Ok(Some(())))
    }

    /// Which server is to be given whose token.
    fn offer(&self, cluster: &ClusterEntry, managed: &str, token: Token) -> Result<Remembered> {
        Ok(Remembered {
            hub_identity: token == Token::Hub,
            hub: hub::fingerprint(self.hub())?,
            cluster: managed.to_owned(),
            server: cluster.server.clone(),
            ca: sha256(&[cluster.ca_data.as_deref().unwrap_or("system")]),
            detour: trust::detour(cluster),
        })
    }

    /// Whether this server may be given such a token; asks the person where it is theirs to say.
    pub(super) async fn trust(
        &self,
        cluster: &ClusterEntry,
        managed: &str,
        token: Token,
        user_server_namespace: &str,
        may_ask: bool,
        notes: &mut Vec<String>,
    ) -> Result<Option<Remembered>> {
        let offer = self.offer(cluster, managed, token)?;
        let remembered = self.once.remembered(self.env).await?;
        let known = Known { user_server_namespace, hosts: &self.config.trusted_hosts, remembered };
        let verdict = match token {
            Token::Bound => trust::judge_bound(&offer, &known),
            Token::Unbound | Token::Hub => trust::judge(&offer, &known),
        };
        let question = match verdict {
            Verdict::Trusted => return Ok(None),
            Verdict::Ask => question(&offer),
            Verdict::OtherCluster(other) => {
                return Err(Error::new(
                    Kind::Refused,
                    format!(
                        "the profile of {managed} publishes the address of another cluster, {other:?}: {}",
                        cluster.server
                    ),
                )
                .remedy("whoever wrote this profile would be given the token; ask the hub's administrator"));
            }
        };
        if self.trust_server {
            notes.push(format!("trusting from now on: {question}"));
            return Ok(Some(offer));
        }
        if may_ask && person_agrees(self.env, &question) {
            return Ok(Some(offer));
        }
        Err(Error::new(Kind::Refused, format!("{question}, which is not OCM's user-server"))
            .remedy("if that server is the cluster's, add --trust-server"))
    }
}

/// The entry as an API to be asked, without anybody who asks.
pub fn as_api(entry: &ClusterEntry) -> Hub {
    Hub {
        context: entry.server.clone(),
        namespace: None,
        cluster: Cluster {
            server: entry.server.clone(),
            tls_server_name: entry.tls_server_name.clone(),
            insecure_skip_tls_verify: entry.insecure,
            certificate_authority_data: entry.ca_data.clone(),
            proxy_url: entry.proxy_url.clone().map(Into::into),
            ..Cluster::default()
        },
        user: User::default(),
        files: Vec::new(),
    }
}

/// What the person is asked: who would be given whose token.
fn question(offer: &Remembered) -> String {
    let ca = format!("CA SHA-256 {}", &offer.ca[..16]);
    let how = if offer.detour.is_empty() { ca } else { format!("{ca}, {}", offer.detour) };
    let (server, how) = (printable(&offer.server), printable(&how));
    match offer.hub_identity {
        true => format!("your own token at the hub would be sent to {server} ({how})"),
        false => format!("{}'s token would be sent to {server} ({how})", offer.cluster),
    }
}

/// Asks, if somebody is there to answer.
fn person_agrees(env: &Env, question: &str) -> bool {
    if !env.stdin_is_terminal || !std::io::stderr().is_terminal() || env.os("CI").is_some() {
        return false;
    }
    let _ = write!(std::io::stderr(), "{question}.\nIs that server the cluster's? [y/N] ");
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}
