//! The local file of access providers: which of its plugins a context gets, and what a profile may add.

use e2e::sealed::{Sealed, yaml};
use fleet::{Fleet, profile_path};
use serde_json::{Value, json};

/// Lets the profile of a cluster publish these ways in, each at the cluster's own server.
fn publish(fleet: &Fleet, cluster: &str, providers: &[(&str, Value)]) {
    fleet.hub().edit(&*profile_path("cluster-inventory", cluster), |profile| {
        let of_ocm = profile["status"]["accessProviders"][0]["cluster"].clone();
        let published = providers.iter().map(|(name, extensions)| {
            let mut cluster = of_ocm.clone();
            cluster["extensions"] = extensions.clone();
            json!({"name": name, "cluster": cluster})
        });
        profile["status"]["accessProviders"] = published.collect();
    });
}

fn additions(args: Value, envs: Value) -> Value {
    json!([
        {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": args},
        {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs", "extension": envs},
        {"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": "told"}},
    ])
}

/// An entry of the provider file.
fn provider(name: &str, command: &str, policies: &[(&str, Value)]) -> Value {
    let mut entry = json!({"name": name, "execConfig": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": ["login"],
        "env": [{"name": "FROM", "value": "file"}], "installHint": "install it",
        "interactiveMode": "Never", "provideClusterInfo": true}});
    for (name, policy) in policies {
        entry[name] = policy.clone();
    }
    entry
}

fn file(sealed: &Sealed, providers: &[Value]) -> String {
    let path = sealed.write("plugins/providers.json", &json!({"providers": providers}).to_string());
    path.display().to_string()
}

fn exec(sealed: &Sealed, name: &str) -> Value {
    sealed.entry("users", name)["user"]["exec"].clone()
}

#[test]
fn kubectl_gets_in_with_a_plugin_of_the_file_and_what_the_profile_adds_to_it() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let envs = json!({"REGION": "eu", "LD_PRELOAD": "/tmp/evil.so", "FROM": "profile"});
    publish(&fleet, "cluster1", &[("ours", additions(json!(["--region=eu"]), envs))]);
    let token = fleet.token("cluster1", "inventory");
    sealed.write(
        "plugins/bin/plugin",
        &format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$FROM $REGION $LD_PRELOAD\" \"$KUBERNETES_EXEC_INFO\" > \"$HOME/seen\"\n\
             printf '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"%s\"}}}}' {token}\n"
        ),
    );
    make_executable(&sealed, "plugins/bin/plugin");
    let policies = [
        ("profileSourcedCLIArgsPolicy", json!("Append")),
        ("profileSourcedEnvVarsPolicy", json!("AppendIfNotExists")),
    ];
    let file = file(&sealed, &[provider("ours", "bin/plugin", &policies)]);
    let said = sealed.inventory(&["use", "cluster1", "--clusterprofile-provider-file", &file]);
    for taken in ["argument --region=eu", "variable REGION=eu", "not taken", "LD_PRELOAD"] {
        assert!(said.stderr.contains(taken), "{taken}: {said:?}");
    }
    assert!(!said.stderr.contains("FROM=profile"), "{said:?}");
    said.ok();

    let exec = exec(&sealed, "cluster1@hub");
    assert_eq!(exec["command"], json!(sealed.path("plugins/bin/plugin")));
    assert_eq!(exec["args"], json!(["login", "--region=eu"]));
    assert_eq!(exec["env"], json!([{"name": "FROM", "value": "file"}, {"name": "REGION", "value": "eu"}]));
    assert_eq!((&exec["interactiveMode"], &exec["installHint"]), (&json!("Never"), &json!("install it")));
    if let Some(ran) = sealed.kubectl(&["get", "ns", "-o", "name"]) {
        assert!(ran.ok().contains("namespace/cluster1"));
        let seen = sealed.read("seen");
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines[..3], ["login", "--region=eu", "file eu "]);
        let told: Value = serde_json::from_str(lines[3]).unwrap();
        assert_eq!(told["spec"]["cluster"]["config"], json!({"clusterName": "told"}));
    }
    assert!(!sealed.read(".kube/config").contains("credential-exec"), "nothing of ours is in between");
}

