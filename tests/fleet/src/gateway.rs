//! cluster-gateway's proxy on the hub: `/apis/cluster.core.oam.dev/v1alpha1/clustergateways/<name>/proxy/…`
//! is the API of that cluster, for whoever the hub lets do it. The gateway signs in there by itself.

use std::sync::Arc;

use http::Uri;
use http::header::AUTHORIZATION;
use http::request::Parts;

use crate::auth::User;
use crate::request::Request;
use crate::resources::Resource;
use crate::server::{Inner, Server};

/// The kind that a hub with cluster-gateway serves; for [`crate::Builder::with`].
pub fn cluster_gateway() -> Resource {
    Resource::new("cluster.core.oam.dev", "v1alpha1", "clustergateways", "ClusterGateway", false)
}

/// Who is signed in already, whatever the request says.
#[derive(Clone)]
pub(crate) struct Vouched(pub(crate) User);

/// The cluster behind a request to the proxy, where the hub serves it.
pub(crate) fn behind(inner: &Arc<Inner>, request: &Request) -> Option<Server> {
    let kind = &request.key;
    (kind.resource == "clustergateways" && request.subresource == "proxy").then_some(())?;
    inner.resource(kind)?;
    inner.behind(&kind.name)
}

/// The request as the cluster gets it.
pub(crate) fn pass_on(parts: &mut Parts, cluster: &str) {
    let path = parts.uri.path_and_query().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let rest = path.split_once(&format!("/clustergateways/{cluster}/proxy")).map_or("/", |(_, rest)| rest);
    let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    parts.uri = Uri::try_from(rest).unwrap_or_default();
    parts.headers.remove(AUTHORIZATION);
    for name in ["impersonate-user", "impersonate-group", "impersonate-uid"] {
        parts.headers.remove(name);
    }
    parts.extensions.insert(Vouched(User::new("system:serviceaccount:vela-system:cluster-gateway")));
}
