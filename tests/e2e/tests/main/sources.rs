//! Every inventory that a hub may hold: ClusterProfiles, OCM's ManagedClusters, Cluster API's Clusters; and
//! which of the clusters are meant.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::sealed::{Sealed, run, yaml};
use fleet::{Builder, Fleet, Resource, cluster_gateway};
use serde_json::{Value, json};

const PROFILES: &str = "multicluster.x-k8s.io";
const MANAGED: &str = "cluster.open-cluster-management.io";

fn capi(version: &str) -> Resource {
    Resource::new("cluster.x-k8s.io", version, "clusters", "Cluster", true)
}

/// A hub with nothing but Cluster API, one spoke, and its Cluster `fleet/cluster1`.
fn capi_hub(version: &str) -> Fleet {
    let fleet = Fleet::builder().spokes(1).without(PROFILES).without(MANAGED).with(capi(version)).start();
    let condition = if version == "v1beta1" { "Ready" } else { "Available" };
    let cluster = json!({
        "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster",
        "metadata": {"labels": {"env": "prod"}},
        "spec": {"topology": {"version": "v1.33.2"}, "infrastructureRef": {"kind": "DockerCluster"},
            "controlPlaneRef": {"kind": "KubeadmControlPlane"}},
        "status": {"phase": "Provisioned", "conditions": [{"type": condition, "status": "True"}]},
    });
    fleet
        .hub()
        .put(&*format!("/apis/cluster.x-k8s.io/{version}/namespaces/fleet/clusters/cluster1"), cluster);
    fleet
}

/// The kubeconfig Secret that Cluster API keeps, at this server.
fn put_kubeconfig(fleet: &Fleet, server: &str, user: &Value) {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "admin",
        "clusters": [{"name": "c", "cluster": {"server": server,
            "certificate-authority-data": STANDARD.encode(fleet.spoke("cluster1").ca_pem())}}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "admin"}}],
    });
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "cluster1"}},
        "data": {"value": STANDARD.encode(kubeconfig.to_string())}});
    fleet.hub().put("/api/v1/namespaces/fleet/secrets/cluster1-kubeconfig", secret);
}

fn profiles_only() -> Resource {
    Resource::new(PROFILES, "v1alpha1", "clusterprofiles", "ClusterProfile", true)
}

fn managed_hub() -> Builder {
    Fleet::builder().spokes(2).without(PROFILES)
}

