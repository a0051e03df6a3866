//! `use`: from a name to a context.

use e2e::sealed::{Sealed, entry, exec_info, run, token, yaml};
use fleet::{AccountSpec, CertShape, ClusterSpec, Fault, Fleet, profile_path};
use serde_json::{Value, json};

fn edit_provider(fleet: &Fleet, change: impl FnOnce(&mut Value)) {
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        change(&mut profile["status"]["accessProviders"][0]["cluster"]);
    });
}

#[test]
fn it_needs_no_flag_and_says_old_and_new() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    assert_eq!(sealed.inventory(&["use", "cluster1"]).ok(), "context hub → cluster1@hub\n");
    assert_eq!(sealed.config()["current-context"], "cluster1@hub");
    // The hub is still found from the context that came from it.
    assert_eq!(sealed.inventory(&["use", "cluster2"]).ok(), "context cluster1@hub → cluster2@hub\n");
    assert_eq!(sealed.inventory(&["get", "--no-headers"]).ok().lines().count(), 2);
    assert_eq!(sealed.inventory(&["use", "-"]).ok(), "context cluster2@hub → cluster1@hub\n");
    assert_eq!(sealed.inventory(&["use", "-"]).ok(), "context cluster1@hub → cluster2@hub\n");
    assert_eq!(sealed.inventory(&["use", "--hub"]).ok(), "context cluster2@hub → hub\n");
    assert_eq!(sealed.inventory(&["use", "cluster1", "--no-switch"]).ok(), "context cluster1@hub written\n");
    assert_eq!(sealed.config()["current-context"], "hub");
}

#[test]
fn the_entry_says_all_that_kubectl_must_know() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    edit_provider(&fleet, |cluster| {
        cluster["tls-server-name"] = json!("localhost");
        cluster["proxy-url"] = json!("socks5://127.0.0.1:1");
        cluster["disable-compression"] = json!(true);
    });
    sealed.inventory(&["use", "cluster1"]).ok();
    let exec = &sealed.entry("users", "cluster1@hub")["user"]["exec"];
    assert_eq!(exec["apiVersion"], "client.authentication.k8s.io/v1");
    assert_eq!(exec["interactiveMode"], "IfAvailable");
    assert_eq!(exec["provideClusterInfo"], true);
    let cluster = &sealed.entry("clusters", "cluster1@hub")["cluster"];
    assert_eq!(cluster["server"], fleet.server_url("cluster1"));
    assert_eq!(cluster["tls-server-name"], "localhost");
    assert_eq!(cluster["proxy-url"], "socks5://127.0.0.1:1");
    assert_eq!(cluster["disable-compression"], true);
    assert!(cluster["certificate-authority-data"].is_string());
    assert!(fleet.secrets().iter().skip(1).all(|s| !sealed.read(".kube/config").contains(s.as_str())));
}

#[test]
fn both_spellings_of_the_exec_version_and_no_other() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    for (flag, written) in [("v1", "v1"), ("v1beta1", "v1beta1")] {
        for flag in [flag.to_owned(), format!("client.authentication.k8s.io/{flag}")] {
            sealed.inventory(&["use", "cluster1", "--exec-api-version", &flag]).ok();
            let exec = &sealed.entry("users", "cluster1@hub")["user"]["exec"];
            assert_eq!(exec["apiVersion"], format!("client.authentication.k8s.io/{written}"));
            let ran = run(&mut sealed.plugin_with("cluster1@hub", &exec_info(written, None)));
            assert_eq!(token(&ran.ok()), fleet.token("cluster1", "inventory"));
        }
    }
    let before = sealed.read(".kube/config");
    fleet.hub().clear_log();
    for bad in ["v1alpha1", "v2", "", "apps/v1"] {
        sealed.inventory(&["use", "cluster1", "--exec-api-version", bad]).fails(2);
    }
    assert_eq!(sealed.read(".kube/config"), before);
    assert!(fleet.hub().log().is_empty());
}

