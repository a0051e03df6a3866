//! The environment of the demo: a home, kubeconfig and cache of its own that vanish with it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use fleet::Fleet;
use tempfile::TempDir;
use tokio::process::Command;

/// Owns the directory; nothing is left when it is dropped.
pub(crate) struct Sealed {
    home: TempDir,
    binaries: PathBuf,
    path: OsString,
    has_kubectl: bool,
}

impl Sealed {
    /// A home with the hub's kubeconfig in it, and the binaries in front of PATH.
    pub(crate) fn new(fleet: &Fleet, binaries: &Path) -> io::Result<Self> {
        let home = tempfile::Builder::new().prefix("kubectl-inventory-demo-").tempdir()?;
        let old = env::var_os("PATH").unwrap_or_default();
        let has_kubectl = env::split_paths(&old).any(|dir| dir.join(executable("kubectl")).is_file());
        let path = env::join_paths([binaries.to_owned()].into_iter().chain(env::split_paths(&old)));
        let path = path.map_err(io::Error::other)?;
        let sealed = Self { home, binaries: binaries.to_owned(), path, has_kubectl };
        std::fs::create_dir(sealed.home.path().join("cache"))?;
        fleet.write_kubeconfig(sealed.kubeconfig())?;
        Ok(sealed)
    }

    /// The one kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("config")
    }

    /// Whether PATH has a kubectl.
    pub(crate) fn has_kubectl(&self) -> bool {
        self.has_kubectl
    }

    /// What to call instead of `kubectl inventory`.
    pub(crate) fn plugin(&self) -> Vec<&'static str> {
        if self.has_kubectl { vec!["kubectl", "inventory"] } else { vec!["kubectl-inventory"] }
    }

    /// The variables that differ from the person's own.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let home = self.home.path();
        vec![
            ("HOME", home.into()),
            ("USERPROFILE", home.into()),
            ("XDG_CACHE_HOME", home.join("cache").into()),
            ("XDG_CONFIG_HOME", home.join("xdg-config").into()),
            ("XDG_DATA_HOME", home.join("xdg-data").into()),
            ("KUBECONFIG", self.kubeconfig().into()),
            ("KUBECTL_INVENTORY_CACHE_DIR", home.join("cache/kubectl-inventory").into()),
            ("PATH", self.path.clone()),
        ]
    }

    /// A command in this environment, killed with the demo.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(self.variables()).kill_on_drop(true);
        for stray in ["KUBECTL_INVENTORY_HUB", "KUBERNETES_EXEC_INFO", "KUBERC"] {
            command.env_remove(stray);
        }
        command
    }
}

impl Drop for Sealed {
    /// A tunnel is made to outlive the command that started it.
    fn drop(&mut self) {
        let plugin = self.binaries.join(executable("kubectl-inventory"));
        let mut stop = std::process::Command::new(plugin);
        let _ = stop.args(["tunnel", "stop", "--all"]).envs(self.variables()).output();
    }
}

fn executable(name: &str) -> String {
    format!("{name}{}", env::consts::EXE_SUFFIX)
}