fn rows(table: &str) -> Vec<Vec<String>> {
    table
        .lines()
        .map(|line| {
            line.split("   ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
        })
        .collect()
}

#[test]
fn the_hubs_own_kind_of_inventory_is_found_and_said() {
    let profiles = Fleet::builder().spokes(1).with(capi("v1beta2")).start();
    let ran = Sealed::at(&profiles).inventory(&["get"]);
    assert_eq!((ran.stderr.as_str(), rows(&ran.stdout)[0][1].as_str()), ("", "HEALTHY"));
    assert!(profiles.hub().log().iter().all(|line| line.path != "/apis"), "no request more than before");

    let managed = managed_hub().start();
    let ran = Sealed::at(&managed).inventory(&["get"]);
    assert!(ran.stderr.contains("--source managedcluster"), "{ran:?}");
    assert_eq!(
        rows(&ran.ok())[0],
        ["NAME", "ACCEPTED", "JOINED", "AVAILABLE", "VERSION", "CLUSTERSET", "AGE"]
    );

    for version in ["v1beta1", "v1beta2"] {
        let ran = Sealed::at(&capi_hub(version)).inventory(&["get"]);
        assert!(ran.stderr.contains("--source capi"), "{ran:?}");
        let rows = rows(&ran.ok());
        assert_eq!(rows[0], ["NAME", "PHASE", "READY", "VERSION", "PLATFORM", "CONTROL PLANE", "AGE"]);
        assert_eq!(
            rows[1][..6],
            ["cluster1", "Provisioned", "True", "v1.33.2", "Docker", "KubeadmControlPlane"]
        );
    }

    let nothing = Fleet::builder().without(PROFILES).without(MANAGED).start();
    let sealed = Sealed::at(&nothing);
    for args in [&["get"][..], &["use", "cluster1"], &["get", "-o", "json"]] {
        let said = sealed.inventory(args).fails(3);
        assert!(said.contains("Cluster API clusters") && said.contains("docs/hub-setup.md"), "{said}");
    }
    for source in ["managedcluster", "capi", "clusterprofile"] {
        let said = sealed.inventory(&["get", "--source", source]).fails(3);
        assert!(said.contains("serves no") && said.contains("try: "), "{source}: {said}");
    }
}

#[test]
fn every_form_of_output_is_there_for_every_kind() {
    let managed = managed_hub().start();
    let sealed = Sealed::at(&managed);
    let names = sealed.inventory(&["get", "-o", "name"]).ok();
    assert_eq!(
        names,
        "managedcluster.cluster.open-cluster-management.io/cluster1\nmanagedcluster.cluster.open-cluster-management.io/cluster2\n"
    );
    let json: Value = serde_json::from_str(&sealed.inventory(&["get", "-o", "json"]).ok()).unwrap();
    assert_eq!(
        (json["items"].as_array().unwrap().len(), &json["items"][0]["kind"]),
        (2, &json!("ManagedCluster"))
    );
    let one = yaml(&sealed.inventory(&["get", "cluster2", "-o", "yaml"]).ok());
    assert_eq!(one["metadata"]["name"], "cluster2");
    let said = sealed.inventory(&["get", "nowhere"]).fails(3);
    assert!(said.contains("no ManagedCluster nowhere"), "{said}");

    let fleet = capi_hub("v1beta2");
    let sealed = Sealed::at(&fleet);
    assert_eq!(sealed.inventory(&["get", "-o", "name"]).ok(), "cluster.cluster.x-k8s.io/cluster1\n");
    assert!(sealed.inventory(&["get", "-A"]).ok().starts_with("NAME       NAMESPACE"));
    assert_eq!(sealed.inventory(&["get", "-l", "env=test", "-o", "name"]).ok(), "");
    assert_eq!(sealed.inventory(&["get", "fleet/cluster1", "--no-headers"]).ok().lines().count(), 1);
    fleet.hub().forbid(|request| request.key.resource == "clusters");
    let said = sealed.inventory(&["get"]).fails(4);
    assert!(said.contains("clusters.cluster.x-k8s.io"), "{said}");
}

#[test]
fn clusters_are_chosen_by_what_is_known_of_them() {
    let fleet = Fleet::builder()
        .spokes(3)
        .edit("cluster1", |cluster| cluster.version = "v1.32.4-eks-1".into())
        .edit("cluster2", |cluster| cluster.healthy = Some(false))
        .edit("cluster3", |cluster| {
            cluster.cluster_set = "prod".into();
            cluster.properties.push(("gpu".into(), "a100".into()));
        })
        .start();
    let sealed = Sealed::at(&fleet);
    let chosen = |flags: &[&str]| {
        let mut args = vec!["get", "-o", "name"];
        args.extend(flags);
        let names = sealed.inventory(&args).ok();
        let names = names.lines().map(|line| line.rsplit('/').next().unwrap().to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(chosen(&["--healthy"]), "cluster1 cluster3");
    assert_eq!(chosen(&["--clusterset", "prod"]), "cluster3");
    assert_eq!(chosen(&["--version", ">=1.33"]), "cluster2 cluster3");
    assert_eq!(chosen(&["--version", "<1.33"]), "cluster1");
    assert_eq!(chosen(&["--property", "gpu"]), "cluster3");
    assert_eq!(chosen(&["--property", "gpu=h100"]), "");
    assert_eq!(chosen(&["--healthy", "--version", ">=1.33", "--property", "gpu=a100"]), "cluster3");
    assert_eq!(chosen(&["--healthy", "-l", "multicluster.x-k8s.io/clusterset=default"]), "cluster1");
    let table = sealed.inventory(&["get", "--clusterset", "prod", "--no-headers"]).ok();
    assert_eq!(table.lines().count(), 1, "{table}");
    let json: Value =
        serde_json::from_str(&sealed.inventory(&["get", "--healthy", "-o", "json"]).ok()).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 2);
    let wide = sealed.inventory(&["get", "-o", "wide"]).ok();
    assert!(wide.lines().next().unwrap().contains("CLUSTER ID"), "{wide}");
    for bad in [&["--version", "new"][..], &["--property", "=x"], &["--source", "gke"]] {
        let mut args = vec!["get"];
        args.extend(bad);
        sealed.inventory(&args).fails(2);
    }
}

/// A slice of the Cluster Inventory API's kind; each cluster is `name` or `namespace/name`.
fn put_slice(fleet: &Fleet, id: &str, labels: &Value, clusters: &[&str]) {
    let reference = |cluster: &str| match cluster.split_once('/') {
        Some((namespace, name)) => json!({"namespace": namespace, "name": name}),
        None => json!({"name": cluster}),
    };
    let decisions: Vec<Value> =
        clusters.iter().map(|cluster| json!({"clusterProfileRef": reference(cluster)})).collect();
    let (namespace, name) = id.split_once('/').unwrap();
    let path =
        format!("/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{namespace}/placementdecisions/{name}");
    fleet.hub().put(
        &*path,
        json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "PlacementDecision",
        "metadata": {"labels": labels}, "decisions": decisions}),
    );
}

