//! The sealed environment in which the real binaries are run.

pub mod controlplane;
