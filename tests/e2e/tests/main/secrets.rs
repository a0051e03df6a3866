//! Ways in whose credential lies in a Secret of the hub: a token, or a whole kubeconfig.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::sealed::{Sealed, run, token};
use fleet::{Fleet, profile_path};
use serde_json::{Value, json};

const PROFILE: (&str, &str) = ("cluster-inventory", "cluster1");

/// Lets the profile of `cluster1` publish this way in alone, at the cluster's own address.
fn publish(fleet: &Fleet, provider: &str, told: Value, change: impl FnOnce(&mut Value)) {
    fleet.hub().edit(&*profile_path(PROFILE.0, PROFILE.1), |profile| {
        let mut cluster = profile["status"]["accessProviders"][0]["cluster"].clone();
        cluster["extensions"] = json!([{"name": "client.authentication.k8s.io/exec", "extension": told}]);
        change(&mut cluster);
        profile["status"]["accessProviders"] = json!([{"name": provider, "cluster": cluster}]);
    });
}

/// Puts a Secret there, with what it belongs to.
fn put_secret(fleet: &Fleet, namespace: &str, name: &str, key: &str, value: &str, owners: Value) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"ownerReferences": owners},
        "data": {key: STANDARD.encode(value)},
    });
    fleet.hub().put(&*format!("/api/v1/namespaces/{namespace}/secrets/{name}"), secret);
}

fn owned_by_profile(fleet: &Fleet) -> Value {
    let profile = fleet.hub().get(&*profile_path(PROFILE.0, PROFILE.1)).unwrap();
    json!([{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "name": "cluster1",
        "uid": profile["metadata"]["uid"]}])
}

fn kubeconfig(fleet: &Fleet, user: &Value) -> Value {
    let profile = fleet.hub().get(&*profile_path(PROFILE.0, PROFILE.1)).unwrap();
    let published = &profile["status"]["accessProviders"][0]["cluster"];
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": published["server"], "certificate-authority-data": published["certificate-authority-data"]}}],
        "users": [{"name": "u", "user": user}, {"name": "other", "user": {"token": "other"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}},
            {"name": "second", "context": {"cluster": "c", "user": "other"}}],
    })
}

/// A hub where the kubeconfig of `cluster1` lies in Secret `fleet/access`, and its profile says so.
fn with_kubeconfig(fleet: &Fleet, user: &Value) -> Sealed {
    let told = json!({"name": "access", "key": "value", "namespace": "fleet"});
    publish(fleet, "kubeconfig-secretreader", told, |_| {});
    put_secret(fleet, "fleet", "access", "value", &kubeconfig(fleet, user).to_string(), json!([]));
    Sealed::at(fleet)
}

fn status(sealed: &Sealed) -> Value {
    let answer = run(&mut sealed.plugin("cluster1@hub")).ok();
    serde_json::from_str::<Value>(&answer).unwrap()["status"].clone()
}

fn keeps_secrets(fleet: &Fleet, text: &str) {
    for secret in fleet.secrets().iter().filter(|secret| secret.len() > 8) {
        assert!(!text.contains(secret.as_str()), "{text}");
    }
}

#[test]
fn a_token_secret_that_belongs_to_its_profile_is_used_without_a_question() {
    let fleet = Fleet::builder().spokes(1).start();
    publish(&fleet, "secretreader", json!({"clusterName": "cluster1"}), |_| {});
    let real = fleet.token("cluster1", "inventory");
    put_secret(&fleet, PROFILE.0, "cluster1", "token", &format!("{real}\n"), owned_by_profile(&fleet));
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), real);
    if let Some(kubectl) = sealed.kubectl(&["get", "ns", "-o", "name"]) {
        assert!(kubectl.ok().contains("namespace/cluster1"));
    }
    assert!(!sealed.read(".kube/config").contains(&real));
    let said = sealed.inventory(&["use", "cluster1", "--sa", "inventory"]).fails(2);
    assert!(said.contains("secretreader"), "{said}");

    // It no longer belongs to the profile: whoever put it there may mean another cluster.
    put_secret(&fleet, PROFILE.0, "cluster1", "token", &real, json!([]));
    sealed.inventory(&["cache", "clear"]).ok();
    let said = run(&mut sealed.plugin("cluster1@hub")).fails(4);
    assert!(said.contains("does not belong"), "{said}");
    keeps_secrets(&fleet, &said);
}

