//! Other consumers of the Cluster Inventory API: a Go program that makes its rest.Config as that API's library
//! does gets into a real cluster with credential-exec in place of each of the three plugins.

use e2e::binaries::binaries;
use e2e::controlplane::ocm::{INVENTORY, Joined};
use e2e::controlplane::{ControlPlane, go_program};
use e2e::sealed::{Ran, Sealed, run};
use serde_json::{Value, json};

use crate::ways_in::{account_token, let_in, publish, put_secret, viewer_of};

/// Runs the program for `cluster1` with credential-exec and these arguments behind a provider's name.
fn consume(sealed: &Sealed, program: &std::path::Path, provider: &str, args: Value) -> Ran {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": binaries().join("credential-exec"),
        "args": args, "interactiveMode": "Never", "provideClusterInfo": true,
    });
    let file = json!({ "providers": [{ "name": provider, "execConfig": exec }] });
    let file = sealed.write("providers.json", &file.to_string());
    let mut command = sealed.command(program);
    // Where its own Pod would run.
    command.env("NAMESPACE", INVENTORY);
    command.arg("--clusterprofile-provider-file").arg(file);
    run(command.args(["--namespace", INVENTORY, "--name", "cluster1"]))
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

    let account = || json!(["--managed-serviceaccount", "dev"]);
    is(consume(&sealed, &program, "open-cluster-management", account()), &joined.subject());
    // The account made anew on the cluster revokes the token that is kept.
    joined.recreate_account().unwrap();
    let _ = consume(&sealed, &program, "open-cluster-management", account());
    is(consume(&sealed, &program, "open-cluster-management", account()), &joined.subject());

    let (token, subject) = account_token(&spoke, "secret");
    put_secret(&hub, INVENTORY, "cluster1", json!({}), "token", &token);
    publish(&hub, &spoke, "secretreader", json!({ "clusterName": "cluster1" }));
    is(consume(&sealed, &program, "secretreader", json!([])), &subject);

    let_in(&spoke, "carol");
    let put_certificate = |user: &str, ended| {
        let (certificate, key) = spoke.client_certificate(user, None, ended);
        let kubeconfig = spoke.kubeconfig_with_certificate(&certificate, &key);
        put_secret(&hub, INVENTORY, "access", json!({}), "config", &kubeconfig);
    };
    put_certificate("carol", None);
    publish(&hub, &spoke, "kubeconfig-secretreader", json!({ "name": "access", "key": "config" }));
    is(consume(&sealed, &program, "kubeconfig-secretreader", json!([])), "carol");
    put_certificate("carol", Some((2025, 3, 4)));
    let ran = consume(&sealed, &program, "kubeconfig-secretreader", json!([]));
    assert!(ran.code != 0 && ran.stderr.contains("expired on 2025-03-04"), "{ran:?}");
}
