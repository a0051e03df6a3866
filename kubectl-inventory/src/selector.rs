//! Kubernetes' label selectors, over everything that is known of a cluster: its labels, its properties, and
//! `name`, `namespace`, `clusterset`, `manager` and `version`. Pure.

use std::fmt;
use std::str::FromStr;

use crate::inventory::Cluster;

/// Requirements that must all hold, such as `env=prod,tier in (gold, silver),!test`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    must: Must,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Must {
    Exist,
    NotExist,
    /// A cluster without the key does not match.
    BeIn(Vec<String>),
    /// A cluster without the key matches.
    NotBeIn(Vec<String>),
}

impl Selector {
    /// Whether the cluster is one of those.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = attribute(cluster, &requirement.key);
            match &requirement.must {
                Must::Exist => value.is_some(),
                Must::NotExist => value.is_none(),
                Must::BeIn(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
                Must::NotBeIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            }
        })
    }
}

/// What a cluster has under a key: a label, else a property, else a fact of its row.
fn attribute<'a>(cluster: &'a Cluster, key: &str) -> Option<&'a str> {
    let fact = match key {
        "name" => Some(cluster.name.as_str()),
        "namespace" => Some(cluster.namespace.as_str()),
        "clusterset" => cluster.clusterset.as_deref(),
        "manager" => cluster.manager.as_deref(),
        "version" => cluster.version.as_deref(),
        _ => None,
    };
    cluster.labels.get(key).map(String::as_str).or_else(|| cluster.property(key)).or(fact)
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = parts(text)?;
        let requirements = parts.into_iter().map(requirement).collect::<Result<Vec<_>, _>>()?;
        if requirements.is_empty() {
            return Err("a selector is empty".to_owned());
        }
        Ok(Self { text: text.trim().to_owned(), requirements })
    }
}

/// The requirements: what stands between commas, those in parentheses left alone.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' if !open => open = true,
            ')' if open => open = false,
            '(' | ')' => return Err(format!("{text:?} has a parenthesis too many")),
            ',' if !open => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err(format!("{text:?} has no closing parenthesis"));
    }
    parts.push(&text[start..]);
    Ok(parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect())
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let (key, must) = if let Some((key, value)) = part.split_once("!=") {
        (key, Must::NotBeIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = part.split_once('=') {
        (key, Must::BeIn(vec![value.strip_prefix('=').unwrap_or(value).trim().to_owned()]))
    } else if let Some((head, set)) = part.strip_suffix(')').and_then(|part| part.split_once('(')) {
        let values: Vec<String> = set.split(',').map(|value| value.trim().to_owned()).collect();
        match head.trim().rsplit_once(char::is_whitespace) {
            Some((key, "in")) => (key, Must::BeIn(values)),
            Some((key, "notin")) => (key, Must::NotBeIn(values)),
            _ => return Err(format!("{part:?} has neither `in` nor `notin` before its parenthesis")),
        }
    } else if let Some(key) = part.strip_prefix('!') {
        (key, Must::NotExist)
    } else {
        (part, Must::Exist)
    };
    let key = key.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if key.is_empty() || !key.chars().all(plain) {
        return Err(format!("{part:?} is no requirement such as env=prod, env in (a, b), env or !env"));
    }
    Ok(Requirement { key: key.to_owned(), must })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::ClusterProfile;

    fn cluster() -> Cluster {
        let profile: ClusterProfile = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "c1", "namespace": "fleet",
                "labels": {"env": "prod", "multicluster.x-k8s.io/clusterset": "eu"}},
            "status": {"version": {"kubernetes": "v1.34.1"}, "properties": [{"name": "tier", "value": "gold"}]},
        }))
        .unwrap();
        Cluster::from(&profile)
    }

    #[test]
    fn every_form_of_kubernetes_is_understood() {
        for (text, matches) in [
            ("env=prod", true),
            ("env == prod", true),
            ("env!=prod", false),
            ("other!=prod", true),
            ("env in (test, prod)", true),
            ("env notin (test,prod)", false),
            ("other notin (a)", true),
            ("env", true),
            ("!env", false),
            ("!other", true),
            ("env=prod,tier=gold", true),
            ("env=prod,tier in (silver, bronze)", false),
            ("name=c1,namespace=fleet,clusterset=eu", true),
            ("version=v1.34.1", true),
            ("manager", false),
            ("env=prod,", true),
        ] {
            let selector: Selector = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches(&cluster()), matches, "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_says_what_one_is() {
        for text in
            ["", ",", "env in prod", "env of (a)", "=prod", "a b", "env in (a", "env)", "env in ((a))", "ä=b"]
        {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
