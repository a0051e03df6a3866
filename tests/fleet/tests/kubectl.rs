//! A real kubectl against a spoke and the hub, with plain tokens: what it shows is what users see.
//! Skipped, and said so, where PATH has no kubectl.

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use fleet::{Fleet, INVENTORY};
use support::Kubectl;

#[test]
fn kubectl_reads_a_spoke_as_it_reads_any_cluster() {
    let fleet = Fleet::builder().spokes(1).start();
    let Some(kubectl) = Kubectl::new(&fleet.spoke_kubeconfig("cluster1", "inventory")) else { return };
    let rows = |line: &str| -> Vec<String> {
        kubectl
            .run(line)
            .lines()
            .map(|l| l.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
            .collect()
    };
    assert_eq!(
        rows("get namespaces -o name"),
        ["namespace/cluster1", "namespace/default", "namespace/kube-system"]
    );
    assert_eq!(rows("get namespaces")[0], "NAME STATUS AGE");
    assert_eq!(rows("get pods -A -o wide").len(), 3);
    assert_eq!(rows("get nodes --no-headers"), ["cluster1-control-plane Ready control-plane"]);
    assert_eq!(rows("get deploy,cm -n default -o name"), ["deployment.apps/web", "configmap/cluster"]);
    assert_eq!(rows("get pods -A -l app!=web -o name"), ["pod/coredns-674b8bbfcf-qv7nl"]);
    assert!(
        kubectl
            .run("auth whoami")
            .contains("system:serviceaccount:open-cluster-management-agent-addon:inventory")
    );
    assert!(kubectl.run("version").contains("Server Version: v1.34.2"));
    assert!(kubectl.run("describe namespace default").contains("Active"));
}

#[test]
fn kubectl_applies_watches_and_deletes() {
    let fleet = Fleet::builder().spokes(1).start();
    let Some(kubectl) = Kubectl::new(&fleet.spoke_kubeconfig("cluster1", "inventory")) else { return };
    let mut watch =
        kubectl.command("get configmaps -n default -w -o name").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().unwrap(), "configmap/cluster");
    let file = kubectl.home.path().join("new.yaml");
    let manifest = |value: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: new, namespace: default}}\ndata: {{a: {value}}}\n"
        )
    };
    std::fs::write(&file, manifest("one")).unwrap();
    assert_eq!(kubectl.run("apply -f new.yaml"), "configmap/new created\n");
    std::fs::write(&file, manifest("two")).unwrap();
    assert_eq!(kubectl.run("apply -f new.yaml"), "configmap/new configured\n");
    assert_eq!(kubectl.run("apply -f new.yaml"), "configmap/new unchanged\n");
    assert_eq!(
        kubectl.run("apply --server-side --force-conflicts -f new.yaml"),
        "configmap/new serverside-applied\n"
    );
    assert_eq!(kubectl.run("get -f new.yaml -o jsonpath={.data.a}"), "two");
    assert_eq!(lines.next().unwrap(), "configmap/new");
    assert!(kubectl.run("delete -f new.yaml").starts_with("configmap \"new\" deleted"));
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn kubectl_finds_the_inventory_at_the_hub() {
    let fleet = Fleet::builder().spokes(2).without("proxy.open-cluster-management.io").start();
    let Some(kubectl) = Kubectl::new(&fleet.kubeconfig()) else { return };
    let names = kubectl.run("get clusterprofiles -A --chunk-size=1 -o name");
    assert_eq!(names.lines().count(), 2);
    let secret =
        kubectl.run(&format!("get secret -n {INVENTORY} cluster1-inventory -o jsonpath={{.data.token}}"));
    assert!(!secret.is_empty());
    let kinds = kubectl.run("api-resources --api-group=multicluster.x-k8s.io -o name");
    assert!(kinds.contains("clusterprofiles.multicluster.x-k8s.io"));
    let output = kubectl.command("get managedproxyconfigurations").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("the server doesn't have a resource type"));
}

#[test]
fn kubectl_goes_through_cluster_gateway_with_the_hubs_own_credentials() {
    let fleet = Fleet::builder().spokes(2).with(fleet::cluster_gateway()).start();
    let Some(kubectl) = Kubectl::new(&fleet.kubeconfig()) else { return };
    let at = |cluster: &str| {
        format!("{}/apis/cluster.core.oam.dev/v1alpha1/clustergateways/{cluster}/proxy", fleet.hub().url())
    };
    for cluster in ["cluster1", "cluster2"] {
        let names = kubectl.run(&format!("get ns -o name --server {}", at(cluster)));
        assert!(names.contains(&format!("namespace/{cluster}")), "{names}");
    }
    let whoami = kubectl.run(&format!("auth whoami --server {}", at("cluster1")));
    assert!(whoami.contains("cluster-gateway"), "{whoami}");
    fleet.hub().forbid(|request| request.key.resource == "clustergateways");
    let output = kubectl.command(&format!("get ns --server {}", at("cluster1"))).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("orbidden"), "{output:?}");
}
