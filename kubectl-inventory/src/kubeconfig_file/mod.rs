//! A person's kubeconfig: our entries in it, everybody else's left alone.
//!
//! [`Document`] holds the file's content and the edits on it (pure); [`edit`] carries an edit to the
//! disk under client-go's lock, so that a reader sees the old file or the new one, never a torn one.

mod document;
mod entry;
mod lock;
mod write;
mod yaml;

pub use document::{Document, Ours};
pub use entry::{Change, EXTENSION, Entry, Mark, Update};
pub use write::{edit, read};

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result};
use std::path::{Path, PathBuf};

/// The file that edits go to, as in client-go: the explicit one, else the first existing file of
/// `$KUBECONFIG`, else its last, else `~/.kube/config`.
pub fn target(env: &Env, explicit: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = explicit {
        return Ok(path.to_owned());
    }
    let listed = env.os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> =
        std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if let Some(path) = listed.iter().find(|path| path.exists()).or(listed.last()) {
        return Ok(path.clone());
    }
    let home = env.home().ok_or_else(|| {
        Error::new(Kind::Usage, "neither KUBECONFIG nor HOME is set")
            .remedy("name a file with --kubeconfig FILE")
    })?;
    Ok(home.join(".kube").join("config"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_written_is_the_one_kubectl_config_would_write() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
        let list = |paths: &[&PathBuf]| std::env::join_paths(paths).unwrap();
        let env = Env::of([("HOME", dir.path().as_os_str().to_owned()), ("KUBECONFIG", list(&[&a, &b, &c]))]);
        assert_eq!(target(&env, Some(Path::new("x"))).unwrap(), Path::new("x"));
        assert_eq!(target(&env, None).unwrap(), c);
        std::fs::write(&b, "").unwrap();
        assert_eq!(target(&env, None).unwrap(), b);

        let env = Env::of([("HOME", dir.path())]);
        assert_eq!(target(&env, None).unwrap(), dir.path().join(".kube/config"));
        let error = target(&Env::of::<&str, &str>([]), None).unwrap_err();
        assert!(error.cause.contains("HOME"), "{error}");
    }
}
