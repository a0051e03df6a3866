//! `describe`: what is known about a cluster, and which ways into it can be used here.

use e2e::sealed::Sealed;
use fleet::{ClusterSpec, Fault, Fleet, Resource, cluster_gateway, profile_path};
use serde_json::json;

/// The line below `provider` that begins with `field`.
fn of_provider<'a>(text: &'a str, provider: &str, field: &str) -> &'a str {
    let (_, rest) =
        text.split_once(&format!("  {provider}:\n")).unwrap_or_else(|| panic!("{provider}: {text}"));
    rest.lines()
        .find_map(|line| line.trim().strip_prefix(field))
        .unwrap_or_else(|| panic!("{field}: {rest}"))
        .trim()
}

/// The value of a field at the outermost level.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("{name}: {text}")).trim()
}

fn publish(fleet: &Fleet, name: &str) {
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        let mut provider = profile["status"]["accessProviders"][0].clone();
        provider["name"] = json!(name);
        profile["status"]["accessProviders"].as_array_mut().unwrap().push(provider);
    });
}

#[test]
fn each_access_provider_is_judged_as_use_would_and_nothing_is_written() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    publish(&fleet, "google");
    publish(&fleet, "eks");
    let file = json!({"providers": [{"name": "eks", "execConfig": {"command": "aws"}}]});
    let file = sealed.write("providers.json", &file.to_string()).display().to_string();
    let before = sealed.read(".kube/config");
    let text = sealed.inventory(&["describe", "cluster1", "--clusterprofile-provider-file", &file]).ok();
    for (name, value) in [
        ("Name", "cluster1"),
        ("Namespace", "cluster-inventory"),
        ("Kubernetes", "v1.34.2"),
        ("Contexts", "<none>"),
    ] {
        assert_eq!(field(&text, name), value);
    }
    assert!(
        text.contains("ManagedClusterJoined") && text.contains("region.open-cluster-management.io:"),
        "{text}"
    );
    assert_eq!(of_provider(&text, "open-cluster-management", "Server:"), fleet.server_url("cluster1"));
    assert_eq!(
        of_provider(&text, "open-cluster-management", "Usable:"),
        "yes, as managed service account inventory"
    );
    assert_eq!(of_provider(&text, "eks", "Usable:"), "yes, by aws of the provider file");
    assert!(of_provider(&text, "google", "Usable:").starts_with("no: nothing on this machine"), "{text}");
    assert!(of_provider(&text, "google", "Remedy:").contains("provider file"), "{text}");
    assert_eq!(sealed.read(".kube/config"), before);
    assert!(!sealed.path("data/trusted.json").exists() && !sealed.cache().exists());

    sealed.inventory(&["use", "cluster1"]).ok();
    let text = sealed.inventory(&["describe", "cluster1"]).ok();
    assert_eq!(field(&text, "Contexts"), "cluster1@hub");
}

#[test]
fn why_a_way_cannot_be_used_is_what_use_would_say() {
    let fleet = Fleet::builder().spokes(1).edit("cluster1", |c| c.accounts.clear()).start();
    let sealed = Sealed::at(&fleet);
    let refused = sealed.inventory(&["use", "cluster1"]).fails(3);
    let text = sealed.inventory(&["describe", "cluster1"]).ok();
    let why = of_provider(&text, "open-cluster-management", "Usable:").trim_start_matches("no: ");
    assert!(!why.is_empty() && refused.contains(why), "{why}: {refused}");
    let remedy = of_provider(&text, "open-cluster-management", "Remedy:");
    assert!(!remedy.is_empty() && refused.contains(remedy), "{remedy}: {refused}");
}

#[test]
fn a_tunnel_is_named_and_not_started() {
    let fleet = Fleet::builder().spokes(1).tunnelled().start();
    let sealed = Sealed::at(&fleet);
    let text = sealed.inventory(&["describe", "cluster1"]).ok();
    let usable = of_provider(&text, "open-cluster-management", "Usable:");
    assert!(usable.contains("through a tunnel") && usable.contains("cluster-proxy-addon-user"), "{usable}");
    assert!(sealed.tunnels().is_empty());
}