#[test]
fn a_name_in_two_namespaces_is_asked_back() {
    let mut both = ClusterSpec::named("both");
    both.namespaces = vec!["team-a".into(), "team-b".into()];
    let fleet = Fleet::builder().cluster(both).start();
    let sealed = Sealed::at(&fleet);
    let said = sealed.inventory(&["use", "both"]).fails(2);
    assert!(said.contains("team-a/both") && said.contains("team-b/both"), "{said}");
    sealed.inventory(&["use", "team-a/both"]).ok();
    sealed.inventory(&["use", "both", "-n", "team-b", "--context", "hub"]).ok();
    let config = sealed.config();
    let names = |list: &str| -> Vec<String> {
        let items = config[list].as_array().unwrap();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).filter(|n| n != "hub").collect()
    };
    for list in ["contexts", "clusters", "users"] {
        let mut all = names(list);
        all.dedup();
        assert!(all.len() >= 2 && all[0] != all[1], "{list}: {all:?}");
    }
}

#[test]
fn the_only_account_is_taken_and_several_are_offered() {
    let fleet = Fleet::builder()
        .spokes(2)
        .account("cluster1", "admin", AccountSpec::default())
        .without_account("cluster2", "inventory")
        .start();
    let sealed = Sealed::at(&fleet);
    let said = sealed.inventory(&["use", "cluster1"]).fails(2);
    assert!(
        said.contains("admin") && said.contains("inventory") && said.contains("--managed-serviceaccount")
    );
    for flag in ["--managed-serviceaccount", "--service-account", "--sa"] {
        sealed.inventory(&["use", "cluster1", flag, "admin", "--context-name", "c"]).ok();
        assert_eq!(sealed.token("c"), fleet.token("cluster1", "admin"));
    }
    let said = sealed.inventory(&["use", "cluster1", "--sa", "nobody", "--context", "hub"]).fails(3);
    assert!(said.contains("nobody") && said.contains("admin"), "{said}");
    let said = sealed.inventory(&["use", "cluster2", "--context", "hub"]).fails(3);
    assert!(said.contains("ManagedServiceAccount"), "{said}");
}

/// The rights that docs/hub-setup.md gives: no list of Secrets, and each Secret by its name.
#[test]
fn the_rights_that_the_documents_ask_for_are_enough() {
    let fleet = Fleet::builder().spokes(1).start();
    let secret = |r: &fleet::Request| r.key.resource == "secrets";
    let copy =
        |r: &fleet::Request| r.key.namespace == "cluster-inventory" && r.key.name == "cluster1-inventory";
    fleet.hub().forbid(move |r| secret(r) && !(r.verb == "get" && copy(r)));
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), fleet.token("cluster1", "inventory"));

    // Accounts that may not be listed can be named, or seen by their copies.
    fleet.hub().forbid(|r| r.key.resource == "managedserviceaccounts");
    let said = sealed.inventory(&["use", "cluster1"]).fails(4);
    assert!(said.contains("managedserviceaccounts"), "{said}");
    sealed.inventory(&["use", "cluster1", "--sa", "inventory"]).ok();
    fleet.hub().allow_all();
    fleet.hub().forbid(|r| r.key.resource == "managedserviceaccounts");
    sealed.inventory(&["use", "cluster1"]).ok();
}

#[test]
fn a_context_of_another_cluster_is_replaced_only_by_force() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1", "--context-name", "prod"]).ok();
    let said = sealed.inventory(&["use", "cluster2", "--context-name", "prod"]).fails(2);
    assert!(said.contains("cluster1") && said.contains("--force"), "{said}");
    sealed.inventory(&["use", "cluster2", "--context-name", "prod", "--force"]).ok();
    assert_eq!(sealed.token("prod"), fleet.token("cluster2", "inventory"));
}

