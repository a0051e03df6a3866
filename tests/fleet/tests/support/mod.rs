//! A real kubectl in a sealed home.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use fleet::machine::kubectl;
use serde_json::Value;
use tempfile::TempDir;

/// kubectl with a kubeconfig and a home of its own.
pub struct Kubectl {
    program: PathBuf,
    pub home: TempDir,
}

impl Kubectl {
    /// `None` where there is no kubectl.
    pub fn new(kubeconfig: &Value) -> Option<Self> {
        let program = kubectl()?;
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config"), kubeconfig.to_string()).unwrap();
        Some(Self { program, home })
    }

    /// kubectl with these arguments, to be changed before it runs.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        let home = self.home.path();
        command.args(line.split_whitespace()).env("HOME", home).env("KUBECONFIG", home.join("config"));
        command.env_remove("KUBERC").current_dir(home).stdin(Stdio::null());
        command
    }

    /// Its stdout; panics when it fails.
    pub fn run(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line}\n{out}{err}");
        out.into_owned()
    }
}
