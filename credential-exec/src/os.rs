//! What differs between operating systems, in one place: private files, file identity, the
//! process that called us, detached children, sockets between processes of one user.

use std::borrow::Cow;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// The identity of a file's content without reading it; all zero for a file that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime_ns: i128,
}

impl Stamp {
    /// The stamp of the file at `path`, symlinks followed.
    pub fn of(path: &Path) -> Self {
        std::fs::metadata(path).map(|meta| Self::from_metadata(&meta)).unwrap_or_default()
    }

    #[cfg(unix)]
    fn from_metadata(meta: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let mtime_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        Self { dev: meta.dev(), ino: meta.ino(), size: meta.size(), mtime_ns }
    }

    #[cfg(not(unix))]
    fn from_metadata(meta: &Metadata) -> Self {
        let mtime = meta.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
        let mtime_ns = mtime.map_or(0, |d| d.as_nanos() as i128);
        Self { dev: 0, ino: 0, size: meta.len(), mtime_ns }
    }
}

/// Opens a regular file for reading; a symlink, a FIFO or a directory in its place is an error.
///
/// # Errors
/// Those of the system, and `InvalidInput` for what is not a regular file.
pub fn open_private(path: &Path) -> io::Result<File> {
    regular(nofollow(OpenOptions::new().read(true)).open(path)?)
}

/// Reads a regular file of at most `limit` bytes: into `room` where it fits there, which spares a short
/// run a buffer of its own.
///
/// # Errors
/// As [`open_private`].
pub fn read_private<'a>(path: &Path, limit: u64, room: &'a mut [u8]) -> io::Result<Cow<'a, [u8]>> {
    let mut file = open_private(path)?;
    let read = file.read(room)?;
    if read < room.len() {
        return Ok(Cow::Borrowed(&room[..read]));
    }
    let mut text = room.to_vec();
    file.take(limit).read_to_end(&mut text)?;
    Ok(Cow::Owned(text))
}

/// Opens a regular file for reading and writing, making it with mode 0600 if need be.
///
/// # Errors
/// As [`open_private`].
pub fn open_private_rw(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = nofollow(options.read(true).write(true));
    // Making one takes the folder's lock, which costs four times the opening of a file that is there.
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => options.create(true).open(path),
        opened => opened,
    };
    regular(file?)
}

fn regular(file: File) -> io::Result<File> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "open to other users"));
        }
    }
    Ok(file)
}

#[cfg(unix)]
fn nofollow(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.mode(0o600).custom_flags(flags.bits() as i32)
}

#[cfg(not(unix))]
fn nofollow(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Makes a directory (and those above it) that only its owner may enter.
///
/// # Errors
/// Those of the system.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Says why a directory is not private enough for secrets: it must be a real directory of ours
/// that nobody else may enter.
///
/// # Errors
/// Those of the system, and `PermissionDenied` with the reason.
pub fn check_private_dir(path: &Path) -> io::Result<()> {
    let meta = std::fs::symlink_metadata(path)?;
    let denied = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if !meta.is_dir() {
        return denied("not a directory");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return denied("owned by another user");
        }
        if meta.mode() & 0o077 != 0 {
            return denied("open to others: chmod 700 it");
        }
    }
    Ok(())
}

/// stdout as it is: unlike the standard library's, it brings no buffer and no lock.
#[cfg(unix)]
pub fn stdout() -> impl io::Write {
    struct Stdout;
    impl io::Write for Stdout {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(rustix::io::write(rustix::stdio::stdout(), bytes)?)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    Stdout
}

/// stdout.
#[cfg(not(unix))]
pub fn stdout() -> impl io::Write {
    io::stdout()
}

/// The number of the process that started us.
#[cfg(unix)]
pub fn parent() -> Option<u32> {
    u32::try_from(rustix::process::getppid()?.as_raw_nonzero().get()).ok()
}

/// The number of the process that started us; not known here, so nobody is taken to ask twice.
#[cfg(not(unix))]
pub fn parent() -> Option<u32> {
    None
}

/// When a process started, by the clock that says `now`; `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub fn started(pid: u32, now: SystemTime) -> Option<SystemTime> {
    // Both count from the system's own start, the second one in hundredths of a second.
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let awake = Duration::new(boot.tv_sec.try_into().ok()?, boot.tv_nsec.try_into().ok()?);
    let started = Duration::from_millis(start_of(pid)?.checked_mul(10)?);
    now.checked_sub(awake.checked_sub(started)?)
}

/// When a process started; not known here.
#[cfg(not(target_os = "linux"))]
pub fn started(_pid: u32, _now: SystemTime) -> Option<SystemTime> {
    None
}

/// Field 22 of `/proc/<pid>/stat`, counted after the command, which may hold anything.
#[cfg(target_os = "linux")]
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end_of_command = stat.iter().rposition(|&byte| byte == b')')?;
    let field = stat[end_of_command..].split(|&byte| byte == b' ').nth(20)?;
    str::from_utf8(field).ok()?.parse().ok()
}

