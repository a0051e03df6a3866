//! Which server may be given the token of which cluster. Server and CA come from the profile, the
//! account's own Secret is read with the caller's rights: without this rule, whoever can write a
//! ClusterProfile could have another cluster's token sent to a server of their choice. Pure.

use serde::{Deserialize, Serialize};

use super::endpoint::{Server, parse_server};
use super::kubeconfig::ClusterEntry;

/// Where OCM's user-server is installed unless its configuration says otherwise.
pub const DEFAULT_NAMESPACE: &str = "open-cluster-management-addon";

/// The name of the user-server's Service.
pub const USER_SERVER: &str = "cluster-proxy-addon-user";

/// A decision of the person, remembered: this server, with this CA, may be given this cluster's token.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Remembered {
    /// Fingerprint of the hub.
    pub hub: String,
    /// The managed cluster.
    pub cluster: String,
    /// The server's URL.
    pub server: String,
    /// SHA-256 of the CA as published.
    pub ca: String,
    /// What else decides who answers: the name that the certificate is checked for, the proxy, and
    /// whether it is checked at all; empty when nothing of it is published.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detour: String,
    /// Whether it may be given the person's own token at the hub, and not one of the cluster's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hub_identity: bool,
}

/// Which token a server would be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// One of the cluster's, bound to this very profile by an ownerReference.
    Bound,
    /// One of the cluster's, which nothing binds to the profile.
    Unbound,
    /// The person's own at the hub.
    Hub,
}

/// What is known about servers.
#[derive(Clone, Debug, Default)]
pub struct Known<'a> {
    /// The namespace of OCM's user-server on this hub.
    pub user_server_namespace: &'a str,
    /// The config file's hosts.
    pub hosts: &'a [String],
    /// What the person agreed to before.
    pub remembered: &'a [Remembered],
}

/// Whether a server may be given a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Trusted,
    /// It may if the person says so.
    Ask,
    /// It is a user-server, but its path leads to another cluster (which is named).
    OtherCluster(String),
}

/// What of a cluster entry decides who answers, besides its address; empty when nothing does.
pub fn detour(cluster: &ClusterEntry) -> String {
    let host = parse_server(&cluster.server).map(|server| server.host).unwrap_or_default();
    let name = cluster.tls_server_name.as_ref().filter(|name| !name.eq_ignore_ascii_case(&host));
    let mut parts = Vec::new();
    parts.extend(name.map(|name| format!("certificate of {name}")));
    parts.extend(cluster.proxy_url.as_ref().map(|proxy| format!("proxy {proxy}")));
    parts.extend(cluster.insecure.then(|| "certificate not checked".to_owned()));
    parts.join(", ")
}

/// Judges the server that is to be given a token which OCM bound to this very profile, by an
/// ownerReference: the profile may name any server, but not OCM's own with another cluster's path.
pub fn judge_bound(offer: &Remembered, known: &Known<'_>) -> Verdict {
    let at_user_server = parse_server(&offer.server)
        .is_ok_and(|server| is_user_server(&server.host, known.user_server_namespace));
    match judge(offer, known) {
        Verdict::OtherCluster(other) if at_user_server => Verdict::OtherCluster(other),
        _ => Verdict::Trusted,
    }
}

/// Judges the server that is to be given the token of an account of `offer.cluster`.
pub fn judge(offer: &Remembered, known: &Known<'_>) -> Verdict {
    let Ok(Server { host, path }) = parse_server(&offer.server) else { return Verdict::Ask };
    if known.remembered.contains(offer) {
        return Verdict::Trusted;
    }
    if !offer.detour.is_empty() {
        return Verdict::Ask;
    }
    let leads_to = path.trim_start_matches('/');
    if is_user_server(&host, known.user_server_namespace) {
        return if leads_to == offer.cluster {
            Verdict::Trusted
        } else {
            Verdict::OtherCluster(leads_to.to_owned())
        };
    }
    if known.hosts.iter().any(|trusted| trusted.eq_ignore_ascii_case(&host)) {
        let last = path.rsplit('/').next().unwrap_or_default();
        return if last.is_empty() || last == offer.cluster {
            Verdict::Trusted
        } else {
            Verdict::OtherCluster(leads_to.to_owned())
        };
    }
    Verdict::Ask
}

