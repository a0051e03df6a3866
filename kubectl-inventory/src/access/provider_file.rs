//! The local file of access providers that every consumer of the Cluster Inventory API reads (its flag
//! `--clusterprofile-provider-file`), as JSON or YAML. Pure.
//!
//! ```json
//! {"providers": [{"name": "google", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1",
//!     "command": "gke-gcloud-auth-plugin", "args": [], "env": [{"name": "A", "value": "b"}],
//!     "installHint": "…", "interactiveMode": "IfAvailable", "provideClusterInfo": true},
//!   "profileSourcedCLIArgsPolicy": "Append", "profileSourcedEnvVarsPolicy": "AppendIfNotExists",
//!   "allowedProfileEnvVars": ["REGION"]}]}
//! ```
//!
//! `allowedProfileEnvVars` is ours; other consumers pass over it.

use std::path::Path;

use credential_exec::error::{Error, Kind, Result};
use credential_exec::protocol::ApiVersion;
use serde::Deserialize;

use super::kubeconfig::{ExecEntry, InteractiveMode};
use super::policy::{ArgsPolicy, EnvPolicy, Policy};

/// A provider that the person has a plugin for.
#[derive(Clone, Debug, PartialEq)]
pub struct FileProvider {
    /// The name under which profiles publish it.
    pub name: String,
    /// The plugin.
    pub exec: ExecEntry,
    /// What a profile may add to it.
    pub policy: Policy,
}

#[derive(Deserialize)]
struct WireFile {
    #[serde(default)]
    providers: Option<Vec<WireProvider>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireProvider {
    #[serde(default)]
    name: String,
    exec_config: WireExec,
    #[serde(default, rename = "profileSourcedCLIArgsPolicy")]
    args_policy: ArgsPolicy,
    #[serde(default, rename = "profileSourcedEnvVarsPolicy")]
    env_policy: EnvPolicy,
    #[serde(default)]
    allowed_profile_env_vars: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireExec {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    command: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<WireVariable>>,
    #[serde(default)]
    install_hint: Option<String>,
    #[serde(default)]
    interactive_mode: Option<InteractiveMode>,
    #[serde(default)]
    provide_cluster_info: bool,
}

#[derive(Deserialize)]
struct WireVariable {
    name: String,
    #[serde(default)]
    value: String,
}

/// Reads the file's text; `folder` is where it lies.
///
/// # Errors
/// [`Kind::Usage`], naming what in it cannot be acted on.
pub fn parse(text: &str, folder: &Path) -> Result<Vec<FileProvider>> {
    let file: WireFile = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.to_string().lines().next().unwrap_or_default().to_owned();
        usage(format!("it is no file of access providers: {line}"))
    })?;
    let providers = file.providers.ok_or_else(|| usage("it has no list `providers`".to_owned()))?;
    providers.into_iter().map(|provider| provider.checked(folder)).collect()
}

impl WireProvider {
    fn checked(self, folder: &Path) -> Result<FileProvider> {
        let name = self.name;
        if name.is_empty() {
            return Err(usage("a provider has no name".to_owned()));
        }
        let exec = self.exec_config;
        let refused = |why: String| usage(format!("provider {name:?} {why}"));
        if exec.command.is_empty() {
            return Err(refused("has no execConfig.command".to_owned()));
        }
        let api_version = match exec.api_version.as_deref() {
            None | Some("") => ApiVersion::default(),
            Some(text) => {
                ApiVersion::parse(text).filter(|version| version.as_str() == text).ok_or_else(|| {
                    refused(format!("has execConfig.apiVersion {text:?}, which kubectl does not know"))
                })?
            }
        };
        Ok(FileProvider {
            exec: ExecEntry {
                api_version,
                command: located(&exec.command, folder)?,
                args: exec.args.unwrap_or_default(),
                env: exec
                    .env
                    .unwrap_or_default()
                    .into_iter()
                    .map(|variable| (variable.name, variable.value))
                    .collect(),
                install_hint: exec.install_hint.filter(|hint| !hint.is_empty()),
                interactive_mode: exec.interactive_mode.unwrap_or_default(),
                provide_cluster_info: exec.provide_cluster_info,
            },
            policy: Policy {
                args: self.args_policy,
                env: self.env_policy,
                allowed_env: self.allowed_profile_env_vars,
            },
            name,
        })
    }
}