#[test]
fn going_back_works_across_files_and_never_to_nowhere() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::empty();
    let first = sealed.write("first", "apiVersion: v1\nkind: Config\n");
    let second = sealed.write("second", &fleet.kubeconfig().to_string());
    let list = format!("{}:{}", first.display(), second.display());
    let ask = |args: &[&str]| run(sealed.inventory_command(args).env("KUBECONFIG", &list));
    assert_eq!(ask(&["use", "cluster1"]).ok(), "context hub → cluster1@hub\n");
    assert_eq!(ask(&["use", "-"]).ok(), "context cluster1@hub → hub\n");
    assert_eq!(ask(&["use", "-"]).ok(), "context hub → cluster1@hub\n");
    sealed.write("second", &fleet.kubeconfig().to_string().replace(r#""name":"hub""#, r#""name":"renamed""#));
    let said = ask(&["use", "-"]).fails(3);
    assert!(said.contains("hub"), "{said}");
}

#[test]
fn impersonation_goes_on_from_one_cluster_to_the_next() {
    let fleet = Fleet::builder().spokes(2).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1", "--as", "alice"]).ok();
    sealed.inventory(&["use", "cluster2"]).ok();
    fleet.hub().clear_log();
    sealed.token("cluster2@hub");
    assert!(fleet.hub().log().iter().all(|logged| logged.user == "alice"), "{:?}", fleet.hub().log());
}

#[test]
fn what_cannot_be_written_is_a_failure_and_absurd_times_are_none() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for args in [&["use", "cluster1", "-o", "-"][..], &["get"], &["get", "-o", "json"]] {
        let ended = sealed.inventory_command(args).stdout(full()).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{args:?}");
    }
    sealed.inventory(&["get", "--request-timeout", &u64::MAX.to_string()]).ok();
    sealed.inventory(&["use", "cluster1"]).ok();
    let line = sealed.plugin_line("cluster1@hub");
    let mut plugin = sealed.command(&line[0]);
    run(plugin.args(&line[1..]).arg(format!("--timeout={}", u64::MAX))).ok();
}

#[test]
fn a_relative_command_is_written_as_an_absolute_one() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    std::os::unix::fs::symlink(e2e::binaries::binaries(), sealed.path("bin")).unwrap();
    let mut command =
        sealed.inventory_command(&["use", "cluster1", "--exec-command", "./bin/credential-exec"]);
    run(command.current_dir(sealed.home())).ok();
    assert!(std::path::Path::new(&sealed.plugin_line("cluster1@hub")[0]).is_absolute());
    assert_eq!(sealed.token("cluster1@hub"), fleet.token("cluster1", "inventory"));

    // So are the hub's files, where $KUBECONFIG is relative.
    let mut command = sealed.inventory_command(&["use", "cluster1"]);
    run(command.current_dir(sealed.home()).env("KUBECONFIG", ".kube/config")).ok();
    let mut line = sealed.plugin_line("cluster1@hub");
    let ran = run(sealed.command(line.remove(0)).args(line).arg("--no-cache").current_dir("/"));
    assert_eq!(token(&ran.ok()), fleet.token("cluster1", "inventory"));
}

#[test]
fn it_writes_elsewhere_when_told_to() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let before = sealed.read(".kube/config");
    let printed = yaml(&sealed.inventory(&["use", "cluster1", "-o", "-"]).ok());
    assert_eq!(printed["current-context"], "cluster1@hub");
    let file = sealed.path("elsewhere/config");
    sealed.inventory(&["use", "cluster1", "-o", file.to_str().unwrap()]).ok();
    let written = yaml(&sealed.read("elsewhere/config"));
    assert_eq!(written["current-context"], "cluster1@hub");
    assert_eq!(entry(&written, "users", "cluster1@hub"), entry(&printed, "users", "cluster1@hub"));
    assert_eq!(sealed.read(".kube/config"), before, "the kubeconfig itself is left alone");
    let again = sealed.inventory(&["use", "cluster1", "-o", "-"]).ok();
    assert_eq!(yaml(&again), printed);
}