/// Whether a host is the user-server's Service in `namespace`, in one of its cluster DNS names.
pub fn is_user_server(host: &str, namespace: &str) -> bool {
    let name = format!("{USER_SERVER}.{namespace}");
    ["", ".svc", ".svc.cluster.local"]
        .iter()
        .any(|suffix| host.strip_prefix(name.as_str()).is_some_and(|rest| rest == *suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(server: &str) -> Remembered {
        Remembered {
            hub: "h".into(),
            cluster: "cluster1".into(),
            server: server.into(),
            ca: "ca".into(),
            detour: String::new(),
            hub_identity: false,
        }
    }

    fn judged(server: &str) -> Verdict {
        let hosts = ["proxy.example.com".to_owned()];
        let known = Known {
            user_server_namespace: DEFAULT_NAMESPACE,
            hosts: &hosts,
            remembered: &[offer("https://seen/x")],
        };
        judge(&offer(server), &known)
    }

    #[test]
    fn ocms_own_user_server_is_trusted_with_the_cluster_that_its_path_names() {
        let base = "https://cluster-proxy-addon-user.open-cluster-management-addon";
        for good in ["", ":9092", ".svc:9092", ".svc.cluster.local:9092"] {
            assert_eq!(judged(&format!("{base}{good}/cluster1")), Verdict::Trusted, "{good}");
        }
        for path in
            ["/cluster2", "", "/cluster1/x", "/cluster2/../cluster1", "/cluster1%2f", "/cluster2/cluster1"]
        {
            assert!(matches!(judged(&format!("{base}:9092{path}")), Verdict::OtherCluster(_)), "{path}");
        }
    }

    #[test]
    fn an_address_means_nothing_where_a_proxy_or_another_name_decides_who_answers() {
        let hosts = ["proxy.example.com".to_owned()];
        let known = Known { user_server_namespace: DEFAULT_NAMESPACE, hosts: &hosts, remembered: &[] };
        for server in [
            "https://cluster-proxy-addon-user.open-cluster-management-addon:9092/cluster1",
            "https://proxy.example.com/cluster1",
        ] {
            let offer = Remembered { detour: "proxy http://evil:3128".into(), ..offer(server) };
            assert_eq!(judge(&offer, &known), Verdict::Ask, "{server}");
        }
    }

    #[test]
    fn a_bound_token_goes_where_its_profile_says_but_not_to_another_clusters_agent() {
        let hosts = ["proxy.example.com".to_owned()];
        let known = Known { user_server_namespace: DEFAULT_NAMESPACE, hosts: &hosts, remembered: &[] };
        let user_server = "https://cluster-proxy-addon-user.open-cluster-management-addon:9092";
        for server in
            ["https://anywhere", "https://proxy.example.com/other", &format!("{user_server}/cluster1")]
        {
            assert_eq!(judge_bound(&offer(server), &known), Verdict::Trusted, "{server}");
        }
        let other = judge_bound(&offer(&format!("{user_server}/other")), &known);
        assert_eq!(other, Verdict::OtherCluster("other".into()));
    }

    #[test]
    fn anything_that_only_looks_like_it_is_asked_about() {
        for host in [
            "cluster-proxy-addon-user.tenant:9092",
            "cluster-proxy-addon-user.open-cluster-management-addon.evil.example:9092",
            "xcluster-proxy-addon-user.open-cluster-management-addon:9092",
            "cluster-proxy-addon-user.open-cluster-management-addon@evil:9092",
            "127.0.0.1:6443",
        ] {
            assert_eq!(judged(&format!("https://{host}/cluster1")), Verdict::Ask, "{host}");
        }
        assert_eq!(
            judged("http://cluster-proxy-addon-user.open-cluster-management-addon/cluster1"),
            Verdict::Ask
        );
    }

    #[test]
    fn a_host_of_the_config_file_is_trusted_for_the_cluster_at_its_end() {
        assert_eq!(judged("https://proxy.example.com"), Verdict::Trusted);
        assert_eq!(judged("https://PROXY.example.com:1/a/cluster1/"), Verdict::Trusted);
        assert!(matches!(judged("https://proxy.example.com/cluster2"), Verdict::OtherCluster(_)));
        assert_eq!(judged("https://a.proxy.example.com"), Verdict::Ask);
    }

    #[test]
    fn what_was_agreed_to_holds_for_exactly_that() {
        let remembered = [offer("https://seen/x")];
        let known = Known { user_server_namespace: DEFAULT_NAMESPACE, hosts: &[], remembered: &remembered };
        assert_eq!(judge(&offer("https://seen/x"), &known), Verdict::Trusted);
        for changed in [
            Remembered { hub: "other".into(), ..offer("https://seen/x") },
            Remembered { cluster: "cluster2".into(), ..offer("https://seen/x") },
            Remembered { ca: "other".into(), ..offer("https://seen/x") },
            Remembered { detour: "by way of a proxy".into(), ..offer("https://seen/x") },
            Remembered { hub_identity: true, ..offer("https://seen/x") },
            offer("https://seen/y"),
        ] {
            assert_eq!(judge(&changed, &known), Verdict::Ask, "{changed:?}");
        }
    }
}
