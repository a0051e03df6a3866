//! Where kube-apiserver and etcd come from: the variables that envtest users set, else one binary
//! that Go builds out of tests/controlplane.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fleet::machine::{say, skip};

/// The Kubernetes version that go.mod names; without it in the binary kubectl complains.
const VERSION: &str = "v1.36.3";

/// The two servers.
#[derive(Clone)]
pub(super) enum Assets {
    /// Files of their own.
    Files { apiserver: PathBuf, etcd: PathBuf },
    /// Ours, with the server's name as its first argument.
    Built(PathBuf),
}

impl Assets {
    pub(super) fn apiserver(&self) -> Vec<&Path> {
        match self {
            Self::Files { apiserver, .. } => vec![apiserver],
            Self::Built(binary) => vec![binary, Path::new("kube-apiserver")],
        }
    }

    pub(super) fn etcd(&self) -> Vec<&Path> {
        match self {
            Self::Files { etcd, .. } => vec![etcd],
            Self::Built(binary) => vec![binary, Path::new("etcd")],
        }
    }
}

/// The servers that are set, else built. `None` where neither can be, with the reason printed.
pub(super) fn find_or_build() -> Result<Option<Assets>, String> {
    if let (Some(apiserver), Some(etcd)) =
        (file("TEST_ASSET_KUBE_APISERVER", "kube-apiserver"), file("TEST_ASSET_ETCD", "etcd"))
    {
        return Ok(Some(Assets::Files { apiserver, etcd }));
    }
    Ok(or_skip(built()?, "no real control plane: install Go, or set KUBEBUILDER_ASSETS to the folder of kube-apiserver and etcd")
        .map(|bin| Assets::Built(bin.join("controlplane"))))
}

fn file(variable: &str, name: &str) -> Option<PathBuf> {
    let set = |variable| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(variable).or_else(|| Some(set("KUBEBUILDER_ASSETS")?.join(name)))
}

/// A program of the Go module: `goclient` or `yardstick`. `None` without Go, as with
/// [`super::ControlPlane::start`].
pub fn go_program(name: &str) -> Result<Option<PathBuf>, String> {
    Ok(or_skip(built()?, "no Go program: install Go").map(|bin| bin.join(name)))
}

/// The folder of the programs, brought up to date once a process.
fn built() -> Result<Option<PathBuf>, String> {
    static BUILT: OnceLock<Result<Option<PathBuf>, String>> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

/// Builds all programs of the module; two seconds when nothing changed. `None` without Go.
fn build() -> Result<Option<PathBuf>, String> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("controlplane");
    let go = Command::new("go").arg("version").current_dir(&module).stdin(Stdio::null()).output();
    if !go.is_ok_and(|output| output.status.success()) {
        return Ok(None);
    }
    let bin = module.join(".bin");
    let failed = |error: std::io::Error| format!("{}: {error}", bin.display());
    fs::create_dir_all(&bin).map_err(failed)?;
    let lock = File::create(bin.join(".lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if !bin.join("controlplane").exists() {
        say("building kube-apiserver, etcd and kwok with Go; from nothing this takes about five minutes");
    }
    let output = Command::new("go")
        .args(["build", "-mod=readonly", "-buildvcs=false", "-ldflags"])
        .arg(format!("-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"))
        .args(["-o", ".bin/", "./..."])
        .current_dir(&module)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    if output.status.success() {
        Ok(Some(bin))
    } else {
        Err(format!("go build in tests/controlplane failed:\n{}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn or_skip<T>(found: Option<T>, reason: &str) -> Option<T> {
    if found.is_none() {
        skip(reason);
    }
    found
}
