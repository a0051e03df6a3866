//! client-go's lock on a kubeconfig: a file `<file>.lock` that must not exist yet.
//!
//! Ours holds our process id, and the kernel's lock on it is held for as long as we live. So a
//! lock whose process died is taken over by the next run, whatever became of the process id, and a
//! lock of another program (client-go's is empty) never is.

use credential_exec::error::{Error, Kind, Result};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// How long a lock may stay in the same hands before we give up.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(15);
const MAGIC: &str = "kubectl-inventory, process ";

/// The lock, held until dropped.
pub(super) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Waits for the lock on a kubeconfig and takes it.
    pub(super) fn take(target: &Path, now: SystemTime, patience: Duration) -> Result<Self> {
        let path = beside(target, "", ".lock");
        let started = Instant::now();
        let (mut holder, mut since) = (None, started);
        loop {
            let taken = if modified(&path).is_none() { place(target, &path) } else { take_over(&path) };
            match taken {
                Ok(file) => return Ok(Self { path, file }),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => {
                    return Err(Error::new(
                        Kind::Failed,
                        format!("cannot create {}: {error}", path.display()),
                    )
                    .remedy(
                        "make the folder writable and free some space, or write elsewhere with -o FILE",
                    ));
                }
            }
            let seen = modified(&path);
            if seen != holder {
                (holder, since) = (seen, Instant::now());
            }
            if since.elapsed() > patience {
                return Err(busy(&path, now + started.elapsed()));
            }
            sleep(PAUSE);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes what dead runs left beside a kubeconfig. Only to be called while holding its lock.
pub(super) fn sweep(target: &Path) {
    let prefix = temp_prefix(target);
    let Ok(entries) = std::fs::read_dir(folder(target)) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes());
        if ours && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let abandoned = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if abandoned {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// A new private file in the kubeconfig's folder that [`sweep`] spares while we live.
pub(super) fn temp(target: &Path) -> io::Result<tempfile::NamedTempFile> {
    let file = tempfile::Builder::new().prefix(&temp_prefix(target)).tempfile_in(folder(target))?;
    match file.as_file().try_lock() {
        Err(TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
        // A file system without such locks: a lock left by a dead run stays until a person removes it.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// The folder that a file is in.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temp_prefix(target: &Path) -> OsString {
    beside(Path::new(target.file_name().unwrap_or_default()), ".", ".kubectl-inventory-").into_os_string()
}

fn beside(path: &Path, before: &str, after: &str) -> PathBuf {
    let mut name = OsString::from(before);
    name.push(path.file_name().unwrap_or_default());
    name.push(after);
    path.with_file_name(name)
}

/// Makes the lock appear with its content and its kernel lock. [`ErrorKind::WouldBlock`] if another
/// run was faster.
fn place(target: &Path, path: &Path) -> io::Result<File> {
    let mut file = temp(target)?;
    file.write_all(content().as_bytes())?;
    match file.persist_noclobber(path) {
        Ok(file) => Ok(file),
        Err(error) if matches!(error.error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
            Err(ErrorKind::WouldBlock.into())
        }
        // A file system that knows neither exclusive renames nor hard links.
        Err(_) => {
            let mut file = match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return Err(ErrorKind::WouldBlock.into());
                }
                other => other?,
            };
            let _ = file.try_lock();
            file.write_all(content().as_bytes())?;
            Ok(file)
        }
    }
}

/// A lock of ours whose process is gone becomes this process's; any other is left alone.
fn take_over(path: &Path) -> io::Result<File> {
    let taken = || {
        if !std::fs::symlink_metadata(path).ok()?.is_file() {
            return None;
        }
        let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        file.try_lock().ok()?;
        if !read(&mut file)?.starts_with(MAGIC) || !is_at(&file, path) {
            return None;
        }
        file.seek(SeekFrom::Start(0)).ok()?;
        // Of the same length, so that the file is ours at every moment.
        file.write_all(content().as_bytes()).ok()?;
        Some(file)
    };
    taken().ok_or_else(|| ErrorKind::WouldBlock.into())
}

fn content() -> String {
    format!("{MAGIC}{:>10}\n", std::process::id())
}

fn read(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.take(200).read_to_string(&mut text).ok()?;
    Some(text)
}

fn modified(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.modified().ok()?, inode(&meta)))
}

#[cfg(unix)]
fn inode(meta: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> u64 {
    0
}

/// Whether the open file is the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => inode(&open) == inode(&there),
        _ => false,
    }
}