fn names_of(sealed: &Sealed, flags: &[&str]) -> String {
    let mut args = vec!["get", "-o", "name"];
    args.extend(flags);
    let names = sealed.inventory(&args).ok();
    names.lines().map(|line| line.rsplit('/').next().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_schedulers_choice_is_shown_in_its_own_order() {
    let fleet = Fleet::builder().spokes(4).edit("cluster4", |cluster| cluster.healthy = Some(false)).start();
    let sealed = Sealed::at(&fleet);
    let labels = |index: &str| {
        json!({"multicluster.x-k8s.io/placement-key": "web", "multicluster.x-k8s.io/decision-key": "web-7",
            "multicluster.x-k8s.io/decision-index": index})
    };
    let space = "cluster-inventory";
    put_slice(&fleet, &format!("{space}/a"), &labels("1"), &["cluster2", "cluster4"]);
    put_slice(&fleet, &format!("{space}/b"), &labels("0"), &["cluster3"]);
    for flags in [["--placement", "web"], ["--placement", "web-7"], ["--placement", "cluster-inventory/web"]]
    {
        assert_eq!(names_of(&sealed, &flags), "cluster3 cluster2 cluster4", "{flags:?}");
    }
    assert_eq!(names_of(&sealed, &["--placement", "b"]), "cluster3", "an object by its name");
    assert_eq!(names_of(&sealed, &["--placement", "web", "--healthy"]), "cluster3 cluster2");
    let table = rows(&sealed.inventory(&["get", "--placement", "web", "--no-headers"]).ok());
    assert_eq!(
        table.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(),
        ["cluster3", "cluster2", "cluster4"]
    );
    let json: Value =
        serde_json::from_str(&sealed.inventory(&["get", "--placement", "web", "-o", "json"]).ok()).unwrap();
    assert_eq!(json["items"][0]["metadata"]["name"], "cluster3");

    // Decided elsewhere, for clusters some of which are gone.
    let elsewhere = json!({"multicluster.x-k8s.io/placement-key": "batch"});
    put_slice(&fleet, "team/batch", &elsewhere, &["cluster-inventory/cluster2", "cluster-inventory/gone"]);
    let ran = sealed.inventory(&["get", "--placement", "team/batch", "-o", "name"]);
    assert!(ran.stderr.contains("cluster-inventory/gone"), "{ran:?}");
    assert_eq!(ran.ok().lines().count(), 1);
    put_slice(&fleet, "team/none", &json!({}), &[]);
    assert_eq!(names_of(&sealed, &["--placement", "team/none"]), "");

    let said = sealed.inventory(&["get", "--placement", "nothing"]).fails(3);
    assert!(said.contains("placement nothing") && said.contains("placementdecisions"), "{said}");
    put_slice(&fleet, "team/web", &labels("0"), &["cluster1"]);
    let said = sealed.inventory(&["get", "--placement", "web"]).fails(2);
    assert!(said.contains("cluster-inventory/web") && said.contains("team/web"), "{said}");
    sealed.inventory(&["get", "--placement", "a=b"]).fails(2);
    fleet.hub().forbid(|request| request.key.resource == "placementdecisions");
    let said = sealed.inventory(&["get", "--placement", "team/web"]).fails(4);
    assert!(said.contains("placementdecisions.multicluster.x-k8s.io"), "{said}");
}

#[test]
fn ocms_placements_choose_profiles_and_managed_clusters() {
    for builder in [Fleet::builder().spokes(3), Fleet::builder().spokes(3).without(PROFILES)] {
        let fleet = builder.start();
        let sealed = Sealed::at(&fleet);
        for (number, clusters) in
            [("2", json!([{"clusterName": "cluster1"}])), ("1", json!([{"clusterName": "cluster3"}]))]
        {
            let path = format!(
                "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/team/placementdecisions/web-decision-{number}"
            );
            fleet.hub().put(
                &*path,
                json!({"kind": "PlacementDecision", "status": {"decisions": clusters},
                    "metadata": {"labels": {"cluster.open-cluster-management.io/placement": "web"}}}),
            );
        }
        for flags in [["--placement", "web"], ["--placement", "team/web"]] {
            assert_eq!(names_of(&sealed, &flags), "cluster3 cluster1", "{flags:?}");
        }
    }
    let fleet = capi_hub("v1beta2");
    let said = Sealed::at(&fleet).inventory(&["get", "--placement", "web"]).fails(2);
    assert!(said.contains("Cluster API"), "{said}");
    let nowhere = managed_hub().start();
    let said = Sealed::at(&nowhere).inventory(&["get", "--placement", "web"]).fails(3);
    assert!(said.contains("no decision for placement web"), "{said}");
    let without = Fleet::builder().without(PROFILES).without(MANAGED).with(profiles_only()).start();
    let said = Sealed::at(&without).inventory(&["get", "--placement", "web"]).fails(3);
    assert!(said.contains("serves no PlacementDecisions"), "{said}");
}

#[test]
fn a_cluster_api_cluster_is_used_with_the_kubeconfig_that_is_kept_of_it() {
    let fleet = capi_hub("v1beta2");
    let sealed = Sealed::at(&fleet);
    let said = sealed.inventory(&["use", "cluster1"]).fails(3);
    assert!(said.contains("phase is Provisioned") && said.contains("cluster1-kubeconfig"), "{said}");

    let token = fleet.token("cluster1", "inventory");
    let server = fleet.server_url("cluster1");
    put_kubeconfig(&fleet, &server, &json!({"token": token}));
    let ran = sealed.inventory(&["use", "cluster1"]);
    assert!(ran.stderr.contains("administrator's credential"), "{ran:?}");
    assert_eq!(ran.ok(), "context hub → cluster1@hub\n");
    assert_eq!(sealed.token("cluster1@hub"), token);
    assert!(!sealed.read(".kube/config").contains(&token), "it never lands in the file");
    if let Some(kubectl) = sealed.kubectl(&["get", "ns", "-o", "name"]) {
        assert!(kubectl.ok().contains("namespace/cluster1"));
    }
    // Rotated: the next one that asks the hub gets the new one.
    fleet.rotate("cluster1", "inventory");
    let new = fleet.token("cluster1", "inventory");
    put_kubeconfig(&fleet, &server, &json!({"token": new}));
    sealed.inventory(&["cache", "clear"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), new);
    // Moved: nothing is handed out until it is used again.
    put_kubeconfig(&fleet, &format!("{}/elsewhere", fleet.spoke("cluster1").url()), &json!({"token": new}));
    sealed.inventory(&["cache", "clear"]).ok();
    let said = run(&mut sealed.plugin("cluster1@hub")).fails(4);
    assert!(said.contains("now leads to") && said.contains("kubectl inventory use cluster1"), "{said}");

    put_kubeconfig(&fleet, &server, &json!({"exec": {"apiVersion": "v1", "command": "aws"}}));
    let said = sealed.inventory(&["use", "cluster1"]).fails(4);
    assert!(said.contains("exec") && said.contains("provider file"), "{said}");
    assert!(sealed.inventory(&["use", "cluster1", "--sa", "x"]).fails(2).contains("Cluster API"));
}

#[test]
fn a_profile_that_mirrors_a_cluster_api_cluster_leads_into_it() {
    let fleet = Fleet::builder().spokes(1).with(capi("v1beta2")).start();
    fleet.hub().put(
        "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/clusters/cluster1",
        json!({"kind": "Cluster", "status": {"phase": "Provisioned"}}),
    );
    fleet
        .hub()
        .delete("/apis/multicluster.x-k8s.io/v1alpha1/namespaces/cluster-inventory/clusterprofiles/cluster1");
    let mirror = |name: &str| {
        let path = format!("/apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet/clusterprofiles/{name}");
        let profile = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
            "spec": {"clusterManager": {"name": "cluster-api"}}, "status": {}});
        fleet.hub().put(&*path, profile);
    };
    mirror("cluster1");
    mirror("other");
    let sealed = Sealed::at(&fleet);
    assert!(sealed.inventory(&["use", "cluster1"]).fails(3).contains("phase is Provisioned"));
    let token = fleet.token("cluster1", "inventory");
    put_kubeconfig(&fleet, &fleet.server_url("cluster1"), &json!({"token": token}));
    sealed.inventory(&["use", "cluster1"]).ok();
    assert_eq!(sealed.token("cluster1@hub"), token);
    assert!(sealed.inventory(&["describe", "cluster1"]).ok().contains("kubeconfig Secret"));
    let said = sealed.inventory(&["use", "other"]).fails(3);
    assert!(said.contains("other publishes no access provider"), "{said}");
}