#[test]
fn what_a_profile_may_not_ask_for_is_refused_with_the_reason() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let before = sealed.read(".kube/config");
    let server = fleet.server_url("cluster1");
    for (field, value, why) in [
        ("server", json!(server.replace("https", "http")), "http"),
        ("server", json!("127.0.0.1:6443"), "https"),
        ("certificate-authority", json!("/etc/passwd"), "CA file"),
        ("insecure-skip-tls-verify", json!(true), "certificate"),
        ("certificate-authority-data", json!("bm90IHBlbQ=="), "certificate"),
    ] {
        let old = fleet.hub().get(&*profile_path("cluster-inventory", "cluster1")).unwrap();
        edit_provider(&fleet, |cluster| cluster[field] = value.clone());
        let said = sealed.inventory(&["use", "cluster1"]).fails(4);
        assert!(said.contains(why) && said.contains("try: "), "{field}: {said}");
        fleet.hub().put(&*profile_path("cluster-inventory", "cluster1"), old);
    }
    assert_eq!(sealed.read(".kube/config"), before);
    edit_provider(&fleet, |cluster| cluster["insecure-skip-tls-verify"] = json!(true));
    sealed.inventory(&["use", "cluster1", "--allow-insecure"]).ok();
    let cluster = &sealed.entry("clusters", "cluster1@hub")["cluster"];
    assert_eq!(
        (&cluster["insecure-skip-tls-verify"], &cluster["certificate-authority-data"]),
        (&json!(true), &Value::Null)
    );
}

#[test]
fn no_ca_means_the_systems_roots() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    edit_provider(&fleet, |cluster| {
        cluster.as_object_mut().unwrap().remove("certificate-authority-data");
    });
    sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(
        sealed.entry("clusters", "cluster1@hub")["cluster"]["certificate-authority-data"],
        Value::Null
    );
}

#[test]
fn a_changed_server_or_ca_is_shown() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    let other = fleet::Identity::new(CertShape::ProperCa);
    edit_provider(&fleet, |cluster| {
        cluster["server"] = json!("https://127.0.0.1:1/cluster1");
        cluster["certificate-authority-data"] = published(&other);
    });
    let said = sealed.inventory(&["use", "cluster1"]).ok();
    assert!(said.contains(&fleet.server_url("cluster1")) && said.contains("https://127.0.0.1:1/cluster1"));
    assert!(said.lines().any(|line| line.starts_with("CA ") && line.len() < 80), "{said}");
}

#[test]
fn get_tells_of_a_context_that_trusts_a_certificate_of_yesterday() {
    use CertShape::{LeafAndSigner, LoneLeaf, ProperCa, SelfSignedCaTrue, SelfSignedLeaf};
    // In each shape: whether a renewed leaf is covered by the CA of before.
    for (shape, covered) in [
        (LeafAndSigner, true),
        (ProperCa, true),
        (LoneLeaf, false),
        (SelfSignedCaTrue, false),
        (SelfSignedLeaf, false),
    ] {
        let fleet = Fleet::builder().spokes(2).start();
        let sealed = Sealed::at(&fleet);
        let publish = |identity: &fleet::Identity| {
            edit_provider(&fleet, |cluster| cluster["certificate-authority-data"] = published(identity));
        };
        let note = |args: &[&str]| sealed.inventory(args).stderr;
        let first = fleet::Identity::new(shape);
        publish(&first);
        sealed.inventory(&["use", "cluster1"]).ok();
        assert_eq!(note(&["get"]), "", "{shape:?}");

        publish(&first.renewed());
        assert_eq!(note(&["get"]).contains("certificate changed"), !covered, "{shape:?}");

        publish(&fleet::Identity::new(shape));
        for args in [&["get"][..], &["get", "cluster1"], &["get", "-A", "-o", "wide"]] {
            let said = note(args);
            assert!(
                said.contains("certificate changed") && said.contains("cluster1@hub"),
                "{shape:?}: {said}"
            );
            assert!(said.contains("kubectl inventory use"), "{said}");
        }
        for args in [&["get", "cluster2"][..], &["get", "-o", "json"], &["get", "-o", "name"]] {
            assert_eq!(note(args), "", "{shape:?}");
        }
        sealed.inventory(&["use", "cluster1"]).ok();
        assert_eq!(note(&["get"]), "", "{shape:?}: it was used again");
    }
}

