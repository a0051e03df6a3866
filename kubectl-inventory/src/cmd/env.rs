//! `env NAME`: a kubeconfig of its own for one cluster, and the shell code that points this shell at it. The
//! same cluster always has the same file.

use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind, Result, printable};

use super::detect;
use super::entries::Entries;
use super::list::Scope;
use super::member::Member;
use super::use_cluster::the_usable_one;
use super::way_in::WayIn;
use crate::cli::{EnvCluster, Global};
use crate::hub;
use crate::kubeconfig_file;
use crate::term::not_written;

/// A shell, by how it sets a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// bash, zsh and others of POSIX.
    Posix,
    /// fish.
    Fish,
    /// PowerShell.
    PowerShell,
}

impl FromStr for Shell {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "bash" | "zsh" | "sh" | "ksh" | "dash" => Ok(Self::Posix),
            "fish" => Ok(Self::Fish),
            "powershell" | "pwsh" => Ok(Self::PowerShell),
            _ => Err(format!("{text:?} is none of bash, zsh, sh, fish, powershell")),
        }
    }
}

impl Shell {
    /// The one that is in use here.
    fn here(env: &Env) -> Self {
        if cfg!(windows) {
            return Self::PowerShell;
        }
        let name = env.path("SHELL").and_then(|path| path.file_name()?.to_str().map(str::to_owned));
        name.and_then(|name| name.parse().ok()).unwrap_or(Self::Posix)
    }

    /// Code that sets a variable.
    fn set(self, name: &str, value: &str) -> String {
        match self {
            Self::Posix => format!("export {name}='{}'", value.replace('\'', r"'\''")),
            Self::Fish => format!("set -gx {name} '{}'", value.replace('\\', r"\\").replace('\'', r"\'")),
            Self::PowerShell => format!("$Env:{name} = '{}'", value.replace('\'', "''")),
        }
    }

    /// Code that takes a variable away.
    fn unset(self, name: &str) -> String {
        match self {
            Self::Posix => format!("unset {name}"),
            Self::Fish => format!("set -e {name}"),
            Self::PowerShell => format!("Remove-Item Env:{name} -ErrorAction SilentlyContinue"),
        }
    }

    /// How a person lets the code run.
    fn hint(self, name: &str) -> String {
        match self {
            Self::Posix => format!("eval \"$(kubectl inventory env {name})\""),
            Self::Fish => format!("kubectl inventory env {name} | source"),
            Self::PowerShell => format!("kubectl inventory env {name} | Out-String | Invoke-Expression"),
        }
    }
}

/// Everything that `env` is given.
pub struct EnvRun<'a> {
    /// The verb's own flags.
    pub options: &'a EnvCluster,
    /// The hub's flags.
    pub global: &'a Global,
    /// Which way in is taken.
    pub way: WayIn<'a>,
    /// Whether a person sees the code.
    pub on_terminal: bool,
}

/// Prints the code that takes `KUBECONFIG` away again.
///
/// # Errors
/// An output that cannot be written.
pub fn unset(shell: Option<Shell>, env: &Env, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", shell.unwrap_or_else(|| Shell::here(env)).unset("KUBECONFIG")).map_err(not_written)
}

impl EnvRun<'_> {
    /// Resolves the cluster, writes its file and prints the code.
    ///
    /// # Errors
    /// Those of `use`.
    pub async fn run(&self, name: &str, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let hub = &self.way.chosen.hub;
        let client = hub::connect(hub, self.global, self.way.env).await?;
        let config = self.way.config.namespace.as_deref();
        let scope = Scope::new(self.global.namespace.as_deref(), false, hub.namespace.as_deref(), config);
        let tries = async |of| {
            let mut tried = Vec::new();
            for member in Member::find(&client, &hub.context, &scope, of, name).await? {
                let found = member.way_in(&self.way, &client, false, false).await;
                tried.push((member, found));
            }
            Ok(tried)
        };
        let of = detect::first(&client, self.options.source).await?;
        let tried = match tries(of).await {
            Err(error) => tries(detect::instead(&client, self.options.source, of, error).await?).await?,
            Ok(tried) => tried,
        };
        let (member, found) = the_usable_one(name, tried)?;
        for note in &found.notes {
            let _ = writeln!(err, "{}", printable(note));
        }
        let entries = Entries::new(&self.way, self.options.exec_command.as_ref())?;
        let file = self.file(&member)?;
        kubeconfig_file::edit(&file, self.way.env.clock(), |document| {
            let mark = entries.mark(&member, &found)?;
            let name = document.name_for(&mark);
            document.put(&entries.entry(&name, mark, &member, &found)?, true)?;
            document.set_current_context(&name);
            Ok(())
        })?;
        let shell = self.options.shell.unwrap_or_else(|| Shell::here(self.way.env));
        let path = file.to_str().ok_or_else(|| {
            Error::new(Kind::Usage, format!("the path {} is not UTF-8", file.display()))
                .remedy("set KUBECTL_INVENTORY_DATA_DIR to one that is")
        })?;
        writeln!(out, "{}", shell.set("KUBECONFIG", path)).map_err(not_written)?;
        if self.on_terminal {
            let _ = writeln!(err, "# to have your shell do this: {}", shell.hint(&printable(name)));
        }
        Ok(())
    }

    /// One file for each cluster of each hub, and for each account that is named.
    fn file(&self, member: &Member) -> Result<PathBuf> {
        let flags = &self.way.flags;
        let who = match (&flags.managed_serviceaccount, flags.hub_identity) {
            (Some(account), _) => format!("_{account}"),
            (None, true) => "_hub-identity".to_owned(),
            (None, false) => String::new(),
        };
        let name = format!("{}_{}{who}.yaml", member.namespace(), member.metadata().name);
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
            return Err(Error::new(Kind::Usage, format!("{name:?} is no name for a file"))
                .remedy("ask the hub's administrator to correct the cluster's name"));
        }
        let hub = hub::fingerprint(&self.way.chosen.hub)?;
        Ok(hub::data_dir(self.way.env)?.join("kubeconfigs").join(&hub[..12]).join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_gets_its_own_quotes() {
        let odd = r"/it's \here";
        assert_eq!(Shell::Posix.set("K", odd), r"export K='/it'\''s \here'");
        assert_eq!(Shell::Fish.set("K", odd), r"set -gx K '/it\'s \\here'");
        assert_eq!(Shell::PowerShell.set("K", odd), r"$Env:K = '/it''s \here'");
    }

    #[cfg(unix)]
    #[test]
    fn the_shell_is_that_of_the_person_unless_it_is_said() {
        for (shell, expected) in [
            ("/usr/bin/fish", Shell::Fish),
            ("/bin/zsh", Shell::Posix),
            ("/opt/nu", Shell::Posix),
            ("pwsh", Shell::PowerShell),
        ] {
            assert_eq!(Shell::here(&Env::of([("SHELL", shell)])), expected, "{shell}");
        }
        assert!("cmd".parse::<Shell>().is_err());
    }
}
