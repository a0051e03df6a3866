//! A hub whose own login is a spoke of another hub is fine; a circle of them is not. Each
//! credential-exec passes the requests above it on to the plugin it runs, in one variable.

use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::hub::Hub;

/// The variable that lists the requests above, oldest first, separated by commas.
pub const VARIABLE: &str = "KUBECTL_INVENTORY_GUARD";

const DEPTH: usize = 3;

/// Refuses a request that already waits for itself, and chains of hubs deeper than three.
/// Answers the variable's value for what runs beneath.
///
/// # Errors
/// [`Kind::Failed`], `refusing to recurse`.
pub fn enter(hash: &str, env: &Env) -> Result<String> {
    let above = env.var(VARIABLE).unwrap_or_default();
    let chain: Vec<&str> = above.split(',').filter(|h| !h.is_empty()).collect();
    if chain.contains(&hash) {
        return Err(recursion("the hub's login leads back to this same request"));
    }
    if chain.len() >= DEPTH {
        return Err(recursion(&format!("more than {DEPTH} hubs lie behind one another")));
    }
    Ok(chain.into_iter().chain([hash]).collect::<Vec<_>>().join(","))
}

/// Sees a hub whose login is this very command before it is run.
///
/// # Errors
/// As [`enter`].
pub fn check_hub(hub: &Hub, own_args: &[String]) -> Result<()> {
    match &hub.user.exec {
        Some(exec) if exec.args == own_args => {
            Err(recursion(&format!("context {} is its own hub", hub.context)))
        }
        _ => Ok(()),
    }
}

fn recursion(why: &str) -> Error {
    Error::new(Kind::Failed, format!("refusing to recurse: {why}"))
        .remedy("point the entry at a hub that is reached without it: `kubectl inventory use --context HUB`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_hubs_deep_is_fine_and_a_circle_is_not() {
        let mut env = Env::of([("X", "")]);
        for hash in ["a", "b", "c"] {
            env = Env::of([(VARIABLE, enter(hash, &env).unwrap())]);
        }
        assert!(enter("d", &env).unwrap_err().cause.contains("more than 3"));
        assert!(enter("b", &env).unwrap_err().cause.contains("refusing to recurse"));
    }
}
