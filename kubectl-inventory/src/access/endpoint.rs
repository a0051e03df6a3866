//! The address that a profile publishes, checked before any of it stands in a kubeconfig: it was
//! written by whoever may write ClusterProfiles. Pure.

use base64::Engine as _;
use credential_exec::error::{Error, Kind, Result};

use super::kubeconfig::ClusterEntry;
use crate::inventory::cluster_profile::ProviderCluster;

/// The cluster entry for a published address.
///
/// # Errors
/// [`Kind::Refused`], naming what in the profile cannot be used, and why.
pub fn check(name: &str, published: &ProviderCluster, allow_insecure: bool) -> Result<ClusterEntry> {
    let refused = |why: String| Error::new(Kind::Refused, format!("the profile of {name} {why}"));
    parse_server(&published.server).map_err(|why| {
        refused(format!("publishes the server {:?}, which {why}", published.server))
            .remedy("ask the cluster's manager to publish an https:// URL")
    })?;
    if let Some(path) = published.certificate_authority.as_ref().filter(|p| !p.is_empty()) {
        return Err(refused(format!("names a CA file, {path:?}, which would be read on this machine"))
            .remedy("ask the cluster's manager to publish certificate-authority-data"));
    }
    if published.insecure_skip_tls_verify && !allow_insecure {
        return Err(refused("asks to skip the check of the server's certificate".to_owned())
            .remedy("add --allow-insecure if you accept that anybody between may read the token"));
    }
    let ca = published.certificate_authority_data.as_ref().filter(|ca| !ca.is_empty());
    if let Some(ca) = ca {
        check_ca(ca).map_err(|why| {
            refused(format!("publishes certificate-authority-data that {why}"))
                .remedy("ask the cluster's manager to publish the CA as base64 of PEM")
        })?;
    }
    for (what, value) in
        [("tls-server-name", &published.tls_server_name), ("proxy-url", &published.proxy_url)]
    {
        if value.as_ref().is_some_and(|v| v.chars().any(char::is_control)) {
            return Err(refused(format!("publishes a {what} with control characters")));
        }
    }
    let text = |value: &Option<String>| value.clone().filter(|v| !v.is_empty());
    Ok(ClusterEntry {
        server: published.server.clone(),
        tls_server_name: text(&published.tls_server_name),
        // kubectl refuses a CA beside insecure-skip-tls-verify.
        ca_data: ca.filter(|_| !published.insecure_skip_tls_verify).cloned(),
        proxy_url: text(&published.proxy_url),
        disable_compression: published.disable_compression,
        insecure: published.insecure_skip_tls_verify,
        plugin_config: None,
    })
}

/// A server's URL in its parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Server {
    /// The host, lower-case.
    pub host: String,
    /// The path without a slash at its end.
    pub path: String,
}

/// Takes a server's URL apart; the error ends the sentence "the URL …".
///
/// # Errors
/// Why it is no URL for a credential.
pub fn parse_server(url: &str) -> std::result::Result<Server, &'static str> {
    if url.is_empty() {
        return Err("is empty");
    }
    let uri: http::Uri = url.parse().map_err(|_| "is not a URL")?;
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") => return Err("is plain http: kubectl sends no exec credential over it"),
        _ => return Err("does not start with https://"),
    }
    let authority = uri.authority().ok_or("has no host")?;
    if authority.as_str().contains('@') {
        return Err("holds a user name");
    }
    if uri.query().is_some() || url.contains('#') {
        return Err("holds a query or a fragment");
    }
    let host = authority.host().to_ascii_lowercase();
    if host.is_empty() {
        return Err("has no host");
    }
    Ok(Server { host, path: uri.path().trim_end_matches('/').to_owned() })
}

fn check_ca(encoded: &str) -> std::result::Result<(), &'static str> {
    let compact: String = encoded.split_whitespace().collect();
    let pem = base64::engine::general_purpose::STANDARD.decode(compact).map_err(|_| "is not base64")?;
    let has_certificate = String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----");
    if has_certificate { Ok(()) } else { Err("holds no certificate") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(server: &str) -> ProviderCluster {
        ProviderCluster { server: server.to_owned(), ..ProviderCluster::default() }
    }

    #[test]
    fn a_server_that_is_no_plain_https_url_is_refused_with_the_reason() {
        for (url, why) in [
            ("http://a", "plain http"),
            ("HTTP://a", "plain http"),
            ("", "empty"),
            ("a:6443", "https://"),
            ("ftp://a", "https://"),
            ("https://u:p@a", "user name"),
            ("https://a/?x", "query"),
            ("https://a/#x", "fragment"),
            ("https://a b", "not a URL"),
            ("https://a\u{1b}[0m", "not a URL"),
        ] {
            let error = check("c1", &published(url), false).unwrap_err();
            assert_eq!(error.kind, Kind::Refused);
            assert!(error.cause.contains(why), "{url}: {error}");
        }
    }

    #[test]
    fn a_file_path_from_the_hub_is_refused() {
        let published =
            ProviderCluster { certificate_authority: Some("/etc/passwd".into()), ..published("https://a") };
        assert!(check("c1", &published, true).unwrap_err().cause.contains("CA file"));
    }

    #[test]
    fn skipping_verification_needs_the_flag_and_drops_the_ca() {
        let pem = base64::engine::general_purpose::STANDARD.encode("-----BEGIN CERTIFICATE-----\n");
        let published = ProviderCluster {
            insecure_skip_tls_verify: true,
            certificate_authority_data: Some(pem),
            ..published("https://a")
        };
        assert!(check("c1", &published, false).unwrap_err().remedy.contains("--allow-insecure"));
        let entry = check("c1", &published, true).unwrap();
        assert!(entry.insecure && entry.ca_data.is_none());
    }

    #[test]
    fn a_ca_that_kubectl_could_not_read_is_refused() {
        for bad in ["!", "YWJj"] {
            let published =
                ProviderCluster { certificate_authority_data: Some(bad.into()), ..published("https://a") };
            assert!(check("c1", &published, false).is_err(), "{bad}");
        }
    }
}
