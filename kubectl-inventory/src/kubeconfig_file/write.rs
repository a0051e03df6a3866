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
            error
                .context(path.display())
                .remedy("correct the file, or name another one with --kubeconfig FILE")
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
            return Err(Error::new(
                Kind::Failed,
                format!("{} holds what cannot be written back unchanged", real.display()),
            )
            .remedy("write to another file with -o FILE, and report this with the file's odd part"));
        }
        replace(&real, existing.as_ref(), text.as_bytes())
            .map_err(|error| failed("cannot write", &real, &error))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubeconfig_file::{Change, Entry, Mark};
    use serde_json::json;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn entry(name: &str) -> Entry {
        let mark = Mark {
            hub: "sha256:1".into(),
            hub_context: "hub".into(),
            profile: format!("ns/{name}"),
            account: None,
            source: "clusterprofile".into(),
            uid: "u".into(),
        };
        Entry {
            context: name.into(),
            cluster_name: name.into(),
            user_name: name.into(),
            cluster: json!({ "server": "https://127.0.0.1:1" }),
            user: Some(json!({ "exec": { "command": "x" } })),
            namespace: None,
            mark,
        }
    }

    fn put(path: &Path, name: &str) -> Result<Change> {
        edit_with(path, SystemTime::now(), PATIENCE, |doc| doc.put(&entry(name), false))
    }

    #[test]
    fn twenty_edits_at_once_are_all_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kube").join("config");
        std::thread::scope(|scope| {
            for i in 0..20 {
                let path = &path;
                scope.spawn(move || put(path, &format!("cluster{i}")).unwrap());
            }
        });
        let doc = read(&path).unwrap();
        assert_eq!(doc.ours().count(), 20);
        assert_eq!(fs::read_dir(lock::folder(&path)).unwrap().count(), 1, "only the file itself is left");
    }

    #[test]
    fn edits_through_a_link_and_beside_it_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        link_to("real", &link);
        std::thread::scope(|scope| {
            for i in 0..10 {
                let path = if i % 2 == 0 { &real } else { &link };
                scope.spawn(move || put(path, &format!("cluster{i}")).unwrap());
            }
        });
        assert_eq!(read(&real).unwrap().ours().count(), 10);
    }

    #[test]
    fn an_edit_that_changes_nothing_or_fails_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        edit(&path, SystemTime::now(), |_| Ok(())).unwrap();
        assert!(!path.exists());
        let text = "# mine\ncontexts:   []\n";
        fs::write(&path, text).unwrap();
        edit(&path, SystemTime::now(), |doc| Ok(doc.remove_all(&["cluster1".to_owned()].into()))).unwrap();
        let failed: Result<()> = edit(&path, SystemTime::now(), |doc| {
            doc.switch(None, "x");
            Err(Error::new(Kind::Failed, "no"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_no_kubeconfig_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        for bytes in [&b"- a"[..], b"kind: Pod", b"a: [", b"\xff\xfe", b"clusters: {}"] {
            fs::write(&path, bytes).unwrap();
            let error = put(&path, "cluster1").unwrap_err();
            assert!(error.cause.contains(path.to_str().unwrap()), "{error}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        assert!(put(dir.path(), "cluster1").unwrap_err().cause.contains("not a regular file"));
    }

    #[test]
    fn an_error_never_quotes_the_files_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        for text in [
            "users:\n- token: SECRET\n  x: [\n",
            "a: \"SECRET",
            "a: *SECRET",
            "SECRET: SECRET: SECRET",
            "SECRET",
        ] {
            fs::write(&path, text).unwrap();
            let error = put(&path, "cluster1").unwrap_err();
            assert!(!error.one_line().contains("SECRET"), "{error}");
        }
    }

    #[cfg(unix)]
    fn link_to(target: &str, link: &Path) {
        std::os::unix::fs::symlink(target, link).unwrap();
    }

    #[cfg(unix)]
    fn mode(path: &Path) -> u32 {
        std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap()) & 0o7777
    }

    #[cfg(unix)]
    #[test]
    fn new_files_and_folders_are_private_and_an_old_file_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a").join("b").join("config");
        put(&path, "cluster1").unwrap();
        assert_eq!(
            (mode(&path), mode(&dir.path().join("a")), mode(&dir.path().join("a/b"))),
            (0o600, 0o700, 0o700)
        );
        for kept in [0o640, 0o644, 0o600] {
            fs::set_permissions(&path, fs::Permissions::from_mode(kept)).unwrap();
            put(&path, &format!("cluster-{kept}")).unwrap();
            assert_eq!(mode(&path), kept);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_a_dangling_ones_target_is_created() {
        let dir = tempfile::tempdir().unwrap();
        let (link, middle, real) =
            (dir.path().join("config"), dir.path().join("middle"), dir.path().join("sub/real"));
        link_to("middle", &link);
        link_to("sub/real", &middle);
        for name in ["cluster1", "cluster2"] {
            put(&link, name).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), Path::new("middle"));
            assert_eq!(fs::read_link(&middle).unwrap(), Path::new("sub/real"));
        }
        assert_eq!(read(&real).unwrap().ours().count(), 2);
        link_to("loop", &dir.path().join("loop"));
        assert!(put(&dir.path().join("loop"), "x").unwrap_err().cause.contains("leads nowhere"));
    }

    #[test]
    fn a_file_in_the_way_of_a_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = put(&dir.path().join("file").join("config"), "x").unwrap_err();
        assert!(error.cause.contains("file"), "{error}");
    }
}
