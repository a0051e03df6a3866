//! Real kubectls, and other clients, with what `use` writes.

use std::process::Stdio;

use e2e::controlplane::go_program;
use e2e::sealed::{Sealed, run, run_with_input};
use fleet::machine::{kubectl, kubectls, skip};
use fleet::{CertShape, Fleet};

#[test]
fn kubectl_versions() {
    let fleet = Fleet::builder().spokes(1).start();
    for kubectl in kubectls() {
        let sealed = Sealed::at(&fleet);
        let version = run(sealed.command(&kubectl).args(["version", "--client", "-o", "json"])).ok();
        let minor =
            version.split("\"minor\": \"").nth(1).and_then(|text| text.split('"').next()).unwrap_or_default();
        let minor: u32 =
            minor.trim_end_matches('+').parse().unwrap_or_else(|_| panic!("no minor in {version}"));
        let api = if minor < 22 { "v1beta1" } else { "v1" };
        sealed.inventory(&["use", "cluster1", "--exec-api-version", api]).ok();
        let ask = |args: &[&str]| run(sealed.command(&kubectl).args(args));
        let namespaces = ask(&["get", "namespaces", "-o", "name"]).ok();
        assert!(namespaces.contains("namespace/kube-system"), "1.{minor}: {namespaces}");
        assert!(ask(&["get", "pods", "-A"]).ok().contains("coredns"), "1.{minor}");
        assert!(ask(&["get", "nodes"]).ok().contains("Ready"), "1.{minor}");
        let manifest =
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{"k":"LONG"}}"#
                .replace("LONG", &"x".repeat(150_000));
        let mut apply = sealed.command(&kubectl);
        apply.args(["apply", "--validate=false", "-f", "-"]);
        let said = run_with_input(&mut apply, manifest.as_bytes()).ok();
        assert!(said.contains("configmap/big"), "1.{minor}: {said}");
        let size = ask(&["get", "configmap", "big", "-o", "jsonpath={.data.k}"]).ok().len();
        assert_eq!(size, 150_000, "1.{minor}: stdin reached kubectl whole");
        ask(&["delete", "configmap", "big"]).ok();
    }
}

#[test]
fn the_first_kubectl_after_a_revocation_may_fail_the_second_does_not() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    sealed.inventory(&["use", "cluster1"]).ok();
    let Some(first) = sealed.kubectl(&["get", "ns"]) else { return };
    first.ok();
    let old = fleet.token("cluster1", "inventory");
    fleet.rotate("cluster1", "inventory");
    fleet.spoke("cluster1").revoke(&old);
    let _ = sealed.kubectl(&["get", "ns"]);
    sealed.kubectl(&["get", "ns"]).unwrap().ok();
    fleet.hub().clear_log();
    sealed.kubectl(&["get", "ns"]).unwrap().ok();
    sealed.kubectl(&["get", "pods"]).unwrap().ok();
    assert!(fleet.hub().log().is_empty(), "one command after another stays warm");
}

#[test]
fn a_client_of_client_go_works_in_every_certificate_shape() {
    let Some(client) = go_program("goclient").unwrap() else { return };
    for shape in [CertShape::LeafAndSigner, CertShape::LoneLeaf, CertShape::ProperCa] {
        let fleet = Fleet::builder().spokes(1).spoke_certificate(shape).start();
        let sealed = Sealed::at(&fleet);
        sealed.inventory(&["use", "cluster1"]).ok();
        let ran = run(&mut sealed.command(&client));
        assert_eq!(ran.code, 0, "{shape:?}: {ran:?}");
        assert!(ran.stdout.contains("kube-system"), "{shape:?}: {ran:?}");
    }
}

/// kube/kube-rs issue 1767: rustls takes no leaf as its own anchor, and stock kube has no way round.
#[test]
fn kube_works_with_a_signer_and_not_with_a_lone_leaf() {
    use k8s_openapi::api::core::v1::Namespace;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (shape, works) in
        [(CertShape::LeafAndSigner, true), (CertShape::ProperCa, true), (CertShape::LoneLeaf, false)]
    {
        let fleet = Fleet::builder().spokes(1).spoke_certificate(shape).start();
        let sealed = Sealed::at(&fleet);
        // kube runs the plugin in this process's surroundings, so they are written into the entry.
        let printed = sealed.inventory(&["use", "cluster1", "--no-cache", "-o", "-"]).ok();
        let names = runtime.block_on(async {
            let config = kube::config::Kubeconfig::from_yaml(&printed).unwrap();
            let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
            let client = kube::Client::try_from(config).unwrap();
            kube::Api::<Namespace>::all(client).list(&Default::default()).await
        });
        assert_eq!(names.is_ok(), works, "{shape:?}: {:?}", names.err().map(|e| e.to_string()));
        if let Ok(names) = names {
            assert!(names.items.iter().any(|n| n.metadata.name.as_deref() == Some("kube-system")));
        }
    }
}

#[test]
fn the_demo_runs_with_and_without_kubectl_and_leaves_nothing() {
    let demo = e2e::binaries::binaries().join("demo");
    let sealed = Sealed::empty();
    let temp = sealed.path("tmp");
    std::fs::create_dir(&temp).unwrap();
    let folder_of = |program: &std::path::Path| program.parent().unwrap().to_owned();
    let cargo = folder_of(std::path::Path::new(env!("CARGO")));
    let mut paths = vec![Vec::new()];
    match kubectl() {
        Some(kubectl) => paths.push(vec![folder_of(&kubectl)]),
        None => skip("the demo with kubectl: there is none"),
    }
    for kubectl in paths {
        let with = !kubectl.is_empty();
        // The compiler and all else of the system, without its kubectl.
        let tools = sealed.path(if with { "tools-with" } else { "tools" });
        std::fs::create_dir(&tools).unwrap();
        for program in std::fs::read_dir("/usr/bin").unwrap().flatten() {
            if program.file_name() != "kubectl" {
                std::os::unix::fs::symlink(program.path(), tools.join(program.file_name())).unwrap();
            }
        }
        let path = std::env::join_paths(kubectl.into_iter().chain([cargo.clone(), tools])).unwrap();
        let mut command = sealed.command(&demo);
        for kept in ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        let home = std::env::var_os("HOME").unwrap_or_default();
        let cargo_home = std::env::var_os("CARGO_HOME")
            .unwrap_or_else(|| std::path::Path::new(&home).join(".cargo").into());
        command.env("CARGO_HOME", cargo_home).env("CARGO", env!("CARGO"));
        let ran = run(command.env("PATH", path).env("TMPDIR", &temp).stdin(Stdio::null()));
        assert_eq!(ran.code, 0, "with kubectl: {with}: {ran:#?}");
        for word in ["cluster3", "cluster1@hub", "kube-system", "coredns", "cluster2-control-plane", "done"] {
            assert!(ran.stdout.contains(word), "{word}: {ran:#?}");
        }
        assert_eq!(ran.stdout.contains("there is no kubectl on PATH"), !with, "{ran:#?}");
        assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0, "nothing is left behind");
    }
}
