//! How a published address is reached from this machine: as it is, by another address that the person
//! gave for it, or through a tunnel over the hub where it exists only inside the hub. Pure.

use std::str::FromStr;

use credential_exec::error::{Error, Kind, Result};
use credential_exec::request::{DEFAULT_IDLE, Tunnel};
use serde::Deserialize;

use super::endpoint::parse_server;
use super::kubeconfig::ClusterEntry;

/// What the person wants (`--reach`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Directly where the server answers and is the published one, else through a tunnel.
    #[default]
    Auto,
    /// Without a tunnel.
    Direct,
    /// Through a tunnel.
    Tunnel,
}

impl Reach {
    /// What `--reach` may be.
    pub const CHOICES: [&str; 3] = ["auto", "direct", "tunnel"];
}

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "direct" => Ok(Self::Direct),
            "tunnel" => Ok(Self::Tunnel),
            _ => Err(format!("{text:?} is none of {}", Self::CHOICES.join(", "))),
        }
    }
}

/// A rule of the config file: what is published below `from` is reached below `to`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The beginning of a published URL.
    pub from: String,
    /// What stands in its place.
    pub to: String,
}

impl Rule {
    /// Refuses a rule that could not lead anywhere.
    ///
    /// # Errors
    /// [`Kind::Usage`], naming the URL and why.
    pub fn check(&self) -> Result<()> {
        for url in [&self.from, &self.to] {
            parse_server(url).map_err(|why| {
                Error::new(Kind::Usage, format!("the URL {url:?} of a reach rule {why}"))
                    .remedy("write both as https://HOST:PORT/PATH")
            })?;
        }
        Ok(())
    }
}

/// The entry by the first rule that the published address falls under. The server's certificate is still
/// checked for the published name.
pub fn by_rule(published: &ClusterEntry, rules: &[Rule]) -> Option<ClusterEntry> {
    let (rule, rest) = rules.iter().find_map(|rule| {
        let rest = published.server.strip_prefix(rule.from.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then_some((rule, rest))
    })?;
    Some(ClusterEntry {
        server: format!("{}{rest}", rule.to.trim_end_matches('/')),
        tls_server_name: published_name(published),
        ..published.clone()
    })
}

/// The Service that a published address names, where it is the name of one within a cluster:
/// `name.namespace`, `name.namespace.svc` or `name.namespace.svc.cluster.local`.
pub fn service(published: &ClusterEntry) -> Option<Tunnel> {
    let uri: http::Uri = published.server.parse().ok()?;
    let host = uri.host()?.to_ascii_lowercase();
    let host = host.strip_suffix(".cluster.local").unwrap_or(&host);
    let (service, namespace) = host.strip_suffix(".svc").unwrap_or(host).split_once('.')?;
    let is_label = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let is_address = namespace.chars().all(|c| c.is_ascii_digit());
    (is_label(service) && is_label(namespace) && !is_address).then(|| Tunnel {
        namespace: namespace.to_owned(),
        service: service.to_owned(),
        service_port: uri.port_u16().unwrap_or(443),
        port: 0,
        idle: DEFAULT_IDLE,
    })
}

/// The entry for a tunnel that listens on this port. TLS goes on to the published server, and no proxy
/// stands between kubectl and this machine.
///
/// # Errors
/// [`Kind::Refused`] where the server's certificate would go unchecked.
pub fn through(published: &ClusterEntry, port: u16) -> Result<ClusterEntry> {
    if published.insecure {
        return Err(Error::new(Kind::Refused, "through a tunnel the server's certificate is always checked")
            .remedy("leave --allow-insecure, or add --reach direct"));
    }
    let uri: http::Uri = published.server.parse().unwrap_or_default();
    Ok(ClusterEntry {
        server: format!("https://127.0.0.1:{port}{}", uri.path().trim_end_matches('/')),
        tls_server_name: published_name(published),
        proxy_url: None,
        ..published.clone()
    })
}

fn published_name(published: &ClusterEntry) -> Option<String> {
    published.tls_server_name.clone().or_else(|| Some(parse_server(&published.server).ok()?.host))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER_SERVER: &str = "https://cluster-proxy-addon-user.open-cluster-management-addon:9092";

    fn published(server: &str) -> ClusterEntry {
        ClusterEntry { server: server.to_owned(), ca_data: Some("ca".into()), ..ClusterEntry::default() }
    }

    #[test]
    fn an_address_within_the_hub_names_a_service() {
        for (server, target) in [
            (format!("{USER_SERVER}/c1"), "open-cluster-management-addon/cluster-proxy-addon-user:9092"),
            ("https://a.b".to_owned(), "b/a:443"),
            ("https://A.b.svc:1/x".to_owned(), "b/a:1"),
            ("https://a.b.svc.cluster.local".to_owned(), "b/a:443"),
        ] {
            assert_eq!(service(&published(&server)).map(|t| t.target()).as_deref(), Some(target), "{server}");
        }
        for server in
            ["https://a", "https://a.b.example.com", "https://10.0.0.1", "https://[::1]", "https://a.1"]
        {
            assert_eq!(service(&published(server)), None, "{server}");
        }
    }

    #[test]
    fn a_tunnelled_entry_keeps_the_path_the_name_and_the_ca_and_loses_the_proxy() {
        let mut entry = published(&format!("{USER_SERVER}/c1/"));
        entry.proxy_url = Some("http://proxy".into());
        let through_it = through(&entry, 21_212).unwrap();
        assert_eq!(through_it.server, "https://127.0.0.1:21212/c1");
        assert_eq!(
            through_it.tls_server_name.as_deref(),
            Some("cluster-proxy-addon-user.open-cluster-management-addon")
        );
        assert_eq!((through_it.proxy_url, through_it.ca_data), (None, Some("ca".into())));
        entry.tls_server_name = Some("other".into());
        assert_eq!(through(&entry, 1).unwrap().tls_server_name.as_deref(), Some("other"));
        assert!(through(&ClusterEntry { insecure: true, ..entry }, 1).is_err());
    }

    #[test]
    fn the_first_rule_that_fits_moves_the_address_and_keeps_the_name() {
        let rule = |from: &str, to: &str| Rule { from: from.into(), to: to.into() };
        let rules = [
            rule("https://cluster-proxy-addon-user.open", "https://never"),
            rule(USER_SERVER, "https://proxy.example.com/fleet/"),
        ];
        let moved = by_rule(&published(&format!("{USER_SERVER}/c1")), &rules).unwrap();
        assert_eq!(moved.server, "https://proxy.example.com/fleet/c1");
        assert_eq!(
            moved.tls_server_name.as_deref(),
            Some("cluster-proxy-addon-user.open-cluster-management-addon")
        );
        assert_eq!(by_rule(&published("https://other/c1"), &rules), None);
        assert!(rule("https://a", "http://b").check().unwrap_err().cause.contains("http://b"));
    }

    #[test]
    fn reach_is_one_of_three() {
        for choice in Reach::CHOICES {
            assert!(choice.parse::<Reach>().is_ok());
        }
        assert!("tunel".parse::<Reach>().unwrap_err().contains("auto, direct, tunnel"));
    }
}
