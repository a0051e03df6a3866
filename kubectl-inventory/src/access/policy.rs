//! What a ClusterProfile may add to a command of the local provider file. Pure.
//!
//! The command itself is never a profile's to say. Arguments and variables are, as far as the file allows
//! it, from these extensions of the profile's cluster (the Cluster Inventory API's names):
//!
//! ```json
//! [{"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": ["--region=eu"]},
//!  {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs", "extension": {"REGION": "eu"}}]
//! ```

use std::collections::BTreeMap;

use credential_exec::error::{Error, Kind, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::kubeconfig::ExecEntry;
use crate::inventory::cluster_profile::ProviderCluster;

const ARGS: &str = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args";
const ENVS: &str = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs";

/// `profileSourcedCLIArgsPolicy`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ArgsPolicy {
    /// A profile adds none.
    #[default]
    Ignore,
    /// A profile's follow those of the file.
    Append,
}

/// `profileSourcedEnvVarsPolicy`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum EnvPolicy {
    /// A profile sets none.
    #[default]
    Ignore,
    /// A profile sets those that the file does not.
    AppendIfNotExists,
    /// A profile's value goes before the file's.
    Replace,
}

/// What a profile may add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Arguments.
    pub args: ArgsPolicy,
    /// Variables.
    pub env: EnvPolicy,
    /// The only variables that it may set, where the file lists them. What is on our own list of
    /// dangerous names stays refused.
    pub allowed_env: Option<Vec<String>>,
}

/// A command as it is to stand in the kubeconfig, and what came of the profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// The command.
    pub exec: ExecEntry,
    /// Each thing taken from the profile, in words.
    pub taken: Vec<String>,
    /// Each thing that was not, though the policy is not to ignore all of its kind.
    pub left_out: Vec<String>,
}

/// The file's command with what the profile adds to it.
///
/// # Errors
/// [`Kind::Refused`] for additions that are not what the API says they are, or could not stand in a
/// command line.
pub fn merge(exec: &ExecEntry, policy: &Policy, cluster: &ProviderCluster) -> Result<Merged> {
    let mut merged = Merged { exec: exec.clone(), ..Merged::default() };
    if policy.args == ArgsPolicy::Append {
        for arg in extension::<Vec<String>>(cluster, ARGS)?.unwrap_or_default() {
            check(ARGS, &arg)?;
            merged.taken.push(format!("argument {arg}"));
            merged.exec.args.push(arg);
        }
    }
    if policy.env != EnvPolicy::Ignore {
        for (name, value) in extension::<BTreeMap<String, String>>(cluster, ENVS)?.unwrap_or_default() {
            check(ENVS, &name)?;
            check(ENVS, &value)?;
            if !policy.allows(&name) {
                merged.left_out.push(format!("variable {name}"));
                continue;
            }
            let known = merged.exec.env.iter_mut().find(|(known, _)| *known == name);
            match (known, policy.env) {
                (Some(_), EnvPolicy::AppendIfNotExists) => continue,
                (Some((_, known)), _) => known.clone_from(&value),
                (None, _) => merged.exec.env.push((name.clone(), value.clone())),
            }
            merged.taken.push(format!("variable {name}={value}"));
        }
    }
    Ok(merged)
}

impl Policy {
    fn allows(&self, name: &str) -> bool {
        let listed = self.allowed_env.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one == name));
        listed && is_name(name) && !is_dangerous(name)
    }
}

fn extension<T: DeserializeOwned>(cluster: &ProviderCluster, name: &str) -> Result<Option<T>> {
    let Some(found) = cluster.extensions.iter().find(|extension| extension.name == name) else {
        return Ok(None);
    };
    if found.extension.is_null() {
        return Ok(None);
    }
    serde_json::from_value(found.extension.clone()).map(Some).map_err(|error| {
        Error::new(Kind::Refused, format!("the profile's {name} cannot be used: {error}"))
            .remedy("ask the cluster's manager to correct it, or set the provider file's policy to Ignore")
    })
}

