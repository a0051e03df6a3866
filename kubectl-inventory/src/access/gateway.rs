//! cluster-gateway: the hub's own API passes requests on to a cluster, for whoever the hub lets do so. The
//! hub's credentials are used, and no ClusterGateway is ever read: it holds those of the cluster. Pure.

use super::kubeconfig::ClusterEntry;

/// The API group.
pub const GROUP: &str = "cluster.core.oam.dev";

/// The entry of a cluster behind the hub.
pub fn through(hub: &ClusterEntry, cluster: &str) -> ClusterEntry {
    let server = hub.server.trim_end_matches('/');
    ClusterEntry {
        server: format!("{server}/apis/{GROUP}/v1alpha1/clustergateways/{cluster}/proxy"),
        ..hub.clone()
    }
}
