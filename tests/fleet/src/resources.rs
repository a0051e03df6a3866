//! Which kinds a server serves, and its discovery documents made from that list.

use serde_json::{Value, json};

use crate::key::Key;

/// One kind that a server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// API group, `""` for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name.
    pub plural: String,
    /// Kind.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Short names, such as `ns`.
    pub short: Vec<String>,
}

impl Resource {
    /// A kind; the plural is as in paths.
    pub fn new(group: &str, version: &str, plural: &str, kind: &str, namespaced: bool) -> Self {
        let own = str::to_owned;
        Self {
            group: own(group),
            version: own(version),
            plural: own(plural),
            kind: own(kind),
            namespaced,
            short: vec![],
        }
    }

    fn short(mut self, name: &str) -> Self {
        self.short.push(name.to_owned());
        self
    }

    fn serves(&self, key: &Key) -> bool {
        self.group == key.group && self.version == key.version && self.plural == key.resource
    }

    fn entry(&self) -> Value {
        let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
        let singular = self.kind.to_lowercase();
        json!({"name": self.plural, "singularName": singular, "kind": self.kind, "namespaced": self.namespaced,
            "shortNames": self.short, "verbs": verbs})
    }
}

/// What every server serves.
pub(crate) fn core() -> Vec<Resource> {
    vec![
        Resource::new("", "v1", "namespaces", "Namespace", false).short("ns"),
        Resource::new("", "v1", "nodes", "Node", false).short("no"),
        Resource::new("", "v1", "pods", "Pod", true).short("po"),
        Resource::new("", "v1", "configmaps", "ConfigMap", true).short("cm"),
        Resource::new("", "v1", "secrets", "Secret", true),
        Resource::new("", "v1", "services", "Service", true).short("svc"),
        Resource::new("", "v1", "serviceaccounts", "ServiceAccount", true).short("sa"),
        Resource::new("", "v1", "events", "Event", true).short("ev"),
        Resource::new("apps", "v1", "deployments", "Deployment", true).short("deploy"),
    ]
}

/// What an OCM hub with managed-serviceaccount and cluster-proxy serves besides.
pub(crate) fn ocm() -> Vec<Resource> {
    let cluster = "cluster.open-cluster-management.io";
    vec![
        Resource::new("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile", true),
        Resource::new("multicluster.x-k8s.io", "v1alpha1", "placementdecisions", "PlacementDecision", true),
        Resource::new(
            crate::ocm::MSA_GROUP,
            "v1beta1",
            "managedserviceaccounts",
            "ManagedServiceAccount",
            true,
        ),
        Resource::new(cluster, "v1", "managedclusters", "ManagedCluster", false),
        Resource::new(cluster, "v1beta2", "managedclustersets", "ManagedClusterSet", false),
        Resource::new(cluster, "v1beta2", "managedclustersetbindings", "ManagedClusterSetBinding", true),
        Resource::new(cluster, "v1beta1", "placementdecisions", "PlacementDecision", true),
        Resource::new(
            "addon.open-cluster-management.io",
            "v1alpha1",
            "managedclusteraddons",
            "ManagedClusterAddOn",
            true,
        ),
        Resource::new(
            "proxy.open-cluster-management.io",
            "v1alpha1",
            "managedproxyconfigurations",
            "ManagedProxyConfiguration",
            false,
        ),
    ]
}

/// The list, in the order of discovery.
#[derive(Clone, Debug)]
pub(crate) struct Resources(Vec<Resource>);

impl Resources {
    pub(crate) fn new(list: Vec<Resource>) -> Self {
        Self(list)
    }

    pub(crate) fn add(&mut self, resource: Resource) {
        self.0.retain(|r| {
            (&r.group, &r.version, &r.plural) != (&resource.group, &resource.version, &resource.plural)
        });
        self.0.push(resource);
    }

    /// Removes a whole group, or one kind by `resource.group`.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|r| r.group != name && format!("{}.{}", r.plural, r.group) != name);
    }

    pub(crate) fn find(&self, key: &Key) -> Option<&Resource> {
        self.0.iter().find(|r| r.serves(key))
    }

    /// The discovery document at a path.
    pub(crate) fn discovery(&self, path: &str) -> Option<Value> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["api"] => {
                Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}))
            }
            ["apis"] => {
                let groups: Vec<Value> = self.groups().iter().map(|g| self.group(g)).collect();
                Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
            }
            ["api", version] => self.list("", version),
            ["apis", group, version] => self.list(group, version),
            ["apis", group] if self.groups().contains(group) => {
                let mut document = self.group(group);
                document["kind"] = json!("APIGroup");
                document["apiVersion"] = json!("v1");
                Some(document)
            }
            _ => None,
        }
    }

    fn groups(&self) -> Vec<&str> {
        let mut groups = vec!["authentication.k8s.io", "authorization.k8s.io"];
        for resource in self.0.iter().filter(|r| !r.group.is_empty()) {
            if !groups.contains(&resource.group.as_str()) {
                groups.push(&resource.group);
            }
        }
        groups
    }

    fn group(&self, name: &str) -> Value {
        let mut versions: Vec<&str> =
            self.0.iter().filter(|r| r.group == name).map(|r| r.version.as_str()).collect();
        versions.dedup();
        if versions.is_empty() {
            versions.push("v1");
        }
        let entry = |v: &&str| json!({"groupVersion": format!("{name}/{v}"), "version": v});
        let all: Vec<Value> = versions.iter().map(entry).collect();
        json!({"name": name, "versions": all, "preferredVersion": all[0]})
    }

    fn list(&self, group: &str, version: &str) -> Option<Value> {
        let review = |name: &str, kind: &str| json!({"name": name, "singularName": "", "kind": kind, "namespaced": false, "verbs": ["create"]});
        let entries: Vec<Value> = match (group, version) {
            ("authentication.k8s.io", "v1") => vec![review("selfsubjectreviews", "SelfSubjectReview")],
            ("authorization.k8s.io", "v1") => {
                vec![review("selfsubjectaccessreviews", "SelfSubjectAccessReview")]
            }
            _ => self
                .0
                .iter()
                .filter(|r| r.group == group && r.version == version)
                .map(Resource::entry)
                .collect(),
        };
        let name = Key { group: group.into(), version: version.into(), ..Key::default() }.api_version();
        (!entries.is_empty()).then(
            || json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": entries}),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_group_is_in_no_document() {
        let mut resources = Resources::new([core(), ocm()].concat());
        assert!(resources.discovery("/apis/multicluster.x-k8s.io/v1alpha1").is_some());
        resources.remove("multicluster.x-k8s.io");
        assert!(resources.discovery("/apis/multicluster.x-k8s.io/v1alpha1").is_none());
        assert!(!resources.discovery("/apis").unwrap().to_string().contains("multicluster.x-k8s.io"));
    }
}