/// Makes a command outlive us: without our streams and, on Unix, in a process group of its own and
/// without whatever else we inherited (somebody may wait for the end of one of those).
pub fn detached(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    {
        close_fds::set_fds_cloexec(3, &[]);
        std::os::unix::process::CommandExt::process_group(command, 0);
    }
    #[cfg(windows)]
    {
        const DETACHED_PROCESS: u32 = 0x8;
        const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
        std::os::windows::process::CommandExt::creation_flags(
            command,
            DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP,
        );
    }
    command
}

/// Gives up stdout, so that whoever reads it sees its end.
pub fn close_stdout() {
    #[cfg(unix)]
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

/// A number that tells this user from others of this machine; 0 where there are no such numbers.
pub fn user() -> u32 {
    #[cfg(unix)]
    return rustix::process::geteuid().as_raw();
    #[cfg(not(unix))]
    0
}

/// The name of this machine; a home directory may be shared by several.
pub fn machine() -> String {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// The directory for temporary files that is the same for every process of a user.
pub fn temporary_dir() -> PathBuf {
    if cfg!(unix) { PathBuf::from("/tmp") } else { std::env::temp_dir() }
}

/// Connects to the socket of another process of this user, for reads and writes of at most `limit` each.
///
/// # Errors
/// Those of the system; `PermissionDenied` where somebody else listens.
#[cfg(unix)]
pub fn connect_local(path: &Path, limit: Duration) -> io::Result<impl io::Read + io::Write> {
    // A socket in a directory of ours was made by us; where the system tells who listens, we look.
    check_private_dir(path.parent().unwrap_or(path))?;
    let socket = std::os::unix::net::UnixStream::connect(path)?;
    #[cfg(target_os = "linux")]
    if rustix::net::sockopt::socket_peercred(&socket)?.uid != rustix::process::geteuid() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"));
    }
    socket.set_read_timeout(Some(limit))?;
    socket.set_write_timeout(Some(limit))?;
    Ok(socket)
}

/// Connects to the pipe of another process of this user. Its name, which nobody can guess, stands in the
/// file at `path`, which only this user can read.
///
/// # Errors
/// Those of the system.
#[cfg(windows)]
pub fn connect_local(path: &Path, _limit: Duration) -> io::Result<impl io::Read + io::Write> {
    OpenOptions::new().read(true).write(true).open(std::fs::read_to_string(path)?)
}

/// Listens for other processes of this user.
#[cfg(unix)]
pub struct LocalListener(tokio::net::UnixListener);

#[cfg(unix)]
impl LocalListener {
    /// Listens at `path`, in the place of whatever is there.
    ///
    /// # Errors
    /// Those of the system.
    pub fn bind(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let _ = std::fs::remove_file(path);
        let listener = tokio::net::UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self(listener))
    }

    /// The next connection of this user; anybody else's are closed.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn accept(&mut self) -> io::Result<tokio::net::UnixStream> {
        loop {
            let (socket, _) = self.0.accept().await?;
            if socket.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw()) {
                return Ok(socket);
            }
        }
    }
}

/// Listens for other processes of this user.
#[cfg(windows)]
pub struct LocalListener {
    name: String,
    next: tokio::net::windows::named_pipe::NamedPipeServer,
}

#[cfg(windows)]
impl LocalListener {
    /// Listens on a pipe whose name is written to the file at `path`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn bind(path: &Path) -> io::Result<Self> {
        use ring::rand::SecureRandom;
        let mut secret = [0; 16];
        ring::rand::SystemRandom::new().fill(&mut secret).map_err(|_| io::ErrorKind::Other)?;
        let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!(r"\\.\pipe\kubectl-inventory-{secret}");
        let mut options = tokio::net::windows::named_pipe::ServerOptions::new();
        let next = options.first_pipe_instance(true).reject_remote_clients(true).create(&name)?;
        std::fs::write(path, &name)?;
        Ok(Self { name, next })
    }

    /// The next connection.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn accept(&mut self) -> io::Result<tokio::net::windows::named_pipe::NamedPipeServer> {
        self.next.connect().await?;
        let mut options = tokio::net::windows::named_pipe::ServerOptions::new();
        let next = options.reject_remote_clients(true).create(&self.name)?;
        Ok(std::mem::replace(&mut self.next, next))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_started_before_it_could_ask() {
        let now = SystemTime::now();
        let parent = started(parent().unwrap(), now).unwrap();
        let this = started(std::process::id(), now).unwrap();
        assert!(parent <= this && this <= now, "{parent:?} {this:?} {now:?}");
        assert!(now.duration_since(this).unwrap().as_secs() < 3600, "{this:?}");
        assert_eq!(started(u32::MAX, now), None);
    }

    #[test]
    fn anything_but_a_regular_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        assert!(open_private(&link).is_err());
        assert!(open_private_rw(&link).is_err());
        assert!(open_private(dir.path()).is_err());
    }
}
