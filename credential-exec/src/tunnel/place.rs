//! Where the tunnels of this user keep their sockets, locks and logs, and what each is called.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cache::{Cache, short_hash};
use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::os;

/// A Unix socket's path has room for little more.
const LONGEST: usize = 100;

/// The directories in which tunnels are looked for, in order: `$KUBECTL_INVENTORY_RUNTIME_DIR` alone,
/// else one in the cache directory, else (where that path is too long or not ours to write) one below
/// the system's directory for temporary files, named after user and cache directory.
pub fn candidates(env: &Env) -> Vec<PathBuf> {
    if let Some(dir) = env.path("KUBECTL_INVENTORY_RUNTIME_DIR") {
        return vec![dir];
    }
    let cache = Cache::of(env).base().map(|base| base.join("tunnels"));
    let named = cache.as_ref().map_or(String::new(), |cache| short_hash(&cache.to_string_lossy()));
    let short = format!("kubectl-inventory-{}-{named}", os::user());
    let mut dirs = Vec::new();
    dirs.extend(cache.filter(|dir| dir.as_os_str().len() + 24 < LONGEST));
    dirs.push(os::temporary_dir().join(short));
    dirs
}

/// The first of the directories that can be used, made if need be.
///
/// # Errors
/// [`Kind::Failed`], naming the last one and why.
pub fn usable(env: &Env) -> Result<PathBuf> {
    let mut failure = Error::new(Kind::Failed, "there is no directory for tunnels");
    for dir in candidates(env) {
        match os::create_private_dir(&dir).and_then(|()| os::check_private_dir(&dir)) {
            Ok(()) => return Ok(dir),
            Err(error) => {
                let cause = format!("no tunnel can be kept in {}: {error}", dir.display());
                failure = Error::new(Kind::Failed, cause)
                    .remedy("name a private directory of yours in KUBECTL_INVENTORY_RUNTIME_DIR");
            }
        }
    }
    Err(failure)
}

/// The files of one tunnel.
#[derive(Clone, Debug)]
pub struct Place {
    dir: PathBuf,
    name: String,
}

impl Place {
    /// The files of the tunnel of this name.
    pub fn new(dir: &Path, name: &str) -> Self {
        Self { dir: dir.to_owned(), name: name.to_owned() }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.file("sock")
    }

    /// Its log.
    pub fn log(&self) -> PathBuf {
        self.file("log")
    }

    /// The socket of a tunnel that leaves, by its process.
    pub fn leaving(&self, pid: u32) -> PathBuf {
        self.dir.join(format!("{}-{pid}.sock", self.name))
    }

    /// Held by whoever starts it; waits up to `limit` for another that does.
    pub fn starting(&self, limit: Duration) -> Option<std::fs::File> {
        let file = os::open_private_rw(&self.file("lock")).ok()?;
        let end = Instant::now() + limit;
        while file.try_lock().is_err() {
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(file)
    }

    /// Held by the tunnel for as long as it lives; `None` while there is one.
    pub fn living(&self) -> Option<std::fs::File> {
        let file = os::open_private_rw(&self.file("live")).ok()?;
        file.try_lock().ok()?;
        Some(file)
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", self.name))
    }
}

/// The sockets of all tunnels of this user.
pub fn sockets(env: &Env) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = candidates(env)
        .iter()
        .filter(|dir| os::check_private_dir(dir).is_ok())
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flat_map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_too_long_for_a_socket_is_not_used() {
        let long = format!("/{}", "x".repeat(90));
        for (cache, used) in [("/short", "/short/tunnels"), (long.as_str(), "/tmp/kubectl-inventory-")] {
            let env = Env::of([("KUBECTL_INVENTORY_CACHE_DIR", cache)]);
            let first = candidates(&env).remove(0);
            assert!(first.to_string_lossy().starts_with(used) || cfg!(windows), "{}", first.display());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_others_may_enter_is_passed_over() {
        use std::os::unix::fs::PermissionsExt;
        let cache = tempfile::tempdir().unwrap();
        let env = Env::of([("KUBECTL_INVENTORY_CACHE_DIR", cache.path())]);
        let [first, second] = [0, 1].map(|at| candidates(&env)[at].clone());
        assert_eq!(usable(&env).unwrap(), first);
        std::fs::set_permissions(&first, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(usable(&env).unwrap(), second);
        std::fs::remove_dir(second).unwrap();
    }

    #[test]
    fn one_lives_and_one_starts_it() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(dir.path(), "x");
        let living = place.living().unwrap();
        assert!(place.living().is_none());
        drop(living);
        assert!(place.living().is_some());
        let starting = place.starting(Duration::ZERO).unwrap();
        assert!(place.starting(Duration::ZERO).is_none());
        drop(starting);
        assert!(place.starting(Duration::ZERO).is_some());
    }
}