#[test]
fn several_are_described_and_a_missing_one_is_an_error_at_the_end() {
    let mut other = ClusterSpec::named("cluster1");
    other.namespaces = vec!["team-a".into()];
    let fleet = Fleet::builder().spokes(2).cluster(other).start();
    let sealed = Sealed::at(&fleet);
    let ran = sealed.inventory(&["describe", "cluster1", "nowhere", "cluster2"]);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains("nowhere"), "{ran:?}");
    let names: Vec<_> = ran.stdout.lines().filter(|line| line.starts_with("Name")).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    let one = sealed.inventory(&["describe", "team-a/cluster1"]).ok();
    assert_eq!(field(&one, "Namespace"), "team-a");
    assert!(!one.contains("cluster-inventory"), "{one}");
}

#[test]
fn hostile_text_reaches_no_terminal_and_a_hub_that_refuses_is_explained() {
    let fleet = Fleet::builder().spokes(1).start();
    let sealed = Sealed::at(&fleet);
    fleet.hub().edit(&*profile_path("cluster-inventory", "cluster1"), |profile| {
        profile["status"]["properties"] =
            json!([{"name": "evil\u{1b}[31m", "value": "x\u{7}".repeat(1 << 19)}, {"name": "b", "value": "line\nName: forged"}]);
        profile["status"]["accessProviders"][0]["cluster"]["tls-server-name"] = json!("a\u{1b}]0;b\u{7}");
    });
    let text = sealed.inventory(&["describe", "cluster1"]).ok();
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{7}') && !text.contains("\nName: forged"),
        "{text}"
    );
    assert!(text.len() < 10_000, "{}", text.len());

    fleet.hub().fault(|request| request.path.contains("clusterprofiles"), Fault::Forbidden);
    let said = sealed.inventory(&["describe", "cluster1"]).fails(4);
    assert!(said.contains("try: "), "{said}");
}

#[test]
fn every_kind_of_inventory_is_described_without_a_flag() {
    let managed = Fleet::builder().spokes(2).without("multicluster.x-k8s.io").with(cluster_gateway()).start();
    let sealed = Sealed::at(&managed);
    let text = sealed.inventory(&["describe", "cluster1", "cluster2"]).ok();
    assert_eq!(field(&text, "Accepted"), "True");
    assert_eq!(field(&text, "Kubernetes"), "v1.34.2");
    assert!(text.contains("ManagedClusterConditionAvailable"), "{text}");
    assert_eq!(of_provider(&text, "cluster-gateway", "Usable:"), "yes, with the hub's own user viewer");
    assert!(of_provider(&text, "open-cluster-management", "Usable:").contains("publishes no address"));
    assert_eq!(text.lines().filter(|line| line.starts_with("Name:")).count(), 2);
    assert!(sealed.inventory(&["describe", "nowhere"]).fails(3).contains("no ManagedCluster nowhere"));

    let capi = Resource::new("cluster.x-k8s.io", "v1beta2", "clusters", "Cluster", true);
    let fleet = Fleet::builder().spokes(1).with(capi).start();
    fleet.hub().put(
        "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/clusters/cluster1",
        json!({"kind": "Cluster", "spec": {"infrastructureRef": {"kind": "DockerCluster"}},
            "status": {"phase": "Provisioning"}}),
    );
    let sealed = Sealed::at(&fleet);
    let text = sealed.inventory(&["describe", "cluster1", "--source", "capi"]).ok();
    for (name, value) in [("Namespace", "fleet"), ("Phase", "Provisioning"), ("Platform", "Docker")] {
        assert_eq!(field(&text, name), value);
    }
    assert!(
        of_provider(&text, "kubeconfig Secret", "Usable:").contains("its phase is Provisioning"),
        "{text}"
    );
}
