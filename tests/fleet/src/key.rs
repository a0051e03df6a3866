//! What a request path names: `/apis/<group>/<version>/namespaces/<ns>/<resource>/<name>/<sub>`.

/// Names one object of a server. Made from an API path or from
/// `(group, version, resource, namespace, name)`; the core group and "no namespace" are `""`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// API group, `""` for the core group.
    pub group: String,
    /// API version, such as `v1alpha1`.
    pub version: String,
    /// Plural resource name, such as `clusterprofiles`.
    pub resource: String,
    /// Namespace, `""` for a cluster-scoped object (or, in a list, for all of them).
    pub namespace: String,
    /// Object name, `""` for the collection.
    pub name: String,
}

impl Key {
    /// Whether both are of one group, version and resource.
    pub fn same_collection(&self, other: &Self) -> bool {
        self.group == other.group && self.version == other.version && self.resource == other.resource
    }

    /// `resource.group`, or just the resource in the core group, as messages of the API name it.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    /// `group/version`, or just the version in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl From<(&str, &str, &str, &str, &str)> for Key {
    fn from((group, version, resource, namespace, name): (&str, &str, &str, &str, &str)) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl From<&str> for Key {
    /// Panics on anything that is not the path of a resource: a mistake in the test.
    fn from(path: &str) -> Self {
        parse(path).unwrap_or_else(|| panic!("{path} is no resource path")).0
    }
}

impl From<String> for Key {
    fn from(path: String) -> Self {
        path.as_str().into()
    }
}

impl From<&String> for Key {
    fn from(path: &String) -> Self {
        path.as_str().into()
    }
}

/// The key and the subresource (`""` if none) that a path names.
pub(crate) fn parse(path: &str) -> Option<(Key, String)> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        _ => ("", rest),
    };
    let (resource, name, sub) = match rest {
        [resource] => (*resource, "", ""),
        [resource, name] => (*resource, *name, ""),
        [resource, name, sub, ..] => (*resource, *name, *sub),
        [] => return None,
    };
    Some(((group, version, resource, namespace, name).into(), sub.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_objects_collections_and_subresources() {
        assert_eq!(Key::from("/api/v1/namespaces"), ("", "v1", "namespaces", "", "").into());
        assert_eq!(Key::from("/api/v1/namespaces/a"), ("", "v1", "namespaces", "", "a").into());
        assert_eq!(Key::from("/api/v1/namespaces/a/pods"), ("", "v1", "pods", "a", "").into());
        assert_eq!(Key::from("/apis/apps/v1/deployments"), ("apps", "v1", "deployments", "", "").into());
        let (key, sub) = parse("/api/v1/namespaces/a/pods/p/log").unwrap();
        assert_eq!((key, sub.as_str()), (("", "v1", "pods", "a", "p").into(), "log"));
        assert_eq!(parse("/version"), None);
    }
}
