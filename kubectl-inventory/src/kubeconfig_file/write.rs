//! An edit's way to the disk: lock, read again, edit, write beside, sync, rename.

use super::document::Document;
use super::lock::{self, Lock};
use credential_exec::error::{Error, Kind, Result};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The kubeconfig at this path; a missing file is an empty one.
pub fn read(path: &Path) -> Result<Document> {
    match fs::read_to_string(path) {
        Ok(text) => Document::parse(&text).map_err(|error| {
            error.context(path.display()).remedy("correct the file, or name another one with --kubeconfig FILE")
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Document::empty()),
        Err(error) => Err(failed("cannot read", path, &error)),
    }
}

/// Edits the kubeconfig at this path under its lock. Nothing is written when the content stays the
/// same or the edit fails. Keep the network out of `change`: others wait for the lock.
pub fn edit<T>(path: &Path, now: SystemTime, change: impl FnOnce(&mut Document) -> Result<T>) -> Result<T> {
    edit_with(path, now, lock::PATIENCE, change)
}

fn edit_with<T>(
    path: &Path,
    now: SystemTime,
    patience: Duration,
    change: impl FnOnce(&mut Document) -> Result<T>,
) -> Result<T> {
    let real = real_path(path)?;
    create_folder(lock::folder(&real))?;
    let _named = Lock::take(path, now, patience)?;
    lock::sweep(path);
    let _linked = if real == path { None } else { Some(Lock::take(&real, now, patience)?) };
    lock::sweep(&real);

    let existing = match fs::metadata(&real) {
        Ok(meta) if !meta.is_file() => {
            return Err(Error::new(Kind::Usage, format!("{} is not a regular file", real.display()))
                .remedy("name another one with --kubeconfig FILE"));
        }
        Ok(meta) => Some(meta),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed("cannot read", &real, &error)),
    };
    let before = read(&real)?;
    let mut document = before.clone();
    let outcome = change(&mut document)?;
    if document != before {
        let text = document.to_yaml();
        if !Document::parse(&text).is_ok_and(|again| again == document) {
            return Err(Error::new(Kind::Failed, format!("{} holds what cannot be written back unchanged", real.display()))
                .remedy("write to another file with -o FILE, and report this with the file's odd part"));
        }
        replace(&real, existing.as_ref(), text.as_bytes()).map_err(|error| failed("cannot write", &real, &error))?;
    }
    Ok(outcome)
}

/// Replaces a file whole, keeping its mode and owner.
fn replace(real: &Path, existing: Option<&Metadata>, bytes: &[u8]) -> io::Result<()> {
    if existing.is_some() {
        // A file that may not be written is not to be replaced either, as kubectl has it.
        File::options().write(true).open(real)?;
    }
    let mut temp = lock::temp(real)?;
    temp.write_all(bytes)?;
    keep_owner_and_mode(temp.as_file(), existing)?;
    temp.as_file().sync_all()?;
    temp.persist(real)?;
    if cfg!(unix) {
        File::open(lock::folder(real))?.sync_all()?;
    }
    Ok(())
}

#[cfg(unix)]
fn keep_owner_and_mode(file: &File, existing: Option<&Metadata>) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let ours = file.metadata()?;
    let mode = existing.map_or(0o600, |old| old.mode() & 0o7777);
    if let Some(old) = existing.filter(|old| (old.uid(), old.gid()) != (ours.uid(), ours.gid())) {
        std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep_owner_and_mode(_: &File, _: Option<&Metadata>) -> io::Result<()> {
    Ok(())
}

/// The file behind a chain of links, which need not exist.
fn real_path(path: &Path) -> Result<PathBuf> {
    let mut real = path.to_owned();
    for _ in 0..40 {
        match fs::read_link(&real) {
            Ok(next) => real = lock::folder(&real).join(next),
            Err(_) => return Ok(real),
        }
    }
    Err(Error::new(Kind::Usage, format!("{} is a link that leads nowhere", path.display()))
        .remedy("correct the link, or name another file with --kubeconfig FILE"))
}

/// Creates a folder and those above it, each only for its owner, under any umask.
fn create_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        create_folder(above)?;
    }
    match fs::create_dir(path).and_then(|()| make_private(path)) {
        Err(error) if !path.is_dir() => Err(failed("cannot create", path, &error)),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> io::Result<()> {
    Ok(())
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space and run the command again",
        ErrorKind::InvalidData => "the file is not UTF-8 text; name another one with --kubeconfig FILE",
        _ => "check the file's owner and mode, or name another one with --kubeconfig FILE",
    };
    Error::new(Kind::Failed, format!("{what} {}: {error}", path.display())).remedy(remedy)
}
