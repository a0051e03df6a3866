//! Tokens kept on this machine between two commands: private files, replaced whole, a lock
//! beside each. Nothing here is ever fatal: a cache that cannot be used is no cache. A client
//! certificate's key is not kept at all: it cannot be taken back, and is often an administrator's.
//!
//! One slot per question. Its file name is a short hash of the question; the question itself
//! stands in the entry and must match, so a collision is only a miss. Beside the entry lie
//! `.lock`, `.failed` (a hub failure, remembered for two seconds), `.asked` (which processes were
//! answered: one that asks again had its token refused) and `.renewed` (the last background renewal).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::error::{Error, Kind};
use crate::os::{self, Stamp};
use crate::token::Credential;

const VERSION: u32 = 1;
const FAILURE_LIFE_MS: i64 = 2_000;

/// The extension of a file that remembers a failure.
const FAILED: &str = "failed";
const RENEWAL_PAUSE: Duration = Duration::from_secs(600);

/// The directory that holds the slots.
#[derive(Clone, Debug)]
pub struct Cache {
    base: Option<PathBuf>,
}

/// A cached credential and what it was the answer to.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Hash of everything that shapes the answer; see [`crate::key::full`].
    pub key: String,
    /// The ClusterProfile as `namespace/name`, for `cache clear NAME`.
    pub profile: String,
    /// The hub's kubeconfig files as they were.
    pub files: Vec<(PathBuf, Stamp)>,
    /// The answer.
    pub credential: Credential,
    /// When it was read from the hub, in milliseconds since the epoch.
    pub read_ms: i64,
    /// For how many seconds after that the hub need not be asked again.
    pub max_age: u64,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    version: u32,
    asked: String,
    key: String,
    profile: String,
    files: Vec<(PathBuf, Stamp)>,
    token: String,
    expires: i64,
    issued: Option<i64>,
    read_ms: i64,
    max_age: u64,
}

#[derive(Serialize, Deserialize)]
struct Failure {
    at_ms: i64,
    code: u8,
    cause: String,
    remedy: String,
}

impl Entry {
    /// Whether the kubeconfig files are still the ones the entry was made with.
    pub fn files_unchanged(&self) -> bool {
        self.files.iter().all(|(path, stamp)| Stamp::of(path) == *stamp)
    }

    /// Whether the entry may be handed out at `now_ms` without asking the hub.
    pub fn fresh(&self, now_ms: i64) -> bool {
        let age = now_ms - self.read_ms;
        (-60_000..self.max_age_ms()).contains(&age)
            && self.credential.outlasts_margin(now_ms.div_euclid(1000))
    }

    /// Whether the entry is in the second half of its time, when it is renewed in the background.
    pub fn aging(&self, now_ms: i64) -> bool {
        now_ms - self.read_ms > self.max_age_ms() / 2
    }

    fn max_age_ms(&self) -> i64 {
        i64::try_from(self.max_age.saturating_mul(1000)).unwrap_or(i64::MAX)
    }
}

impl Cache {
    /// The cache of this user: `$KUBECTL_INVENTORY_CACHE_DIR`, else the system's cache directory.
    pub fn of(env: &Env) -> Self {
        let base = env.path("KUBECTL_INVENTORY_CACHE_DIR").or_else(|| {
            let dirs = directories::ProjectDirs::from("", "", "kubectl-inventory")?;
            Some(dirs.cache_dir().to_owned())
        });
        Self { base }
    }

    /// The slot of a question, if there is a cache at all.
    pub fn slot(&self, asked: impl Into<String>) -> Option<Slot> {
        let asked = asked.into();
        Some(Slot { dir: self.dir()?, name: short_hash(&asked), asked })
    }

    /// The directory that everything is kept in.
    pub fn base(&self) -> Option<&Path> {
        self.base.as_deref()
    }

    fn dir(&self) -> Option<PathBuf> {
        self.base.as_ref().map(|base| base.join("credentials"))
    }

