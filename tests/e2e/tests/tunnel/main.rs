//! The way to an address that exists only inside the hub.

mod everyday;
mod hub_faults;
mod parts;
mod running;