fn make_executable(sealed: &Sealed, name: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(sealed.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_files_order_decides_then_what_is_built_in_and_a_flag_overrides() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let none = additions(json!([]), json!({}));
    let published = [("b", none.clone()), ("open-cluster-management", none.clone()), ("a", none)];
    publish(&fleet, "cluster1", &published);
    let file = file(
        &sealed,
        &[provider("other", "x", &[]), provider("a", "plug-a", &[]), provider("b", "plug-b", &[])],
    );
    let chosen = |args: &[&str]| {
        let mut all = vec!["use", "cluster1", "-o", "-"];
        all.extend(args);
        let written = yaml(&sealed.inventory(&all).ok());
        written["users"][0]["user"]["exec"]["command"].as_str().unwrap().to_owned()
    };
    assert_eq!(chosen(&["--clusterprofile-provider-file", &file]), "plug-a");
    assert_eq!(chosen(&["--clusterprofile-provider-file", &file, "--provider", "b"]), "plug-b");
    assert!(chosen(&[]).ends_with("/credential-exec"));
    let ocm = ["--clusterprofile-provider-file", &file, "--provider", "open-cluster-management"];
    assert!(chosen(&ocm).ends_with("/credential-exec"));

    let said = sealed.inventory(&["use", "cluster1", "--provider", "a"]).fails(3);
    assert!(said.contains("\"a\"") && said.contains("provider file"), "{said}");
    let said = sealed.inventory(&["use", "cluster1", "--provider", "google"]).fails(3);
    assert!(said.contains("google") && said.contains("open-cluster-management"), "{said}");
    let account = ["use", "cluster1", "--clusterprofile-provider-file", &file, "--sa", "inventory"];
    assert!(sealed.inventory(&account).fails(2).contains("provider a"));
    let tunnel = ["use", "cluster1", "--clusterprofile-provider-file", &file, "--reach", "tunnel"];
    assert!(sealed.inventory(&tunnel).fails(2).contains("tunnel"));
}

#[test]
fn the_flag_goes_before_the_variable_and_that_before_the_config_file() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    publish(&fleet, "cluster1", &[("a", additions(json!([]), json!({})))]);
    for name in ["flag", "variable", "config"] {
        let text = json!({"providers": [provider("a", name, &[])]}).to_string();
        sealed.write(&format!("from-{name}.yaml"), &text);
    }
    let chosen = |flag: bool, variable: bool| {
        let mut command = sealed.inventory_command(&["use", "cluster1", "-o", "-"]);
        if flag {
            command.arg("--clusterprofile-provider-file").arg(sealed.path("from-flag.yaml"));
        }
        if variable {
            command.env("KUBECTL_INVENTORY_PROVIDER_FILE", sealed.path("from-variable.yaml"));
        }
        yaml(&e2e::sealed::run(&mut command).ok())["users"][0]["user"]["exec"]["command"].clone()
    };
    // Relative to the config file.
    sealed.write("config.yaml", "providerFile: from-config.yaml\n");
    assert_eq!(chosen(false, false), "config");
    assert_eq!(chosen(false, true), "variable");
    assert_eq!(chosen(true, true), "flag");
}

#[test]
fn a_file_that_cannot_be_acted_on_is_named_before_anything_is_written() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let before = sealed.read(".kube/config");
    let wrong_policy = provider("a", "x", &[("profileSourcedEnvVarsPolicy", json!("Allow"))]);
    for (text, named) in [
        (String::new(), "providers"),
        ("{".to_owned(), "access providers"),
        (json!({"providers": [{"name": "a"}]}).to_string(), "execConfig"),
        (json!({"providers": [wrong_policy]}).to_string(), "Allow"),
    ] {
        let path = sealed.write("broken.json", &text).display().to_string();
        let said = sealed.inventory(&["use", "cluster1", "--clusterprofile-provider-file", &path]).fails(2);
        assert!(said.contains(&path) && said.contains(named) && said.contains("try: "), "{text}: {said}");
    }
    let said =
        sealed.inventory(&["use", "cluster1", "--clusterprofile-provider-file", "missing.json"]).fails(2);
    assert!(said.contains("missing.json"), "{said}");
    assert_eq!(sealed.read(".kube/config"), before);
}

