//! The verbs, one a file: from options to one output.

pub mod accounts;
pub mod cache;
pub mod complete;
pub mod describe;
pub mod detect;
pub mod doctor;
pub mod entries;
pub mod env;
pub mod foreach;
pub mod get;
pub mod kubeconfig;
pub mod list;
pub mod member;
pub mod permission;
pub mod placement;
pub mod provider_config;
pub mod question;
pub mod selection;
pub mod switch;
pub mod sync;
pub mod tunnel;
pub mod use_cluster;
pub mod version;
pub mod watch;
pub mod way_in;
