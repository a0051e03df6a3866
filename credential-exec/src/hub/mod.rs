//! The only door to a Kubernetes API, for both binaries: a kubeconfig read by client-go's rules
//! ([`kubeconfig`]), who we are there ([`identity`], by plugins that [`kuberc`] lets run), whom we trust ([`tls`]), and the transport
//! ([`client`]).

pub mod client;
pub mod identity;
pub mod kubeconfig;
pub mod kuberc;
mod proxy;
#[cfg(test)]
mod testing;
pub mod tls;

pub use client::{Answer, Client};
pub use kubeconfig::{Hub, Kubeconfig};