#[test]
fn each_missing_part_of_ocm_has_its_own_message() {
    // Without managed-serviceaccount.
    let fleet = Fleet::builder()
        .spokes(1)
        .edit("cluster1", |c| c.accounts.clear())
        .without("authentication.open-cluster-management.io")
        .start();
    let no_accounts = Sealed::at(&fleet).inventory(&["use", "cluster1"]).fails(3);
    assert!(no_accounts.contains("managed-serviceaccount"), "{no_accounts}");

    // Without an access provider: cluster-proxy is not there.
    let fleet = Fleet::builder().spokes(1).start();
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        profile["status"].as_object_mut().unwrap().remove("accessProviders");
    });
    let no_proxy = Sealed::at(&fleet).inventory(&["use", "cluster1"]).fails(3);
    assert!(no_proxy.contains("cluster-proxy"), "{no_proxy}");

    // Without ClusterProfile at all.
    let fleet = Fleet::builder()
        .without("multicluster.x-k8s.io")
        .without("cluster.open-cluster-management.io")
        .start();
    let no_kind = Sealed::at(&fleet).inventory(&["use", "cluster1"]).fails(3);

    // Nothing may be read.
    let fleet = Fleet::builder().spokes(1).start();
    fleet.hub().forbid(|_| true);
    let forbidden = Sealed::at(&fleet).inventory(&["use", "cluster1"]).fails(4);

    // The address of a user-server that was never installed.
    let fleet = Fleet::builder().spokes(1).start();
    let server = "https://cluster-proxy-addon-user.open-cluster-management-addon:9092/cluster1";
    edit_provider(&fleet, |cluster| cluster["server"] = json!(server));
    fleet.hub().delete("/api/v1/namespaces/open-cluster-management-addon/services/cluster-proxy-addon-user");
    let ran = Sealed::at(&fleet).inventory(&["use", "cluster1"]);
    let no_service = ran.stderr.clone();
    assert!(no_service.contains("enableServiceProxy"), "{ran:?}");

    let mut all = [no_accounts, no_proxy, no_kind, forbidden, no_service];
    all.sort();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:#?}");
}

#[test]
fn all_network_comes_before_the_file() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    let before = sealed.read(".kube/config");
    for fault in [Fault::Unauthorized, Fault::Close, Fault::NotJson, Fault::Status(500, String::new())] {
        fleet.hub().clear_faults();
        fleet.hub().fault(|request| request.path.contains("secrets"), fault.clone());
        let ran = sealed.inventory(&["use", "cluster1"]);
        assert_ne!(ran.code, 0, "{fault:?}");
        assert_eq!(sealed.read(".kube/config"), before, "{fault:?}");
        assert!(!sealed.path(".kube/config.lock").exists());
    }
}

#[test]
fn the_versions_of_both_binaries_are_shown() {
    let said = Sealed::empty().inventory(&["version"]).ok();
    assert_eq!(said.matches(env!("CARGO_PKG_VERSION")).count(), 2, "{said}");
}

#[test]
fn help_goes_to_stdout_and_a_wrong_flag_is_a_usage_error() {
    let sealed = Sealed::empty();
    for args in [&["--help"][..], &["get", "--help"], &["use", "--help"]] {
        assert!(sealed.inventory(args).ok().contains("kubectl inventory"));
    }
    for args in [&["get", "--nope"][..], &["nope"], &["use"], &["get", "-o", "nope"]] {
        sealed.inventory(args).fails(2);
    }
}

/// `certificate-authority-data` for this certificate.
fn published(identity: &fleet::Identity) -> Value {
    use base64::Engine as _;
    json!(base64::engine::general_purpose::STANDARD.encode(identity.ca_pem()))
}
