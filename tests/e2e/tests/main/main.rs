//! The real binaries, run as a person and as kubectl would, against the embedded fleet.

mod cache;
mod completion;
mod consumers;
mod credential;
mod describe;
mod doctor;
mod foreach;
mod get;
mod hubs;
mod kubeconfig;
mod kubectl;
mod missing;
mod one_shell;
mod providers;
mod secrets;
mod security;
mod sources;
mod sync;
mod use_cluster;