/// A path is relative to the file, as in a kubeconfig; a bare name is looked for on PATH.
fn located(command: &str, folder: &Path) -> Result<String> {
    if !command.chars().any(std::path::is_separator) {
        return Ok(command.to_owned());
    }
    let path = folder.join(command);
    path.to_str().map(str::to_owned).ok_or_else(|| usage(format!("the path {} is not UTF-8", path.display())))
}

fn usage(cause: String) -> Error {
    Error::new(Kind::Usage, cause).remedy("docs/providers.md shows such a file for EKS, GKE, AKS and others")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> FileProvider {
        let mut providers = parse(text, Path::new("/etc/inventory")).unwrap();
        assert_eq!(providers.len(), 1);
        providers.remove(0)
    }

    #[test]
    fn json_and_yaml_say_the_same() {
        let json = r#"{"providers": [{"name": "google", "execConfig": {
            "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "gke-gcloud-auth-plugin",
            "args": ["-x"], "env": [{"name": "A", "value": "b"}], "installHint": "install it",
            "interactiveMode": "Never", "provideClusterInfo": true},
            "profileSourcedCLIArgsPolicy": "Append", "profileSourcedEnvVarsPolicy": "Replace",
            "allowedProfileEnvVars": ["REGION"], "somethingNew": 1}]}"#;
        let yaml = "providers:\n- name: google\n  execConfig:\n    apiVersion: client.authentication.k8s.io/v1beta1\n    \
                    command: gke-gcloud-auth-plugin\n    args: [-x]\n    env:\n    - {name: A, value: b}\n    \
                    installHint: install it\n    interactiveMode: Never\n    provideClusterInfo: true\n  \
                    profileSourcedCLIArgsPolicy: Append\n  profileSourcedEnvVarsPolicy: Replace\n  \
                    allowedProfileEnvVars: [REGION]\n";
        let provider = one(json);
        assert_eq!(provider, one(yaml));
        assert_eq!(provider.exec.api_version, ApiVersion::V1Beta1);
        assert_eq!(provider.exec.interactive_mode, InteractiveMode::Never);
        assert_eq!((provider.policy.args, provider.policy.env), (ArgsPolicy::Append, EnvPolicy::Replace));
    }

    #[test]
    fn what_is_not_said_is_safe() {
        let provider = one(
            r#"{"providers": [{"name": "a", "execConfig": {"command": "b", "args": null, "env": null}}]}"#,
        );
        assert_eq!(provider.policy, Policy::default());
        assert_eq!(provider.exec.api_version, ApiVersion::V1);
        assert_eq!(provider.exec.interactive_mode, InteractiveMode::IfAvailable);
        assert!(
            !provider.exec.provide_cluster_info
                && provider.exec.args.is_empty()
                && provider.exec.env.is_empty()
        );
    }

    #[test]
    fn a_path_starts_at_the_file_and_a_bare_name_stays_bare() {
        for (command, located) in [
            ("plugin", "plugin"),
            ("./plugin", "/etc/inventory/./plugin"),
            ("bin/plugin", "/etc/inventory/bin/plugin"),
            ("/opt/plugin", "/opt/plugin"),
        ] {
            let text =
                format!(r#"{{"providers": [{{"name": "a", "execConfig": {{"command": "{command}"}}}}]}}"#);
            assert_eq!(one(&text).exec.command, located);
        }
    }

    #[test]
    fn what_cannot_be_acted_on_is_named_when_the_file_is_read() {
        for (text, named) in [
            ("", "providers"),
            ("[]", "access providers"),
            ("{}", "providers"),
            (r#"{"providers": [{"execConfig": {"command": "a"}}]}"#, "no name"),
            (r#"{"providers": [{"name": "a"}]}"#, "execConfig"),
            (r#"{"providers": [{"name": "a", "execConfig": {}}]}"#, "command"),
            (
                r#"{"providers": [{"name": "a", "execConfig": {"command": "b", "apiVersion": "v1"}}]}"#,
                "apiVersion",
            ),
            (
                r#"{"providers": [{"name": "a", "execConfig": {"command": "b", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}]}"#,
                "v1alpha1",
            ),
            (
                r#"{"providers": [{"name": "a", "execConfig": {"command": "b"}, "profileSourcedCLIArgsPolicy": "Allow"}]}"#,
                "Allow",
            ),
            (
                r#"{"providers": [{"name": "a", "execConfig": {"command": "b", "interactiveMode": "Sometimes"}}]}"#,
                "Sometimes",
            ),
        ] {
            let error = parse(text, Path::new("/")).unwrap_err();
            assert!(error.kind == Kind::Usage && error.to_string().contains(named), "{text}: {error}");
        }
    }
}
