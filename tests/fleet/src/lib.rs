//! An embedded hub and spokes: HTTPS API servers in one process, laid out as OCM does it, with
//! faults on demand and a request log. For the demo and the tests.
//!
//! ```no_run
//! use fleet::{AccountSpec, CertShape, Fault, Fleet, TokenKind};
//! use std::time::Duration;
//!
//! let fleet = Fleet::builder()
//!     .spokes(2)
//!     .account("cluster2", "admin", AccountSpec { token: TokenKind::jwt(90), ..AccountSpec::default() })
//!     .spoke_certificate(CertShape::LoneLeaf)
//!     .without("proxy.open-cluster-management.io")
//!     .start();
//! fleet.write_kubeconfig("hub.kubeconfig").unwrap();
//! fleet.hub().fault(|r| r.key.resource == "secrets", Fault::Slow(Duration::from_secs(1))).times(2);
//! fleet.hub().forbid(|r| r.verb == "list" && r.key.namespace.is_empty());
//! fleet.hub().edit(fleet::profile_path("cluster-inventory", "cluster1"), |p| p["status"] = ().into());
//! let old = fleet.token("cluster1", "inventory");
//! fleet.rotate("cluster1", "inventory");
//! fleet.spoke("cluster1").revoke(&old);
//! assert!(fleet.hub().log().iter().all(|line| line.status != 500));
//! ```

mod answer;
mod auth;
mod certs;
mod faults;
mod fleet;
mod forwards;
mod gateway;
mod key;
mod link;
mod listen;
pub mod machine;
pub mod ocm;
mod patch;
mod portforward;
mod request;
mod resources;
mod routes;
mod selector;
mod server;
mod spdy;
mod spec;
mod spoke;
mod store;
mod table;
mod tokens;
pub mod tunnel;
mod watch;
mod wire;

pub use certs::{CertShape, CertSpec, ClientCertificate, Identity};
pub use faults::{Fault, FaultRule};
pub use fleet::{Fleet, profile_path};
pub use gateway::cluster_gateway;
pub use key::Key;
pub use request::{Authorization, Logged, Request};
pub use resources::Resource;
pub use server::Server;
pub use spec::{ACCOUNT, AccountSpec, Builder, ClusterSpec, INVENTORY};
pub use tokens::{TokenKind, mint};
pub use tunnel::Tunnel;
