//! What other programs are configured with: for each form what it holds, and what it is refused for.

use e2e::sealed::{Sealed, yaml};
use fleet::{Fleet, profile_path};
use serde_json::{Value, json};

/// The documents of a YAML stream.
fn documents(text: &str) -> Vec<Value> {
    text.split("---\n").map(yaml).collect()
}

#[test]
fn the_forms_that_name_no_cluster_need_no_hub() {
    let sealed = Sealed::empty();
    let file: Value =
        serde_json::from_str(&sealed.inventory(&["provider-config", "file", "--sa", "ci"]).ok()).unwrap();
    let names: Vec<_> = file["providers"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names, ["open-cluster-management", "secretreader", "kubeconfig-secretreader"]);
    let exec = &file["providers"][0]["execConfig"];
    assert_eq!(exec["args"], json!(["--managed-serviceaccount=ci"]));
    assert_eq!(
        (&exec["command"], &exec["provideClusterInfo"]),
        (&json!("/plugins/credential-exec"), &json!(true))
    );
    // It is a file that we read ourselves.
    let fleet = Fleet::builder().spokes(1).start();
    let home = Sealed::at(&fleet);
    let path = home.write("providers.json", &file.to_string()).display().to_string();
    home.inventory(&["use", "cluster1", "--clusterprofile-provider-file", &path]).ok();
    let user = home.entry("users", "cluster1@hub");
    assert_eq!(user["user"]["exec"]["command"], "/plugins/credential-exec");

    let kueue = yaml(&sealed.inventory(&["provider-config", "multikueue", "--sa", "ci"]).ok());
    assert_eq!(kueue["featureGates"]["MultiKueueClusterProfile"], true);
    assert_eq!(kueue["multiKueue"]["clusterProfile"]["credentialsProviders"], file["providers"]);
}

#[test]
fn argo_cd_gets_a_secret_for_each_chosen_cluster_with_no_credential_in_it() {
    let fleet = Fleet::builder().spokes(3).edit("cluster3", |cluster| cluster.healthy = Some(false)).start();
    let sealed = Sealed::at(&fleet);
    let args = ["provider-config", "argocd", "--healthy", "--sa", "inventory", "--argocd-namespace", "cd"];
    let text = sealed.inventory(&args).ok();
    let secrets = documents(&text);
    assert_eq!(secrets.len(), 2, "{text}");
    for (secret, name) in secrets.iter().zip(["cluster1", "cluster2"]) {
        assert_eq!(secret["metadata"]["name"], format!("cluster-{name}"));
        assert_eq!(secret["metadata"]["namespace"], "cd");
        assert_eq!(secret["metadata"]["labels"]["multicluster.x-k8s.io/clusterset"], "default");
        assert_eq!(secret["stringData"]["server"], fleet.server_url(name));
        let config: Value = serde_json::from_str(secret["stringData"]["config"].as_str().unwrap()).unwrap();
        let args = &config["execProviderConfig"]["args"];
        let cluster = format!("--cluster={name}");
        assert_eq!(
            *args,
            json!(["--managed-serviceaccount=inventory", cluster, "--namespace=cluster-inventory"])
        );
        assert!(config["tlsClientConfig"]["caData"].is_string(), "{config}");
    }
    for secret in fleet.secrets().iter().filter(|secret| secret.len() > 8) {
        assert!(!text.contains(secret.as_str()), "{text}");
    }

    let said = sealed.inventory(&["provider-config", "argocd", "cluster1"]).fails(2);
    assert!(said.contains("--managed-serviceaccount"), "{said}");
    let said = sealed.inventory(&["provider-config", "argocd", "nowhere", "--sa", "x"]).fails(3);
    assert!(said.contains("nowhere"), "{said}");
    let said = sealed.inventory(&["provider-config", "argocd", "-l", "env=none", "--sa", "x"]).fails(3);
    assert!(said.contains("no cluster is meant"), "{said}");
    // One that cannot be configured: nothing is printed of the others either.
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster2"), |profile| {
        profile["status"]["accessProviders"] = json!([]);
    });
    let said = sealed.inventory(&["provider-config", "argocd", "--sa", "x"]).fails(3);
    assert!(said.contains("cluster2 cannot be configured"), "{said}");
}

#[test]
fn plugins_of_the_persons_own_file_are_rendered_for_argo_cd_and_kubeconfigs() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        let mut cluster = profile["status"]["accessProviders"][0]["cluster"].clone();
        cluster["extensions"] = json!([
            {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": ["--name=c1"]},
            {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs", "extension": {"LD_PRELOAD": "x"}},
        ]);
        profile["status"]["accessProviders"] = json!([{"name": "eks", "cluster": cluster}]);
    });
    let file = json!({"providers": [{"name": "eks", "execConfig": {"command": "aws", "args": ["eks"],
        "env": [{"name": "A", "value": "b"}], "installHint": "install aws"},
        "profileSourcedCLIArgsPolicy": "Append", "profileSourcedEnvVarsPolicy": "Replace"}]});
    let path = sealed.write("providers.json", &file.to_string()).display().to_string();
    let flags = ["--clusterprofile-provider-file", path.as_str()];
    let ran = sealed.inventory(&[&["provider-config", "argocd"], &flags[..]].concat());
    assert!(ran.stderr.contains("argument --name=c1"), "{ran:?}");
    let config = yaml(&ran.ok())["stringData"]["config"].as_str().unwrap().to_owned();
    let exec = &serde_json::from_str::<Value>(&config).unwrap()["execProviderConfig"];
    assert_eq!((&exec["command"], &exec["args"]), (&json!("aws"), &json!(["eks", "--name=c1"])));
    assert_eq!((&exec["env"], &exec["installHint"]), (&json!({"A": "b"}), &json!("install aws")));

    let kubeconfig = yaml(&sealed.inventory(&[&["provider-config", "kubeconfig"], &flags[..]].concat()).ok());
    assert_eq!(kubeconfig["current-context"], "cluster1");
    assert_eq!(kubeconfig["users"][0]["user"]["exec"]["args"], json!(["eks", "--name=c1"]));
}
