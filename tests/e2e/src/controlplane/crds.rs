//! The resource kinds of a hub: definitions of our own, as small as the API server takes them, or
//! the real ones where `TEST_CRD_DIR` names a folder of them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ControlPlane;

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Installs Cluster API's Clusters, and waits until they are served: the real definition where `TEST_CRD_DIR`
/// has it, else ours.
pub fn install_capi(hub: &ControlPlane) -> Result<(), String> {
    install_real(hub, "cluster.x-k8s.io")?;
    install_crd(hub, "cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", true)
}

/// As [`install_capi`], OCM's ManagedClusters.
pub fn install_managed_clusters(hub: &ControlPlane) -> Result<(), String> {
    let group = "cluster.open-cluster-management.io";
    install_real(hub, group)?;
    install_crd(hub, group, "v1", "ManagedCluster", "managedclusters", false)
}

/// Installs what an OCM hub has, and waits until it is served. Real definitions go first; ours fill
/// the gaps.
pub fn install_crds(hub: &ControlPlane) -> Result<(), String> {
    install_real(hub, "")?;
    install_crd(hub, "multicluster.x-k8s.io", "v1alpha1", "ClusterProfile", "clusterprofiles", true)?;
    install_crd(
        hub,
        "authentication.open-cluster-management.io",
        "v1beta1",
        "ManagedServiceAccount",
        "managedserviceaccounts",
        true,
    )?;
    install_crd(
        hub,
        "proxy.open-cluster-management.io",
        "v1alpha1",
        "ManagedProxyConfiguration",
        "managedproxyconfigurations",
        false,
    )
}

/// Installs one kind of any content with a status subresource, and waits until it is served.
pub fn install_crd(
    hub: &ControlPlane,
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
    namespaced: bool,
) -> Result<(), String> {
    hub.create(COLLECTION, &definition(group, version, kind, plural, namespaced))?;
    wait_until_served(hub, &format!("/apis/{group}/{version}/{plural}"))
}

fn definition(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            // Groups under k8s.io want to know who approved them.
            "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" },
        },
        "spec": {
            "group": group,
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase() },
            "scope": if namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": { "spec": anything, "status": anything },
                } },
            }],
        },
    })
}

/// Installs what the folder `TEST_CRD_DIR` has, of one group if that is named.
fn install_real(hub: &ControlPlane, group: &str) -> Result<(), String> {
    let Some(dir) = std::env::var_os("TEST_CRD_DIR").filter(|dir| !dir.is_empty()) else { return Ok(()) };
    let dir = Path::new(&dir);
    let failed = |error: std::io::Error| format!("TEST_CRD_DIR {}: {error}", dir.display());
    let mut files: Vec<_> = fs::read_dir(dir)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    for file in files {
        let yaml = fs::read_to_string(&file).map_err(failed)?;
        if !yaml.contains(&format!("\n  group: {group}")) {
            continue;
        }
        let answer = hub.send(&hub.admin_token(), "POST", COLLECTION, "application/yaml", Some(yaml))?;
        if answer.status >= 400 && answer.status != 409 {
            return Err(format!("{}: {} {}", file.display(), answer.status, answer.body["message"]));
        }
    }
    Ok(())
}

/// Waits until the API server answers there.
pub(super) fn wait_until_served(hub: &ControlPlane, collection: &str) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while hub.call(&hub.admin_token(), "GET", collection, None)?.status != 200 {
        if Instant::now() > deadline {
            return Err(format!("{}: {collection} is not served", hub.name()));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