    /// Removes what is kept for `profile` (`name` or `namespace/name`), or everything.
    /// Answers how many entries went.
    ///
    /// # Errors
    /// [`Kind::Failed`], naming the file that could not be removed.
    pub fn clear(&self, profile: Option<&str>) -> Result<usize, Error> {
        let Some(dir) = self.dir() else { return Ok(0) };
        let failed = |path: &Path, e: io::Error| {
            Error::new(Kind::Failed, format!("cannot remove {}: {e}", path.display()))
                .remedy("check who owns the cache directory")
        };
        match std::fs::symlink_metadata(&dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(e) => return Err(failed(&dir, e)),
            Ok(_) => os::check_private_dir(&dir).map_err(|e| failed(&dir, e))?,
        }
        let mut removed = 0;
        for file in std::fs::read_dir(&dir).map_err(|e| failed(&dir, e))?.flatten() {
            let path = file.path();
            let is_entry = path.extension().is_some_and(|e| e == "json");
            let matches = match profile {
                None => true,
                Some(wanted) => is_entry && read_wire(&path).is_some_and(|wire| is_of(&wire.profile, wanted)),
            };
            if !matches {
                continue;
            }
            match std::fs::remove_file(&path) {
                Ok(()) => removed += usize::from(is_entry),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed(&path, e)),
            }
        }
        Ok(removed)
    }

    /// Forgets what failed within the last seconds: somebody has just repaired something.
    pub fn forget_failures(&self) {
        let Some(dir) = self.dir().filter(|dir| os::check_private_dir(dir).is_ok()) else { return };
        for file in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|extension| extension == FAILED) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

/// FNV-1a, 64 bits: quick, and no protection against somebody who looks for a collision.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// [`fnv`] in hex.
pub(crate) fn short_hash(text: &str) -> String {
    let hash = fnv(text.as_bytes());
    let digit = |shift: u32| char::from(b"0123456789abcdef"[(hash >> shift & 15) as usize]);
    (0..16).rev().map(|place| digit(place * 4)).collect()
}

fn is_of(profile: &str, wanted: &str) -> bool {
    profile == wanted || profile.split_once('/').is_some_and(|(_, name)| name == wanted)
}

fn read_wire(path: &Path) -> Option<Wire> {
    let mut room = [0; 4096];
    let text = os::read_private(path, 1 << 20, &mut room).ok()?;
    serde_json::from_slice::<Wire>(&text).ok().filter(|wire| wire.version == VERSION)
}

/// The files of one question.
#[derive(Clone, Debug)]
pub struct Slot {
    dir: PathBuf,
    name: String,
    asked: String,
}

impl Slot {
    fn path(&self, extension: &str) -> PathBuf {
        let mut file = self.name.clone();
        file.push('.');
        file.push_str(extension);
        self.dir.join(file)
    }

    /// The entry, if there is a sound one for exactly this question.
    pub fn read(&self) -> Option<Entry> {
        os::check_private_dir(&self.dir).ok()?;
        let wire = read_wire(&self.path("json")).filter(|wire| wire.asked == self.asked)?;
        Some(Entry {
            key: wire.key,
            profile: wire.profile,
            files: wire.files,
            credential: Credential {
                token: Some(wire.token.into()),
                certificate: None,
                expires: wire.expires,
                issued: wire.issued,
            },
            read_ms: wire.read_ms,
            max_age: wire.max_age,
        })
    }

