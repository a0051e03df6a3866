//! What a command asks once, however many clusters it is about: facts of the hub, and of servers that many
//! clusters share.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use credential_exec::env::Env;
use credential_exec::error::{Error, Result};
use credential_exec::hub::Client;
use tokio::sync::OnceCell;

use crate::access::endpoint;
use crate::access::kubeconfig::ClusterEntry;
use crate::access::trust::Remembered;
use crate::cmd::accounts;
use crate::trust_store;

/// The answers so far.
#[derive(Debug, Default)]
pub struct Once {
    namespace: OnceCell<String>,
    missing: OnceCell<Option<Error>>,
    remembered: OnceCell<Vec<Remembered>>,
    answers: RefCell<BTreeMap<String, Rc<OnceCell<bool>>>>,
    ports: RefCell<BTreeMap<String, u16>>,
}

impl Once {
    /// As [`accounts::user_server_namespace`].
    ///
    /// # Errors
    /// Only a hub that cannot be reached.
    pub async fn user_server_namespace(&self, client: &Client) -> Result<&str> {
        let asked = self.namespace.get_or_try_init(|| accounts::user_server_namespace(client)).await;
        asked.map(String::as_str)
    }

    /// As [`accounts::missing_user_server`].
    ///
    /// # Errors
    /// Only a hub that cannot be reached.
    pub async fn missing_user_server(&self, client: &Client, namespace: &str) -> Result<Option<&Error>> {
        let asked = self.missing.get_or_try_init(|| accounts::missing_user_server(client, namespace)).await;
        asked.map(Option::as_ref)
    }

    /// What the person has agreed to before.
    ///
    /// # Errors
    /// Those of reading it.
    pub async fn remembered(&self, env: &Env) -> Result<&[Remembered]> {
        let read = self.remembered.get_or_try_init(async || trust_store::load(env)).await;
        read.map(Vec::as_slice)
    }

    /// Whether a server answers, which is the same for all paths of it.
    pub async fn answers(&self, entry: &ClusterEntry, probe: impl Future<Output = bool>) -> bool {
        let server = entry.server.trim_end_matches('/');
        let path = endpoint::parse_server(server).map(|server| server.path).unwrap_or_default();
        let authority = server.strip_suffix(path.as_str()).unwrap_or(server);
        let key =
            format!("{authority} {:?} {:?} {:?}", entry.tls_server_name, entry.ca_data, entry.proxy_url);
        let cell = Rc::clone(self.answers.borrow_mut().entry(key).or_default());
        *cell.get_or_init(|| probe).await
    }

    /// The port of this machine that leads to a Service.
    ///
    /// # Errors
    /// Those of choosing one.
    pub fn port(&self, target: &str, choose: impl FnOnce() -> Result<u16>) -> Result<u16> {
        if let Some(port) = self.ports.borrow().get(target) {
            return Ok(*port);
        }
        let port = choose()?;
        self.ports.borrow_mut().insert(target.to_owned(), port);
        Ok(port)
    }
}
