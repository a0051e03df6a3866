//! The verbs, one a file: from options to one output.

pub mod accounts;
pub mod cache;
pub mod describe;
pub mod detect;
pub mod get;
pub mod list;
pub mod permission;
pub mod placement;
pub mod provider_config;
pub mod question;
pub mod switch;
pub mod tunnel;
pub mod use_cluster;
pub mod version;
pub mod way_in;
