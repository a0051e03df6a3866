//! The way to an address that exists only inside the hub.

mod everyday;
mod exposure;
mod faults;
mod hub_faults;
mod identity;
mod laptop;
mod parts;
mod reach;
mod running;