fn busy(path: &Path, now: SystemTime) -> Error {
    let age =
        modified(path).and_then(|(since, _)| now.duration_since(since).ok()).unwrap_or_default().as_secs();
    let age = match age {
        0..120 => format!("{age} s"),
        120..7200 => format!("{} min", age / 60),
        7200..172_800 => format!("{} h", age / 3600),
        _ => format!("{} d", age / 86_400),
    };
    let regular = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let text = regular.then(|| File::open(path).ok().and_then(|mut file| read(&mut file))).flatten();
    let holder = match text.as_deref().and_then(|text| text.strip_prefix(MAGIC)) {
        Some(pid) => format!("process {} of this plugin", pid.trim()),
        None => "another program".to_owned(),
    };
    Error::new(
        Kind::Failed,
        format!("the kubeconfig is locked: {} has been there for {age}, made by {holder}", path.display()),
    )
    .remedy("wait for the other command; if none is running, remove that file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SHORT: Duration = Duration::from_millis(60);

    fn kubeconfig() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("config");
        let lock = dir.path().join("config.lock");
        (dir, target, lock)
    }

    #[test]
    fn the_lock_is_client_gos_file_and_goes_when_done() {
        let (dir, target, path) = kubeconfig();
        let lock = Lock::take(&target, SystemTime::now(), SHORT).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap().trim_start_matches(MAGIC).trim(),
            std::process::id().to_string()
        );
        drop(lock);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_lock_of_another_program_is_waited_for_named_and_left_alone() {
        let (_dir, target, path) = kubeconfig();
        for content in ["", "something else"] {
            fs::write(&path, content).unwrap();
            let later = SystemTime::now() + Duration::from_secs(600);
            let error = Lock::take(&target, later, SHORT).err().unwrap();
            assert!(error.cause.contains(path.to_str().unwrap()), "{error}");
            assert!(error.cause.contains("for 10 min, made by another program"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn a_lock_that_is_no_file_is_left_alone() {
        let (_dir, target, path) = kubeconfig();
        fs::create_dir(&path).unwrap();
        assert!(Lock::take(&target, SystemTime::now(), SHORT).is_err());
        assert!(path.is_dir());
    }

    #[test]
    fn a_lock_of_ours_in_living_hands_is_waited_for_even_under_a_reused_process_id() {
        let (_dir, target, path) = kubeconfig();
        let held = Lock::take(&target, SystemTime::now(), SHORT).unwrap();
        let error = Lock::take(&target, SystemTime::now(), SHORT).err().unwrap();
        assert!(error.cause.contains(&format!("process {} of this plugin", std::process::id())), "{error}");
        drop(held);
        // The process id lives (it is ours), the run that wrote the file does not.
        fs::write(&path, content()).unwrap();
        assert!(Lock::take(&target, SystemTime::now(), SHORT).is_ok());
        assert!(!path.exists());
    }

    #[test]
    fn a_lock_that_changes_hands_is_waited_for_longer_than_our_patience() {
        let (_dir, target, path) = kubeconfig();
        fs::write(&path, "").unwrap();
        let mover = std::thread::spawn(move || {
            for _ in 0..6 {
                sleep(SHORT);
                fs::write(&path, "x").unwrap();
            }
            fs::remove_file(&path).unwrap();
        });
        let lock = Lock::take(&target, SystemTime::now(), SHORT * 10);
        mover.join().unwrap();
        assert!(lock.is_ok());
    }

    #[test]
    fn a_lock_that_somebody_replaced_is_not_removed_by_us() {
        let (_dir, target, path) = kubeconfig();
        let lock = Lock::take(&target, SystemTime::now(), SHORT).unwrap();
        let other = path.with_extension("other");
        fs::write(&other, "theirs").unwrap();
        fs::rename(&other, &path).unwrap();
        drop(lock);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn what_dead_runs_left_is_removed_and_what_lives_is_not() {
        let (dir, target, _) = kubeconfig();
        let living = temp(&target).unwrap();
        fs::write(dir.path().join(".config.kubectl-inventory-dead"), "").unwrap();
        fs::write(dir.path().join(".config2.kubectl-inventory-foreign"), "").unwrap();
        sweep(&target);
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        left.sort();
        let mut expected =
            vec![dir.path().join(".config2.kubectl-inventory-foreign"), living.path().to_owned()];
        expected.sort();
        assert_eq!(left, expected);
    }
}
