//! Other programs that get into clusters, configured by `provider-config`: a Go program that makes its
//! rest.Config as the Cluster Inventory API's library does, or as Argo CD does, and kubectl in a Pod's place.

use std::path::Path;

use e2e::binaries::binaries;
use e2e::controlplane::ocm::{INVENTORY, Joined};
use e2e::controlplane::{ControlPlane, go_program};
use e2e::sealed::{Ran, Sealed, run, yaml};
use serde_json::{Value, json};

use crate::ways_in::{account_token, let_in, publish, put_secret, viewer_of};

/// A program in its Pod on the hub.
struct Pod<'a> {
    sealed: &'a Sealed,
    program: &'a Path,
}

impl Pod<'_> {
    /// Runs it for `cluster1` with this file of access providers.
    fn consume(&self, file: &str) -> Ran {
        let file = self.sealed.write("providers.json", file);
        let file = ["--clusterprofile-provider-file", file.to_str().unwrap()];
        self.run(&[&file[..], &["--namespace", INVENTORY, "--name", "cluster1"]].concat())
    }

    fn run(&self, args: &[&str]) -> Ran {
        // Where its Pod would run.
        run(self.sealed.command(self.program).env("NAMESPACE", INVENTORY).args(args))
    }

    /// What `provider-config FORM` prints for a Pod in which credential-exec is where it is here.
    fn config(&self, args: &[&str]) -> String {
        let here = binaries().join("credential-exec").display().to_string();
        self.sealed.inventory(&[&["provider-config"], args, &["--exec-command", &here]].concat()).ok()
    }
}

#[track_caller]
fn is(ran: Ran, who: &str) {
    let said = ran.ok();
    assert!(said.starts_with(&format!("{who}\n")) && said.contains("kube-system"), "not {who}: {said}");
}

#[test]
fn a_go_program_on_the_inventory_api_gets_in_by_each_of_the_three_plugins_that_ours_stands_in_for() {
    let Some((hub, spoke)) = ControlPlane::start_two("hub", "spoke").unwrap() else { return };
    let Some(program) = go_program("consumer").unwrap() else { return };
    let joined = Joined::join(&hub, &spoke, "cluster1", "dev").unwrap();
    let sealed = viewer_of(&hub);
    let pod = Pod { sealed: &sealed, program: &program };
    let file = pod.config(&["file", "--managed-serviceaccount", "dev"]);

    is(pod.consume(&file), &joined.subject());
    // The account made anew on the cluster revokes the token that is kept.
    joined.recreate_account().unwrap();
    let _ = pod.consume(&file);
    is(pod.consume(&file), &joined.subject());
    other_forms(&pod, &joined);

    let (token, subject) = account_token(&spoke, "secret");
    put_secret(&hub, INVENTORY, "cluster1", json!({}), "token", &token);
    publish(&hub, &spoke, "secretreader", json!({ "clusterName": "cluster1" }));
    is(pod.consume(&file), &subject);

    let_in(&spoke, "carol");
    let put_certificate = |user: &str, ended| {
        let (certificate, key) = spoke.client_certificate(user, None, ended);
        let kubeconfig = spoke.kubeconfig_with_certificate(&certificate, &key);
        put_secret(&hub, INVENTORY, "access", json!({}), "config", &kubeconfig);
    };
    put_certificate("carol", None);
    publish(&hub, &spoke, "kubeconfig-secretreader", json!({ "name": "access", "key": "config" }));
    is(pod.consume(&file), "carol");
    put_certificate("carol", Some((2025, 3, 4)));
    let ran = pod.consume(&file);
    assert!(ran.code != 0 && ran.stderr.contains("expired on 2025-03-04"), "{ran:?}");
}

/// MultiKueue, which reads the same providers from its own file; Argo CD; a kubeconfig.
fn other_forms(pod: &Pod<'_>, joined: &Joined<'_>) {
    let kueue = yaml(&pod.config(&["multikueue", "--sa", "dev"]));
    let providers = kueue["multiKueue"]["clusterProfile"]["credentialsProviders"].clone();
    is(pod.consume(&json!({ "providers": providers }).to_string()), &joined.subject());

    let secret: Value = yaml(&pod.config(&["argocd", "cluster1", "--sa", "dev"]));
    assert_eq!(secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"], "cluster");
    let file = pod.sealed.write("secret.json", &secret.to_string());
    is(pod.run(&["--argocd-secret", file.to_str().unwrap()]), &joined.subject());

    let kubeconfig = pod.config(&["kubeconfig", "cluster1", "--sa", "dev"]);
    let file = pod.sealed.write("pod.yaml", &kubeconfig).display().to_string();
    if let Some(ran) = pod.sealed.kubectl(&["--kubeconfig", &file, "get", "ns", "-o", "name"]) {
        assert!(ran.ok().contains("namespace/kube-system"));
    }
}
