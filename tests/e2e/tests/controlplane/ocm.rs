//! The main job on two real API servers: a hub laid out as OCM does it, and a spoke.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use e2e::controlplane::ocm::{Joined, profile, put_profile};
use e2e::controlplane::{ControlPlane, go_program};
use e2e::sealed::{Sealed, run, run_with_input, yaml};
use fleet::machine::kubectl;
use serde_json::{Value, json};

#[test]
fn the_main_job_on_two_real_api_servers() {
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    let joined = Joined::join(&hub, &spoke, "cluster1", "dev").unwrap();
    let sealed = Sealed::empty();
    sealed.write(".kube/config", &hub.kubeconfig(&hub.token("viewer")));
    let hub_context = sealed.config()["current-context"].as_str().unwrap().to_owned();

    let table = sealed.inventory(&["get"]).ok();
    assert!(table.lines().nth(1).unwrap().starts_with("cluster1"), "{table}");
    let listed: Value = serde_json::from_str(&sealed.inventory(&["get", "-o", "json"]).ok()).unwrap();
    assert_eq!(listed["items"][0]["metadata"]["uid"], joined.profile().unwrap()["metadata"]["uid"]);
    let said = sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(said, format!("context {hub_context} → cluster1@{hub_context}\n"));
    let context = format!("cluster1@{hub_context}");
    assert_eq!(sealed.token(&context), joined.token().unwrap());

    everyday_kubectl(&sealed, &joined);
    other_clients(&sealed);

    // The account made anew revokes its token at once; the hub gets a new one.
    joined.recreate_account().unwrap();
    if kubectl().is_some() {
        let _ = sealed.kubectl(&["get", "ns"]);
        sealed.kubectl(&["get", "ns"]).unwrap().ok();
    }
    assert_eq!(sealed.token(&context), joined.token().unwrap());

    forged_and_forbidden(&hub, &spoke, &joined);
}

/// Reading, applying, watching and asking who one is.
fn everyday_kubectl(sealed: &Sealed, joined: &Joined<'_>) {
    let Some(kubectl) = kubectl() else { return };
    let ask = |args: &[&str]| sealed.kubectl(args).unwrap().ok();
    assert!(ask(&["get", "ns"]).contains("kube-system"));
    let whoami = yaml(&ask(&["auth", "whoami", "-o", "yaml"]));
    assert_eq!(whoami["status"]["userInfo"]["username"], joined.subject());

    let watch = ["get", "configmaps", "--watch", "-o", "name"];
    let mut watch = sealed.command(&kubectl).args(watch).stdout(Stdio::piped()).spawn().unwrap();
    let seen = BufReader::new(watch.stdout.take().unwrap());
    let mut apply = sealed.command(&kubectl);
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-stdin"},
                          "data": {"big": "x".repeat(200_000)}});
    run_with_input(apply.args(["apply", "--server-side", "-f", "-"]), manifest.to_string().as_bytes()).ok();
    let found = seen.lines().map_while(Result::ok).any(|line| line == "configmap/from-stdin");
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(found, "the watch shows what was applied");
    assert_eq!(ask(&["get", "cm", "from-stdin", "-o", "jsonpath={.data.big}"]).len(), 200_000);
}

/// client-go and kube, with the same file.
fn other_clients(sealed: &Sealed) {
    if let Some(client) = go_program("goclient").unwrap() {
        assert!(run(&mut sealed.command(client)).ok().contains("kube-system"));
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = sealed.read(".kube/config");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let namespaces = runtime.block_on(async {
        let config = kube::config::Kubeconfig::from_yaml(&config).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(client)
            .list(&Default::default())
            .await
            .unwrap()
    });
    assert!(namespaces.items.iter().any(|n| n.metadata.name.as_deref() == Some("kube-system")));
}

/// Real RBAC: a tenant's forgery, and people who may not do what they ask for.
fn forged_and_forbidden(hub: &ControlPlane, spoke: &ControlPlane, joined: &Joined<'_>) {
    hub.create_namespace("tenant").unwrap();
    let mut forged = profile("cluster1", "https://127.0.0.1:1/cluster1", spoke.ca_pem());
    forged["metadata"]["namespace"] = json!("tenant");
    put_profile(hub, "tenant", &forged).unwrap();
    let sealed = Sealed::empty();
    // The administrator may read every Secret: the rule of trust must hold even so.
    sealed.write(".kube/config", &hub.kubeconfig(&hub.admin_token()));
    for args in [&["use", "tenant/cluster1"][..], &["use", "tenant/cluster1", "--sa", "dev", "-o", "-"]] {
        let said = sealed.inventory(args).fails(4);
        assert!(said.contains("127.0.0.1:1") && said.contains("--trust-server"), "{said}");
    }
    sealed.inventory(&["use", "cluster1"]).ok();
    let name = sealed.config()["current-context"].as_str().unwrap().to_owned();
    assert_eq!(sealed.entry("clusters", &name)["cluster"]["server"], spoke.server());
    assert_eq!(sealed.token(&name), joined.token().unwrap());

    sealed.write(".kube/config", &hub.kubeconfig(&hub.token("nobody")));
    for args in [&["get"][..], &["use", "cluster1"]] {
        let said = sealed.inventory(args).fails(4);
        assert!(
            said.contains("nobody") && said.contains("clusterprofiles") && said.contains("try: "),
            "{said}"
        );
    }
    sealed.write(".kube/config", &hub.kubeconfig("not-a-token"));
    let said = sealed.inventory(&["get"]).fails(4);
    assert!(said.contains("login") || said.contains("log in"), "{said}");
}