fn check(what: &str, text: &str) -> Result<()> {
    if text.chars().any(char::is_control) {
        return Err(Error::new(Kind::Refused, format!("the profile's {what} holds control characters"))
            .remedy("ask the cluster's manager to correct it, or set the provider file's policy to Ignore"));
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Variables that decide what runs, what it loads, whom it talks to or whose credentials it uses.
fn is_dangerous(name: &str) -> bool {
    const NAMES: &str = "PATH PATHEXT HOME USERPROFILE APPDATA LOCALAPPDATA PROGRAMDATA SYSTEMROOT WINDIR \
        COMSPEC SHELL SHELLOPTS BASHOPTS BASH_ENV ENV IFS CDPATH PS4 PROMPT_COMMAND EDITOR VISUAL PAGER BROWSER \
        TMPDIR TMP TEMP KUBECONFIG LOCPATH GCONV_PATH NLSPATH HOSTALIASES RESOLV_HOST_CONF LOCALDOMAIN GODEBUG \
        GOTRACEBACK JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH SSLKEYLOGFILE \
        AZURE_AUTHORITY_HOST SSH_AUTH_SOCK SSH_ASKPASS";
    const BEGINNINGS: &str = "LD_ DYLD_ GLIBC_ MALLOC_ BASH_FUNC_ PYTHON PERL RUBY GEM_ BUNDLE_ NODE_ NPM_ DOTNET_ \
        COMPLUS_ CORECLR_ XDG_ SSL_CERT_ OPENSSL_ GIT_ KUBERNETES_ KUBECTL_ CLOUDSDK_ AWS_CONTAINER_ \
        AWS_ENDPOINT_ GOOGLE_APPLICATION_ RUST_";
    const ENDS: &str = "_PROXY _CA_BUNDLE _CONFIG_FILE _CREDENTIALS_FILE _CERT_FILE _TOKEN_FILE _ENDPOINT \
        _ENDPOINT_URL _CONFIG_DIR _CONFIG_PATH";
    let name = name.to_ascii_uppercase();
    NAMES.split_whitespace().any(|one| one == name)
        || BEGINNINGS.split_whitespace().any(|beginning| name.starts_with(beginning))
        || ENDS.split_whitespace().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn cluster(args: Value, envs: Value) -> ProviderCluster {
        serde_json::from_value(json!({"extensions": [
            {"name": ARGS, "extension": args}, {"name": ENVS, "extension": envs},
        ]}))
        .unwrap()
    }

    fn exec() -> ExecEntry {
        ExecEntry {
            command: "plugin".into(),
            args: vec!["get".into()],
            env: vec![("A".into(), "file".into())],
            ..ExecEntry::default()
        }
    }

    fn policy(args: ArgsPolicy, env: EnvPolicy) -> Policy {
        Policy { args, env, allowed_env: None }
    }

    #[test]
    fn a_profile_adds_nothing_unless_the_file_says_so() {
        let merged = merge(&exec(), &Policy::default(), &cluster(json!(["-x"]), json!({"B": "b"}))).unwrap();
        assert_eq!(merged, Merged { exec: exec(), ..Merged::default() });
        // What is ignored is not even looked at.
        assert!(merge(&exec(), &Policy::default(), &cluster(json!(7), json!("x"))).is_ok());
    }

    #[test]
    fn arguments_follow_the_files_and_variables_by_name() {
        let cluster = cluster(json!(["--region=eu", "-v"]), json!({"Z": "z", "B": "b", "A": "profile"}));
        for (env, first) in [(EnvPolicy::AppendIfNotExists, "file"), (EnvPolicy::Replace, "profile")] {
            let merged = merge(&exec(), &policy(ArgsPolicy::Append, env), &cluster).unwrap();
            assert_eq!(merged.exec.args, ["get", "--region=eu", "-v"]);
            let expected = [("A", first), ("B", "b"), ("Z", "z")].map(|(n, v)| (n.to_owned(), v.to_owned()));
            assert_eq!(merged.exec.env, expected);
            assert!(merged.taken.contains(&"variable Z=z".to_owned()), "{merged:?}");
        }
    }

    #[test]
    fn a_list_of_allowed_variables_is_the_whole_list_and_danger_stays_out_of_it() {
        let policy = Policy {
            allowed_env: Some(vec!["REGION".into(), "LD_PRELOAD".into()]),
            ..policy(ArgsPolicy::Ignore, EnvPolicy::Replace)
        };
        let cluster = cluster(json!([]), json!({"REGION": "eu", "LD_PRELOAD": "/tmp/x", "OTHER": "1"}));
        let merged = merge(&exec(), &policy, &cluster).unwrap();
        assert_eq!(merged.taken, ["variable REGION=eu"]);
        assert_eq!(merged.left_out, ["variable LD_PRELOAD", "variable OTHER"]);
    }

    #[test]
    fn no_variable_that_decides_what_runs_or_who_is_asked_comes_from_a_profile() {
        let names = "LD_PRELOAD ld_preload DYLD_INSERT_LIBRARIES PATH Path KUBECONFIG BASH_ENV BASH_FUNC_x%% \
            https_proxy HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE AWS_CA_BUNDLE REQUESTS_CA_BUNDLE PYTHONPATH \
            PYTHONSTARTUP NODE_OPTIONS NODE_EXTRA_CA_CERTS GOOGLE_APPLICATION_CREDENTIALS AWS_CONFIG_FILE \
            AWS_SHARED_CREDENTIALS_FILE AWS_WEB_IDENTITY_TOKEN_FILE AWS_ENDPOINT_URL_STS \
            AWS_CONTAINER_CREDENTIALS_FULL_URI AZURE_AUTHORITY_HOST AZURE_FEDERATED_TOKEN_FILE AZURE_CONFIG_DIR \
            CLOUDSDK_CONFIG KUBERNETES_EXEC_INFO KUBECTL_INVENTORY_CACHE_DIR GIT_SSH_COMMAND HOME A=B GODEBUG \
            SSLKEYLOGFILE PERL5LIB RUBYOPT";
        for name in names.split_whitespace().chain(["", "A B"]) {
            let merged = merge(
                &exec(),
                &policy(ArgsPolicy::Ignore, EnvPolicy::Replace),
                &cluster(json!([]), json!({name: "x"})),
            );
            assert_eq!(merged.unwrap().exec, exec(), "{name}");
        }
    }

    #[test]
    fn additions_of_another_shape_or_with_control_characters_are_refused() {
        let all = policy(ArgsPolicy::Append, EnvPolicy::Replace);
        for (args, envs) in [
            (json!("--x"), json!({})),
            (json!([1]), json!({})),
            (json!(["a\nb"]), json!({})),
            (json!(["\u{1b}[0m"]), json!({})),
            (json!([]), json!(["A"])),
            (json!([]), json!({"A": 1})),
            (json!([]), json!({"A": "a\0b"})),
        ] {
            let error = merge(&exec(), &all, &cluster(args.clone(), envs.clone())).unwrap_err();
            assert!(error.kind == Kind::Refused && !error.remedy.is_empty(), "{args} {envs}: {error}");
        }
        assert_eq!(merge(&exec(), &all, &cluster(Value::Null, Value::Null)).unwrap().exec, exec());
    }

    proptest! {
        #[test]
        fn no_profile_changes_the_command_or_more_than_the_policy_allows(
            args in prop::collection::vec("\\PC{0,8}", 0..4),
            envs in prop::collection::btree_map("[A-Za-z_=]{0,9}|LD_PRELOAD|PATH|A", "\\PC{0,8}", 0..4),
            append in any::<bool>(), env in 0..3_usize, allowed in prop::option::of(prop::collection::vec("[A-C]", 0..3)),
        ) {
            let policy = Policy {
                args: if append { ArgsPolicy::Append } else { ArgsPolicy::Ignore },
                env: [EnvPolicy::Ignore, EnvPolicy::AppendIfNotExists, EnvPolicy::Replace][env],
                allowed_env: allowed,
            };
            let merged = merge(&exec(), &policy, &cluster(json!(args), json!(envs))).unwrap();
            prop_assert_eq!(&merged.exec.command, "plugin");
            prop_assert_eq!(merged.exec.api_version, exec().api_version);
            let expected = if append { [exec().args, args].concat() } else { exec().args };
            prop_assert_eq!(&merged.exec.args, &expected);
            let kept = policy.env == EnvPolicy::Replace && policy.allows("A");
            if !kept { prop_assert_eq!(&merged.exec.env[0].1, "file"); }
            for (name, _) in &merged.exec.env[1..] {
                prop_assert!(policy.env != EnvPolicy::Ignore && policy.allows(name) && !is_dangerous(name));
            }
        }
    }
}
