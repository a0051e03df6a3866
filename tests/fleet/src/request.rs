//! One request as matchers, rules and the log see it.

use percent_encoding::percent_decode_str;

use crate::key::{self, Key};

/// How a request signed in. Holds no credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// Not at all.
    #[default]
    None,
    /// By a bearer token.
    Bearer,
    /// By user name and password.
    Basic,
    /// By a client certificate.
    ClientCertificate,
    /// By an `Authorization` header of another kind.
    Other,
}

/// A request, taken apart.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// HTTP method.
    pub method: String,
    /// Path without the cluster prefix.
    pub path: String,
    /// The first path element when it names a cluster (`/<cluster>/api/…`), else `""`.
    pub prefix: String,
    /// Raw query, `""` if none.
    pub query: String,
    /// API verb: get, list, watch, create, update, patch, delete; for other paths the method in
    /// lower case.
    pub verb: String,
    /// What the path names; all empty for a path that names no resource.
    pub key: Key,
    /// Subresource, `""` if none.
    pub subresource: String,
    /// Who asks, after impersonation; `""` when nobody that the server knows.
    pub user: String,
    /// `User-Agent`.
    pub user_agent: String,
    /// How it signed in.
    pub authorization: Authorization,
    /// `Impersonate-User`, `""` if none.
    pub impersonate: String,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str, query: &str) -> Self {
        let root = ["api", "apis", "version", "openapi", "healthz", "livez", "readyz", "metrics"];
        let (mut prefix, mut rest) = ("", path);
        if let Some((first, after)) = path.strip_prefix('/').and_then(|p| p.split_once('/'))
            && !root.contains(&first)
        {
            (prefix, rest) = (first, after);
        }
        let path = format!("/{}", rest.trim_start_matches('/'));
        let (key, subresource) = key::parse(&decode(&path)).unwrap_or_default();
        let mut request = Self {
            method: method.into(),
            path,
            prefix: prefix.into(),
            query: query.into(),
            key,
            subresource,
            ..Self::default()
        };
        request.verb = request.api_verb();
        request
    }

    /// A parameter of the query, decoded; `""` if it is not there.
    pub fn parameter(&self, name: &str) -> String {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .filter(|(key, _)| decode(key) == name)
            .map(|(_, value)| decode(&value.replace('+', " ")))
            .next()
            .unwrap_or_default()
    }

    /// Whether the path names a resource.
    pub fn is_resource(&self) -> bool {
        !self.key.resource.is_empty()
    }

    /// Whether it asks for a port-forward to a Pod.
    pub fn is_portforward(&self) -> bool {
        self.key.group.is_empty() && self.key.resource == "pods" && self.subresource == "portforward"
    }

    fn api_verb(&self) -> String {
        let one = !self.key.name.is_empty();
        let verb = match self.method.as_str() {
            "GET" if self.is_resource() && matches!(self.parameter("watch").as_str(), "true" | "1") => {
                "watch"
            }
            "GET" if self.is_resource() && !one => "list",
            "PUT" => "update",
            "POST" => "create",
            "DELETE" if !one => "deletecollection",
            method => return method.to_lowercase(),
        };
        verb.to_owned()
    }
}

/// One line of the request log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// HTTP method.
    pub method: String,
    /// Path without the cluster prefix.
    pub path: String,
    /// The cluster prefix, `""` if none.
    pub prefix: String,
    /// Raw query.
    pub query: String,
    /// `User-Agent`.
    pub user_agent: String,
    /// How it signed in.
    pub authorization: Authorization,
    /// Who asked, after impersonation; `""` when unknown.
    pub user: String,
    /// The status answered; 0 when there was no answer.
    pub status: u16,
    /// `h2` or `http/1.1`.
    pub alpn: String,
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_prefix_and_the_verb_are_told_from_the_path() {
        let request = Request::new("GET", "/cluster1/api/v1/pods", "watch=true&labelSelector=a%3Db+c");
        assert_eq!((request.prefix.as_str(), request.path.as_str()), ("cluster1", "/api/v1/pods"));
        assert_eq!((request.verb.as_str(), request.parameter("labelSelector").as_str()), ("watch", "a=b c"));
        assert_eq!(Request::new("GET", "/version", "").prefix, "");
        assert_eq!(Request::new("GET", "/api/v1/pods", "limit=5").verb, "list");
        assert_eq!(Request::new("DELETE", "/api/v1/namespaces/a", "").verb, "delete");
    }
}
