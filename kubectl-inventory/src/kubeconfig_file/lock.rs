//! client-go's lock on a kubeconfig: a file `<file>.lock` that must not exist yet.
//!
//! Ours holds our process id, and the kernel's lock on it is held for as long as we live. So a
//! lock whose process died is taken over by the next run, whatever became of the process id, and a
//! lock of another program (client-go's is empty) never is.

use credential_exec::error::{Error, Kind, Result};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
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
            let placed = place(target, &path);
            let error = match placed {
                Ok(file) => return Ok(Self { path, file }),
                Err(error) => error,
            };
            if error.kind() == ErrorKind::AlreadyExists {
                if let Some(file) = take_over(&path) {
                    return Ok(Self { path, file });
                }
            } else if error.kind() != ErrorKind::NotFound || since.elapsed() > patience {
                return Err(Error::new(Kind::Failed, format!("cannot create {}: {error}", path.display()))
                    .remedy("make the folder writable and free some space, or write elsewhere with -o FILE"));
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
    let _ = file.as_file().try_lock();
    Ok(file)
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

/// Makes the lock appear with its content and its kernel lock, or fails if there is one.
fn place(target: &Path, path: &Path) -> io::Result<File> {
    let mut file = temp(target)?;
    file.write_all(content().as_bytes())?;
    match file.persist_noclobber(path) {
        Ok(file) => Ok(file),
        Err(error) if matches!(error.error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Err(error.error),
        // A file system that knows neither exclusive renames nor hard links.
        Err(_) => {
            let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
            let _ = file.try_lock();
            file.write_all(content().as_bytes())?;
            Ok(file)
        }
    }
}

/// A lock of ours whose process is gone becomes this process's.
fn take_over(path: &Path) -> Option<File> {
    if !std::fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    file.try_lock().ok()?;
    let content_now = read(&mut file)?;
    if !content_now.starts_with(MAGIC) || !is_at(&file, path) {
        return None;
    }
    file.seek(SeekFrom::Start(0)).ok()?;
    // Of the same length, so that the file is ours at every moment.
    file.write_all(content().as_bytes()).ok()?;
    Some(file)
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
    let age = modified(path).and_then(|(since, _)| now.duration_since(since).ok()).unwrap_or_default().as_secs();
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
    Error::new(Kind::Failed, format!("the kubeconfig is locked: {} has been there for {age}, made by {holder}", path.display()))
        .remedy("wait for the other command; if none is running, remove that file")
}