#[test]
fn a_token_secret_that_belongs_to_nothing_goes_only_to_a_server_that_the_person_trusts() {
    let fleet = Fleet::builder().spokes(1).start();
    publish(&fleet, "secretreader", json!({"clusterName": "real"}), |_| {});
    let real = fleet.token("cluster1", "inventory");
    put_secret(&fleet, PROFILE.0, "real", "token", &real, json!([]));
    let sealed = Sealed::at(&fleet);
    let said = sealed.inventory(&["use", "cluster1"]).fails(4);
    assert!(said.contains("real's token would be sent to") && said.contains("--trust-server"), "{said}");
    sealed.inventory(&["use", "cluster1", "--trust-server"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), real);

    for (told, named) in [
        (json!({}), "clusterName"),
        (json!({"clusterName": "../x"}), "no name"),
        (json!({"clusterName": "gone"}), "gone"),
    ] {
        publish(&fleet, "secretreader", told, |_| {});
        let ran = sealed.inventory(&["use", "cluster1", "--trust-server"]);
        assert!(
            ran.code != 0 && ran.stderr.contains(named) && ran.stderr.contains("try: "),
            "{named}: {ran:?}"
        );
    }
}

#[test]
fn a_kubeconfig_in_a_secret_gives_its_token_and_is_read_again_when_it_was_refused() {
    let fleet = Fleet::builder().spokes(1).start();
    let real = fleet.token("cluster1", "inventory");
    let sealed = with_kubeconfig(&fleet, &json!({"token": real}));
    sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), real);
    if let Some(kubectl) = sealed.kubectl(&["get", "ns", "-o", "name"]) {
        assert!(kubectl.ok().contains("namespace/cluster1"));
    }
    assert!(!sealed.read(".kube/config").contains(&real));

    fleet.rotate("cluster1", "inventory");
    fleet.spoke("cluster1").revoke(&real);
    let new = fleet.token("cluster1", "inventory");
    put_secret(
        &fleet,
        "fleet",
        "access",
        "value",
        &kubeconfig(&fleet, &json!({"token": new})).to_string(),
        json!([]),
    );
    // kubectl's second question, after a 401, comes from the same process.
    let mut twice = Command::new("/bin/sh");
    twice
        .env_clear()
        .envs(sealed.plugin("cluster1@hub").get_envs().filter_map(|(name, value)| Some((name, value?))));
    twice
        .args(["-c", r#""$@" >/dev/null; "$@"; exit $?"#, "kubectl"])
        .args(sealed.plugin_line("cluster1@hub"));
    assert_eq!(token(&run(&mut twice).ok()), new);
    assert_eq!(sealed.token("cluster1@hub"), new);

    // Another context of the same kubeconfig.
    let told = json!({"name": "access", "key": "value", "namespace": "fleet", "context": "second"});
    publish(&fleet, "kubeconfig-secretreader", told, |_| {});
    sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), "other");
}

#[test]
fn a_client_certificate_comes_with_its_key_and_ends_with_its_leaf() {
    let fleet = Fleet::builder().spokes(1).start();
    // The hub is the cluster here: it is the one that takes client certificates.
    let certificate = fleet.client_certificate("admin");
    publish(&fleet, "kubeconfig-secretreader", json!({"name": "access", "key": "value"}), |cluster| {
        cluster["server"] = json!(fleet.hub().url());
        cluster["certificate-authority-data"] = json!(STANDARD.encode(fleet.hub().ca_pem()));
    });
    let user = json!({"client-certificate-data": STANDARD.encode(&certificate.cert_pem),
        "client-key-data": STANDARD.encode(&certificate.key_pem)});
    put_secret(&fleet, PROFILE.0, "access", "value", &kubeconfig(&fleet, &user).to_string(), json!([]));
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    for _ in 0..2 {
        let status = status(&sealed);
        assert_eq!(status["clientCertificateData"], certificate.cert_pem);
        assert_eq!(status["clientKeyData"], certificate.key_pem);
        assert_eq!(status["token"], Value::Null);
        assert!(status["expirationTimestamp"].as_str().unwrap().ends_with('Z'), "{status}");
    }
    if let Some(kubectl) = sealed.kubectl(&["auth", "whoami"]) {
        assert!(kubectl.ok().contains("admin"));
    }
    let key = certificate.key_pem.lines().nth(1).unwrap();
    for (path, text) in files_under(sealed.home()) {
        assert!(
            !text.contains(key) && !text.contains(&STANDARD.encode(&certificate.key_pem)),
            "{}",
            path.display()
        );
    }
    // A renewed one is used by the next kubectl.
    let renewed = fleet.client_certificate("admin");
    let user = json!({"client-certificate-data": STANDARD.encode(&renewed.cert_pem),
        "client-key-data": STANDARD.encode(&renewed.key_pem)});
    put_secret(&fleet, PROFILE.0, "access", "value", &kubeconfig(&fleet, &user).to_string(), json!([]));
    assert_eq!(status(&sealed)["clientCertificateData"], renewed.cert_pem);
}

