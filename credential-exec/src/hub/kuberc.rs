//! kubectl's own rule on which credential plugins may run (kubectl 1.35 and later): `credentialPluginPolicy` in
//! the preferences file, which is `$KUBERC`, else `~/.kube/kuberc`. The file is only ever read.
//!
//! Source: `kubectl.config.k8s.io/v1beta1` Preference, and client-go's reading of its allowlist.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::env::Env;
use crate::error::{Error, Kind};

/// Why a plugin may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The preferences file.
    pub file: PathBuf,
    /// What to write there, so that the plugin may.
    pub stanza: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preference {
    credential_plugin_policy: String,
    credential_plugin_allowlist: Option<Vec<Entry>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    name: String,
    command: String,
}

/// Whether kubectl would refuse to run this command.
pub fn refuses(command: &str, env: &Env) -> Option<Refused> {
    let file = file(env)?;
    let text = std::fs::read_to_string(&file).ok()?;
    let preference = parse(&text)?;
    let stanza = preference.stanza_for(command, |name| on_path(name, env))?;
    Some(Refused { file, stanza })
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let lines: Vec<&str> = refused.stanza.lines().map(str::trim).collect();
        Self::new(
            Kind::Refused,
            format!("the credential plugin policy in {} does not let it run", refused.file.display()),
        )
        .remedy(format!("add to that file: {}", lines.join(" ")))
    }
}

fn file(env: &Env) -> Option<PathBuf> {
    if env.var("KUBECTL_KUBERC").is_some_and(|value| value == "false") {
        return None;
    }
    match env.path("KUBERC") {
        Some(path) if path == Path::new("off") => None,
        Some(path) => Some(path),
        None => Some(env.home()?.join(".kube").join("kuberc")),
    }
}

/// The first document of the file; one that is none of kubectl's is kubectl's to complain about.
fn parse(text: &str) -> Option<Preference> {
    let documents = text.split("\n---").filter(|document| !document.trim().trim_matches('-').is_empty());
    documents.filter_map(|document| serde_saphyr::from_str(document).ok()).next()
}

impl Preference {
    /// What must be added for the command; `None` where it may run.
    fn stanza_for(&self, command: &str, resolve: impl Fn(&str) -> Option<PathBuf>) -> Option<String> {
        let listed = self.credential_plugin_allowlist.as_deref().unwrap_or_default();
        match self.credential_plugin_policy.as_str() {
            "" | "AllowAll" => None,
            "Allowlist" => {
                let wanted = resolve(command);
                let allowed = listed.iter().any(|entry| {
                    let names = [&entry.name, &entry.command];
                    let mut said = names.into_iter().filter(|name| !name.is_empty()).peekable();
                    said.peek().is_some()
                        && said.all(|name| name == command || (wanted.is_some() && resolve(name) == wanted))
                });
                (!allowed).then(|| format!("credentialPluginAllowlist:\n- name: {command}\n"))
            }
            _ => Some(format!(
                "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- name: {command}\n"
            )),
        }
    }
}

/// Where a command is found, as `exec.LookPath` does it.
fn on_path(command: &str, env: &Env) -> Option<PathBuf> {
    let path = Path::new(command);
    if path.components().count() > 1 {
        return path.is_file().then(|| path.to_owned());
    }
    let folders = env.os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|found| found.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stanza(text: &str, command: &str) -> Option<String> {
        let resolve = |name: &str| match name {
            "credential-exec" | "/usr/bin/credential-exec" => Some(PathBuf::from("/usr/bin/credential-exec")),
            _ => None,
        };
        parse(text).and_then(|preference| preference.stanza_for(command, resolve))
    }

    #[test]
    fn a_policy_refuses_what_it_does_not_name() {
        let ours = "/usr/bin/credential-exec";
        for text in [
            "",
            "kind: Preference\n",
            "credentialPluginPolicy: AllowAll\n",
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{name: /usr/bin/credential-exec}]\n",
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{name: x}, {name: credential-exec}]\n",
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: credential-exec}]\n",
            "---\ncredentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{name: credential-exec}]\n---\nkind: Other\n",
        ] {
            assert_eq!(stanza(text, ours), None, "{text}");
        }
        for text in [
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{name: aws}]\n",
            "credentialPluginPolicy: Allowlist\n",
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{name: credential-exec, command: aws}]\n",
        ] {
            assert_eq!(
                stanza(text, ours).unwrap(),
                format!("credentialPluginAllowlist:\n- name: {ours}\n"),
                "{text}"
            );
        }
        let denied = stanza("credentialPluginPolicy: DenyAll\n", ours).unwrap();
        assert!(denied.starts_with("credentialPluginPolicy: Allowlist\n"), "{denied}");
        // What is to be added is enough.
        assert_eq!(stanza(&denied, ours), None);
    }

    #[test]
    fn the_file_is_kubectls_own_unless_it_is_switched_off() {
        let home = ("HOME", "/home/me");
        assert_eq!(file(&Env::of([home])), Some("/home/me/.kube/kuberc".into()));
        assert_eq!(file(&Env::of([home, ("KUBERC", "/x")])), Some("/x".into()));
        assert_eq!(file(&Env::of([home, ("KUBERC", "off")])), None);
        assert_eq!(file(&Env::of([home, ("KUBECTL_KUBERC", "false")])), None);
    }
}
