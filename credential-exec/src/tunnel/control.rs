//! What is asked of a running tunnel over its socket, and what it answers: one line of JSON each.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};
use crate::os;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Ask {
    /// To be ready for connections to this port, and to say whether a server of this trust was met.
    Ready {
        /// The local port.
        port: u16,
        /// Hash of the certificate authority that the connections will be checked against.
        trust: u64,
    },
    /// To try again what failed for want of a login: a person has just logged in to the hub.
    LoggedIn,
    /// To note that the server behind it was met and is the one that this trust stands for.
    Met {
        /// As above.
        trust: u64,
    },
    /// To tell about itself.
    Status,
    /// To take no new connections, and to leave when the last one has ended.
    Drain,
    /// To leave at once.
    Stop,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The version of the tunnel's program.
    pub version: String,
    /// Whether the server behind it was met by this trust; see [`Ask::Ready`].
    #[serde(default)]
    pub met: bool,
    /// Why it is not ready.
    #[serde(default)]
    pub error: Option<Failure>,
    /// What it tells about itself.
    #[serde(default)]
    pub status: Option<Status>,
}

/// An error on its way through the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    code: u8,
    cause: String,
    remedy: String,
    /// Whether a login by a person may help.
    pub login: bool,
}

impl Failure {
    /// An error to be sent.
    pub fn new(error: Error, login: bool) -> Self {
        Self { code: error.kind.code(), cause: error.cause, remedy: error.remedy, login }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(Kind::from_code(failure.code), failure.cause).remedy(failure.remedy)
    }
}

/// What a tunnel tells about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The context that the hub was found by.
    pub hub: String,
    /// The hub's server.
    pub hub_server: String,
    /// The Service, as `namespace/name:port`.
    pub service: String,
    /// The Pod that it is connected to; empty while there is none.
    pub pod: String,
    /// The local ports that lead to it.
    pub ports: Vec<u16>,
    /// Its process.
    pub pid: u32,
    /// The version of its program.
    pub version: String,
    /// When it was started, in seconds since the epoch.
    pub since: i64,
    /// How many connections are open.
    pub connections: u64,
    /// How many there were in all.
    pub total_connections: u64,
    /// Bytes that went to the cluster.
    pub sent_bytes: u64,
    /// Bytes that came from the cluster.
    pub received_bytes: u64,
    /// After how many more seconds without use it leaves.
    pub idle_left_seconds: u64,
    /// Whether it takes no new connections.
    pub draining: bool,
    /// What went wrong last; empty when nothing did since.
    pub last_error: String,
}

/// Asks the tunnel at this socket.
///
/// # Errors
/// Those of the connection; `NotFound` and `ConnectionRefused` mean that there is none.
pub fn ask(socket: &Path, ask: &Ask, limit: Duration) -> std::io::Result<Reply> {
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    let mut connection = os::connect_local(socket, limit)?;
    connection.write_all(&line)?;
    let mut answer = Vec::new();
    let mut piece = [0; 1024];
    while answer.last() != Some(&b'\n') {
        match connection.read(&mut piece)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => answer.extend_from_slice(&piece[..read]),
        }
    }
    Ok(serde_json::from_slice(&answer)?)
}