#[test]
fn the_order_in_which_clusters_are_used_changes_none_of_them() {
    let fleet = Fleet::builder().spokes(3).start();
    let policies =
        [("profileSourcedCLIArgsPolicy", json!("Append")), ("profileSourcedEnvVarsPolicy", json!("Replace"))];
    for n in 1..=3 {
        let cluster = format!("cluster{n}");
        let envs = json!({"FROM": cluster, "B": "b", "A": "a"});
        publish(&fleet, &cluster, &[("ours", additions(json!([format!("--cluster={cluster}")]), envs))]);
    }
    let used = |order: [u8; 3]| {
        let sealed = Sealed::at(&fleet);
        let file = file(&sealed, &[provider("ours", "plugin", &policies)]);
        for n in order {
            let cluster = format!("cluster{n}");
            sealed
                .inventory(&["use", &cluster, "--clusterprofile-provider-file", &file, "--context", "hub"])
                .ok();
        }
        [1, 2, 3].map(|n| exec(&sealed, &format!("cluster{n}@hub")))
    };
    let first = used([1, 2, 3]);
    assert_eq!(first[1]["args"], json!(["login", "--cluster=cluster2"]));
    for order in [[3, 2, 1], [2, 1, 3]] {
        assert_eq!(used(order), first);
    }
}

#[test]
fn a_plugin_for_ocm_is_used_where_the_cluster_is_reached_directly_and_else_passed_over() {
    let direct = Fleet::builder().spokes(1).start();
    let tunnelled = Fleet::builder().spokes(1).tunnelled().start();
    for (fleet, ours) in [(&direct, false), (&tunnelled, true)] {
        let sealed = Sealed::at(fleet);
        let file = file(&sealed, &[provider("open-cluster-management", "ocm-plugin", &[])]);
        let said = sealed.inventory(&["use", "cluster1", "--clusterprofile-provider-file", &file]);
        assert_eq!(said.stderr.contains("passed over"), ours, "{said:?}");
        said.ok();
        let exec = exec(&sealed, "cluster1@hub");
        assert_eq!(exec["command"] == "ocm-plugin", !ours, "{exec}");
        assert_eq!(exec["args"].to_string().contains("--tunnel="), ours, "{exec}");
    }
}

#[test]
fn what_plugins_are_told_follows_the_profile() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let file = file(&sealed, &[provider("ours", "plugin", &[])]);
    let told = || {
        sealed.inventory(&["use", "cluster1", "--clusterprofile-provider-file", &file]).ok();
        let cluster = sealed.entry("clusters", "cluster1@hub");
        let extensions = cluster["cluster"]["extensions"].as_array().cloned().unwrap_or_default();
        extensions.into_iter().find(|extension| extension["name"] == "client.authentication.k8s.io/exec")
    };
    publish(&fleet, "cluster1", &[("ours", additions(json!([]), json!({})))]);
    assert_eq!(told().unwrap()["extension"], json!({"clusterName": "told"}));
    publish(&fleet, "cluster1", &[("ours", json!([]))]);
    assert_eq!(told(), None);
}

#[test]
fn the_hub_of_such_a_context_is_found_again_and_never_guessed() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    publish(&fleet, "cluster1", &[("ours", json!([]))]);
    let file = file(&sealed, &[provider("ours", "plugin", &[])]);
    sealed.inventory(&["use", "cluster1", "--clusterprofile-provider-file", &file]).ok();
    assert!(sealed.inventory(&["get"]).ok().contains("cluster2"));
    assert_eq!(sealed.inventory(&["use", "cluster2"]).ok(), "context cluster1@hub → cluster2@hub\n");

    // Renamed, it is known by its server and CA; gone, it is missed.
    sealed.inventory(&["use", "cluster1", "--clusterprofile-provider-file", &file]).ok();
    let mut config = sealed.config();
    for context in config["contexts"].as_array_mut().unwrap() {
        if context["name"] == "hub" {
            context["name"] = json!("other");
        }
    }
    sealed.write(".kube/config", &config.to_string());
    assert!(sealed.inventory(&["get"]).ok().contains("cluster2"));
    config["contexts"].as_array_mut().unwrap().retain(|context| context["name"] != "other");
    sealed.write(".kube/config", &config.to_string());
    let said = sealed.inventory(&["get"]).fails(3);
    assert!(said.contains("cluster1@hub") && said.contains("--context"), "{said}");
}