/// Every file below a folder, with its text.
fn files_under(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| match path.is_dir() {
        true => files_under(&path),
        false => vec![(path.clone(), String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned())],
    });
    files.collect()
}

#[test]
fn an_expired_certificate_says_when_it_ended() {
    let fleet = Fleet::builder().spokes(1).start();
    let mut params = rcgen::CertificateParams::new(vec!["me".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2021, 2, 3);
    let key = rcgen::KeyPair::generate().unwrap();
    let chain = params.self_signed(&key).unwrap().pem();
    let user = json!({"client-certificate-data": STANDARD.encode(chain),
        "client-key-data": STANDARD.encode(key.serialize_pem())});
    let sealed = with_kubeconfig(&fleet, &user);
    let said = sealed.inventory(&["use", "cluster1"]).fails(1);
    assert!(said.contains("expired on 2021-02-03") && said.contains("fleet/access"), "{said}");
}

#[test]
fn a_kubeconfig_that_leads_elsewhere_than_its_context_gives_no_credential() {
    let fleet = Fleet::builder().spokes(2).start();
    let real = fleet.token("cluster1", "inventory");
    let sealed = with_kubeconfig(&fleet, &json!({"token": real}));
    sealed.inventory(&["use", "cluster1"]).ok();
    let old = kubeconfig(&fleet, &json!({"token": real}));
    let other_ca = STANDARD.encode(fleet.spoke("cluster2").ca_pem());
    for (field, value) in
        [("server", json!("https://evil.example:6443")), ("certificate-authority-data", json!(other_ca))]
    {
        let mut changed = old.clone();
        changed["clusters"][0]["cluster"][field] = value;
        put_secret(&fleet, "fleet", "access", "value", &changed.to_string(), json!([]));
        sealed.inventory(&["cache", "clear"]).ok();
        let said = run(&mut sealed.plugin("cluster1@hub")).fails(4);
        assert!(said.contains("now leads to") && said.contains("kubectl inventory use cluster1"), "{said}");
        keeps_secrets(&fleet, &said);
        // Nor does a new `use` join it to what the profile publishes.
        let said = sealed.inventory(&["use", "cluster1"]).fails(4);
        assert!(said.contains("publishes"), "{said}");
    }
    put_secret(&fleet, "fleet", "access", "value", &old.to_string(), json!([]));
    // A forged profile elsewhere names the same Secret and another server.
    let mut forged = fleet.hub().get(&*profile_path(PROFILE.0, PROFILE.1)).unwrap();
    forged["metadata"]["namespace"] = json!("tenant");
    forged["status"]["accessProviders"][0]["cluster"]["server"] = json!(fleet.server_url("cluster2"));
    fleet.hub().put(&*profile_path("tenant", "cluster1"), forged);
    let before = sealed.read(".kube/config");
    for args in [&["use", "tenant/cluster1"][..], &["use", "tenant/cluster1", "--trust-server", "--force"]] {
        let said = sealed.inventory(args).fails(4);
        keeps_secrets(&fleet, &said);
    }
    assert_eq!(sealed.read(".kube/config"), before);
}

#[test]
fn a_login_that_cannot_be_handed_on_is_refused_with_a_pointer() {
    let fleet = Fleet::builder().spokes(1).start();
    for (user, named) in [
        (json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}}), "exec"),
        (json!({"auth-provider": {"name": "gcp"}}), "auth-provider"),
        (json!({"username": "a", "password": "b"}), "password"),
        (json!({"tokenFile": "/etc/passwd"}), "file paths"),
        (json!({"client-certificate": "/x", "client-key": "/y"}), "file paths"),
    ] {
        let sealed = with_kubeconfig(&fleet, &user);
        let said = sealed.inventory(&["use", "cluster1"]).fails(4);
        assert!(said.contains(named) && said.contains("provider file"), "{named}: {said}");
    }
    for (text, named) in [
        ("not: [a kubeconfig", "no kubeconfig"),
        ("{}", "current-context"),
        (r#"{"users": [{"name": "u", "user": {"token": "s3cr3t-s3cr3t"#, "no kubeconfig"),
    ] {
        let sealed = with_kubeconfig(&fleet, &json!({}));
        put_secret(&fleet, "fleet", "access", "value", text, json!([]));
        let ran = sealed.inventory(&["use", "cluster1"]);
        assert!(ran.code != 0 && !ran.stderr.contains("s3cr3t"), "{ran:?}");
        assert!(ran.stderr.contains("fleet/access") && ran.stderr.contains("try: "), "{named}: {ran:?}");
    }
    for user in [json!({}), json!({"client-certificate-data": "eA=="}), json!({"token": "a b"})] {
        let sealed = with_kubeconfig(&fleet, &user);
        let said = sealed.inventory(&["use", "cluster1"]).fails(1);
        assert!(said.contains("fleet/access"), "{user}: {said}");
    }
}

