//! The sealed environment in which the real binaries are run.

pub mod binaries;
pub mod controlplane;
pub mod proxy;
pub mod sealed;
