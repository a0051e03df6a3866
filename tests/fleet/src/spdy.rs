//! The server's side of SPDY/3.1 as `portforward` speaks it: streams that the client opens, no
//! flow control, no pushes, no settings.

mod frame;
mod headers;
mod session;

pub(crate) use frame::CHUNK;
pub(crate) use session::{Output, Stream, serve};