    /// Replaces the entry. A client key is never kept, so an answer with one only takes away what was there.
    ///
    /// # Errors
    /// Those of the system; the credential is good all the same.
    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        let Credential { token: Some(token), certificate: None, expires, issued } = &entry.credential else {
            self.forget();
            return Ok(());
        };
        let wire = Wire {
            version: VERSION,
            asked: self.asked.clone(),
            key: entry.key.clone(),
            profile: entry.profile.clone(),
            files: entry.files.clone(),
            token: token.expose_secret().to_owned(),
            expires: *expires,
            issued: *issued,
            read_ms: entry.read_ms,
            max_age: entry.max_age,
        };
        self.replace("json", &serde_json::to_vec(&wire)?)
    }

    /// Forgets the entry: the hub no longer stands behind it.
    pub fn forget(&self) {
        if os::check_private_dir(&self.dir).is_ok() {
            let _ = std::fs::remove_file(self.path("json"));
        }
    }

    /// The hub failure of less than two seconds ago.
    pub fn failure(&self, now_ms: i64) -> Option<Error> {
        os::check_private_dir(&self.dir).ok()?;
        let mut room = [0; 4096];
        let text = os::read_private(&self.path(FAILED), 1 << 16, &mut room).ok()?;
        let failure: Failure = serde_json::from_slice(&text).ok()?;
        let recent = (0..FAILURE_LIFE_MS).contains(&(now_ms - failure.at_ms));
        recent.then(|| Error {
            kind: Kind::from_code(failure.code),
            cause: failure.cause,
            remedy: failure.remedy,
        })
    }

    /// Remembers a hub failure, for those who ask next.
    pub fn remember_failure(&self, error: &Error, now_ms: i64) {
        let failure = Failure {
            at_ms: now_ms,
            code: error.kind.code(),
            cause: error.cause.clone(),
            remedy: error.remedy.clone(),
        };
        if let Ok(text) = serde_json::to_vec(&failure) {
            let _ = self.replace(FAILED, &text);
        }
    }

    fn replace(&self, extension: &str, bytes: &[u8]) -> io::Result<()> {
        os::create_private_dir(&self.dir)?;
        os::check_private_dir(&self.dir)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.dir)?;
        file.write_all(bytes)?;
        file.persist(self.path(extension)).map_err(|e| e.error)?;
        Ok(())
    }

    /// Holds the slot's lock, waiting up to `limit`; `None` where that cannot be had.
    pub fn lock(&self, limit: Duration) -> Option<File> {
        os::create_private_dir(&self.dir).ok()?;
        os::check_private_dir(&self.dir).ok()?;
        let file = os::open_private_rw(&self.path("lock")).ok()?;
        let end = Instant::now() + limit;
        while file.try_lock().is_err() {
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(file)
    }

    /// Whether the process `pid`, which asks at `now`, was answered from this slot before; from now on it
    /// was.
    ///
    /// A table of 64 places of 16 bytes, number and time, by process number: no lock, and a place lost to
    /// a process with the same remainder costs one more failed command, not a wrong answer. A process that
    /// started after the time of its place has only got the number of an older one.
    pub fn answered_before(&self, pid: u32, now: SystemTime) -> bool {
        self.answered(pid, now).unwrap_or(false)
    }

    fn answered(&self, pid: u32, now: SystemTime) -> io::Result<bool> {
        let mut file = os::open_private_rw(&self.path("asked"))?;
        let place = SeekFrom::Start(u64::from(pid % 64) * 16);
        let number = u64::from(pid).to_le_bytes();
        let mut found = [[0; 8]; 2];
        file.seek(place)?;
        if file.read_exact(found.as_flattened_mut()).is_ok() && found[0] == number {
            let answered = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::from_le_bytes(found[1]));
            // Asked of the system only now: it costs as much as the rest of the answer.
            if os::started(pid, now).is_none_or(|started| started <= answered) {
                return Ok(true);
            }
        }
        let millis = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        file.seek(place)?;
        file.write_all([number, millis.to_le_bytes()].as_flattened())?;
        Ok(false)
    }

    /// Whether a renewal in the background is due; saying yes counts as having started one.
    pub fn claim_renewal(&self, now: SystemTime) -> bool {
        let path = self.path("renewed");
        let last = std::fs::symlink_metadata(&path).and_then(|meta| meta.modified());
        let paused = last.is_ok_and(|last| now.duration_since(last).unwrap_or_default() < RENEWAL_PAUSE);
        !paused && self.replace("renewed", b"").is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(dir: &Path, asked: &str) -> Slot {
        Cache::of(&Env::of([("KUBECTL_INVENTORY_CACHE_DIR", dir)])).slot(asked).unwrap()
    }

    fn entry(read_ms: i64, expires: i64) -> Entry {
        Entry {
            key: "key".into(),
            profile: "ns/cluster1".into(),
            files: vec![],
            credential: Credential::new("token".into(), expires, Some(0)),
            read_ms,
            max_age: 3600,
        }
    }

    #[test]
    fn an_entry_answers_its_own_question_only() {
        let dir = tempfile::tempdir().unwrap();
        let one = slot(dir.path(), "one");
        one.write(&entry(5, 1_000)).unwrap();
        assert_eq!(one.read().unwrap().credential.token.unwrap().expose_secret(), "token");
        assert!(slot(dir.path(), "two").read().is_none());
        let collision = Slot { asked: "other".into(), ..one };
        assert!(collision.read().is_none());
    }

    #[test]
    fn freshness_ends_with_the_age_and_with_the_life() {
        let entry = entry(1_000_000, 100_000);
        assert!(entry.fresh(1_000_000));
        assert!(entry.fresh(1_000_000 + 3_599_999));
        assert!(!entry.fresh(1_000_000 + 3_600_000));
        assert!(!entry.fresh(0), "read in the future");
        assert!(!self::entry(99_800_000, 100_000).fresh(99_800_000), "200 s left of a long life");
    }

    #[test]
    fn a_failure_is_remembered_for_two_seconds() {
        let dir = tempfile::tempdir().unwrap();
        let slot = slot(dir.path(), "q");
        let error = Error::new(Kind::Refused, "no").remedy("ask");
        slot.remember_failure(&error, 10_000);
        assert_eq!(slot.failure(11_999), Some(error));
        assert_eq!(slot.failure(12_000), None);
        assert_eq!(slot.failure(9_999), None);
        Cache::of(&Env::of([("KUBECTL_INVENTORY_CACHE_DIR", dir.path())])).forget_failures();
        assert_eq!(slot.failure(11_999), None);
    }

    #[test]
    fn only_the_same_process_asks_twice() {
        let dir = tempfile::tempdir().unwrap();
        let slot = slot(dir.path(), "q");
        slot.write(&entry(0, 0)).unwrap();
        let (this, now) = (std::process::id(), SystemTime::now());
        assert!(!slot.answered_before(this, now));
        assert!(slot.answered_before(this, now));
        assert!(!slot.answered_before(this + 1, now));
        assert!(!slot.answered_before(this + 64, now), "the same place");
        assert!(!slot.answered_before(this, now));
        assert!(slot.answered_before(this, now));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_number_given_to_another_process_is_not_the_same_process() {
        let dir = tempfile::tempdir().unwrap();
        let slot = slot(dir.path(), "q");
        slot.write(&entry(0, 0)).unwrap();
        let (this, now) = (std::process::id(), SystemTime::now());
        let long_ago = now - Duration::from_secs(1_000_000);
        assert!(!slot.answered_before(this, long_ago), "another process, before this one started");
        assert!(!slot.answered_before(this, now));
        assert!(slot.answered_before(this, now));
    }

    #[test]
    fn a_renewal_is_claimed_once_in_ten_minutes() {
        let dir = tempfile::tempdir().unwrap();
        let slot = slot(dir.path(), "q");
        let now = SystemTime::now();
        assert!(slot.claim_renewal(now));
        assert!(!slot.claim_renewal(now));
        assert!(slot.claim_renewal(now + Duration::from_secs(700)));
    }

    #[test]
    fn clearing_takes_one_profile_or_all() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::of(&Env::of([("KUBECTL_INVENTORY_CACHE_DIR", dir.path())]));
        assert_eq!(cache.clear(None).unwrap(), 0);
        slot(dir.path(), "one").write(&entry(0, 0)).unwrap();
        slot(dir.path(), "two").write(&Entry { profile: "ns/cluster2".into(), ..entry(0, 0) }).unwrap();
        assert_eq!(cache.clear(Some("cluster3")).unwrap(), 0);
        assert_eq!(cache.clear(Some("cluster2")).unwrap(), 1);
        assert_eq!(cache.clear(Some("ns/cluster1")).unwrap(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_open_to_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let slot = slot(dir.path(), "q");
        slot.write(&entry(0, 0)).unwrap();
        std::fs::set_permissions(dir.path().join("credentials"), PermissionsExt::from_mode(0o755)).unwrap();
        assert!(slot.read().is_none());
        assert!(slot.write(&entry(0, 0)).is_err());
        assert!(slot.lock(Duration::ZERO).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_planted_symlink_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let file = outside.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        let slot = slot(dir.path(), "q");
        slot.write(&entry(0, 0)).unwrap();
        for extension in ["json", "lock", "asked", "failed", "renewed"] {
            let path = slot.path(extension);
            let _ = std::fs::remove_file(&path);
            std::os::unix::fs::symlink(&file, &path).unwrap();
        }
        assert!(slot.read().is_none());
        assert!(slot.lock(Duration::ZERO).is_none());
        assert!(!slot.answered_before(1, SystemTime::now()));
        slot.write(&entry(0, 0)).unwrap();
        slot.remember_failure(&Error::new(Kind::Failed, "x"), 0);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }
}
