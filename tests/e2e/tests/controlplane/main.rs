//! The real binaries and the real kubectl on real API servers.

mod consumers;
mod ocm;
mod ways_in;