#[test]
fn the_same_name_in_two_namespaces_is_not_guessed() {
    let fleet = capi_hub("v1beta2");
    let cluster =
        fleet.hub().get("/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/clusters/cluster1").unwrap();
    fleet.hub().put("/apis/cluster.x-k8s.io/v1beta2/namespaces/other/clusters/cluster1", cluster);
    put_kubeconfig(
        &fleet,
        &fleet.server_url("cluster1"),
        &json!({"token": fleet.token("cluster1", "inventory")}),
    );
    let sealed = Sealed::at(&fleet);
    // Only one of them can be used.
    sealed.inventory(&["use", "cluster1"]).ok();
    let secret = fleet.hub().get("/api/v1/namespaces/fleet/secrets/cluster1-kubeconfig").unwrap();
    fleet.hub().put("/api/v1/namespaces/other/secrets/cluster1-kubeconfig", secret);
    let said = sealed.inventory(&["use", "cluster1"]).fails(2);
    assert!(said.contains("fleet/cluster1") && said.contains("other/cluster1"), "{said}");
    sealed.inventory(&["use", "other/cluster1"]).ok();
    let names: Vec<_> = sealed.config()["contexts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|context| context["name"].clone())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn cluster_gateway_takes_the_hubs_own_credentials() {
    let fleet = managed_hub().with(cluster_gateway()).start();
    let sealed = Sealed::at(&fleet);
    assert!(sealed.inventory(&["get"]).ok().contains("cluster2"));
    let ran = sealed.inventory(&["use", "cluster1"]);
    assert!(ran.stderr.contains("cluster-gateway"), "{ran:?}");
    ran.ok();
    let entry = sealed.entry("contexts", "cluster1@hub");
    assert_eq!(entry["context"]["user"], fleet.kubeconfig()["contexts"][0]["context"]["user"]);
    assert_eq!(sealed.config()["users"].as_array().unwrap().len(), 1, "the hub's user is used as it is");
    let server = sealed.entry("clusters", "cluster1@hub")["cluster"]["server"].as_str().unwrap().to_owned();
    assert_eq!(
        server,
        format!("{}/apis/cluster.core.oam.dev/v1alpha1/clustergateways/cluster1/proxy", fleet.hub().url())
    );
    if let Some(kubectl) = sealed.kubectl(&["get", "ns", "-o", "name"]) {
        assert!(kubectl.ok().contains("namespace/cluster1"));
    }
    // The hub is still found, and in a file of its own the credential is fetched.
    assert!(sealed.inventory(&["get"]).ok().contains("cluster2"));
    let file = sealed.path("cluster2.yaml").display().to_string();
    sealed.inventory(&["use", "cluster2", "-o", &file]).ok();
    let alone = yaml(&sealed.read("cluster2.yaml"));
    let args = alone["users"][0]["user"]["exec"]["args"].to_string();
    assert!(args.contains("--source=hub-identity") && args.contains("--client-certificate=true"), "{args}");
    if let Some(kubectl) = sealed.kubectl(&["--kubeconfig", &file, "get", "ns", "-o", "name"]) {
        assert!(kubectl.ok().contains("namespace/cluster2"));
    }
    assert!(
        fleet.hub().log().iter().all(|line| !line.path.ends_with("/clustergateways")
            && !line.path.ends_with("/clustergateways/cluster1")),
        "never read"
    );
    assert!(sealed.inventory(&["use", "cluster1", "--as", "me"]).fails(2).contains("--as"));

    let without = managed_hub().start();
    let said = Sealed::at(&without).inventory(&["use", "cluster1"]).fails(3);
    assert!(said.contains("publishes no address") && said.contains("cluster-gateway"), "{said}");
}