/// What the plugins of the Cluster Inventory API are told, and no flag.
fn stand_in(sealed: &Sealed, config: Value, server: &Value) -> Command {
    let mut command = sealed.command("credential-exec");
    let info = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "spec": {"interactive": false, "cluster": {"server": server["server"],
            "certificate-authority-data": server["certificate-authority-data"], "config": config}}});
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    command
}

#[test]
fn without_flags_it_does_the_work_of_the_other_plugins() {
    let fleet = Fleet::builder().spokes(1).start();
    let real = fleet.token("cluster1", "inventory");
    let user = json!({"token": real});
    let sealed = with_kubeconfig(&fleet, &user);
    let server = kubeconfig(&fleet, &user)["clusters"][0]["cluster"].clone();
    put_secret(&fleet, "readers", "cluster1", "token", "of-the-token-secret", json!([]));
    put_secret(&fleet, "readers", "access", "value", &kubeconfig(&fleet, &user).to_string(), json!([]));

    let mut secretreader = stand_in(&sealed, json!({"clusterName": "cluster1"}), &server);
    assert_eq!(token(&run(secretreader.env("NAMESPACE", "readers")).ok()), "of-the-token-secret");
    let mut by_flag = stand_in(&sealed, json!({"clusterName": "cluster1"}), &server);
    assert_eq!(token(&run(by_flag.args(["--namespace", "readers"])).ok()), "of-the-token-secret");

    let told = json!({"name": "access", "key": "value", "namespace": "fleet"});
    assert_eq!(token(&run(&mut stand_in(&sealed, told, &server)).ok()), real);
    let told = json!({"name": "access", "key": "value", "context": "second"});
    let mut second = stand_in(&sealed, told.clone(), &server);
    assert_eq!(token(&run(second.env("NAMESPACE", "readers")).ok()), "other");
    // Another server than that of the kubeconfig is not to get its credential.
    let mut elsewhere = server.clone();
    elsewhere["server"] = json!("https://evil.example");
    let said = run(stand_in(&sealed, told, &elsewhere).env("NAMESPACE", "readers")).fails(4);
    assert!(said.contains("now leads to"), "{said}");

    // OCM's plugin where nobody passes the cluster on.
    let mut argocd = sealed.command("credential-exec");
    argocd.args([
        "--managed-serviceaccount=inventory",
        "--cluster=cluster1",
        "--namespace=cluster-inventory",
    ]);
    assert_eq!(token(&run(&mut argocd).ok()), real);

    for config in [json!({}), json!(null), json!({"name": "x"}), json!({"key": "x"})] {
        let said = run(&mut stand_in(&sealed, config, &server)).fails(2);
        assert!(said.contains("clusterName") && said.contains("--managed-serviceaccount"), "{said}");
    }
}
