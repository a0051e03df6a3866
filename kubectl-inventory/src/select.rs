//! Which clusters of an inventory are meant, by what is known of each. Pure.

use semver::{Version, VersionReq};

use crate::inventory::placement::Placed;
use crate::inventory::{Cluster, Verdict};

/// What a cluster must be; everything that is said must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The set that it belongs to.
    pub clusterset: Option<String>,
    /// Properties that it must have, with their value where one is said.
    pub properties: Vec<(String, Option<String>)>,
    /// Whether it must be healthy.
    pub healthy: bool,
    /// The Kubernetes versions that it may have.
    pub version: Option<VersionReq>,
    /// The clusters that a scheduler chose, where its choice is what counts.
    pub placed: Option<Placed>,
}

impl Selection {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Where a cluster stands among those that are meant, by the scheduler's order where there is one; `None`
    /// for one that is not meant.
    pub fn rank(&self, cluster: &Cluster) -> Option<usize> {
        if !self.takes(cluster) {
            return None;
        }
        self.placed.as_ref().map_or(Some(0), |placed| placed.rank(cluster))
    }

    fn takes(&self, cluster: &Cluster) -> bool {
        let in_set = self.clusterset.as_ref().is_none_or(|set| cluster.clusterset.as_ref() == Some(set));
        let has = |(name, value): &(String, Option<String>)| {
            cluster
                .properties
                .iter()
                .any(|(known, found)| known == name && value.as_ref().is_none_or(|value| value == found))
        };
        let in_range = |range: &VersionReq| {
            cluster.version.as_deref().and_then(numbers).is_some_and(|version| range.matches(&version))
        };
        in_set
            && (!self.healthy || cluster.healthy == Some(Verdict::Yes))
            && self.properties.iter().all(has)
            && self.version.as_ref().is_none_or(in_range)
    }
}

/// A Kubernetes version by its numbers: `v1.34.1-gke.100` and `v1.34.1+k3s1` are both 1.34.1.
fn numbers(version: &str) -> Option<Version> {
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let mut numbers = version[..end].trim_start_matches('v').split('.').map(|number| number.parse().ok());
    Some(Version::new(numbers.next()??, numbers.next()??, numbers.next().unwrap_or(Some(0))?))
}

/// `name=value`, or `name` alone.
///
/// # Errors
/// Why it is neither.
pub fn property(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() { Err(format!("{text:?} is no NAME=VALUE")) } else { Ok((name.to_owned(), value)) }
}

/// The name of a placement, with its namespace where one is said. It becomes a part of paths and selectors.
///
/// # Errors
/// Why it is none.
pub fn placement(text: &str) -> Result<String, String> {
    let fits = |part: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        part.chars().all(inner) && part.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    let (namespace, name) = text.split_once('/').map_or((None, text), |(space, name)| (Some(space), name));
    match fits(name) && namespace.is_none_or(fits) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no NAME or NAMESPACE/NAME of a placement")),
    }
}

/// A range of versions such as `>=1.33`.
///
/// # Errors
/// Why it is none.
pub fn versions(text: &str) -> Result<VersionReq, String> {
    let plain = text.replace('v', "");
    VersionReq::parse(&plain)
        .map_err(|error| format!("{text:?} is no range of versions such as >=1.33: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        Cluster {
            clusterset: Some("prod".into()),
            version: Some("v1.34.1-gke.100".into()),
            healthy: Some(Verdict::Yes),
            properties: vec![("region".into(), "eu".into()), ("gpu".into(), String::new())],
            ..Cluster::default()
        }
    }

    fn selection(change: impl FnOnce(&mut Selection)) -> Selection {
        let mut selection = Selection::default();
        change(&mut selection);
        selection
    }

    #[test]
    fn each_thing_that_is_said_must_hold() {
        assert!(Selection::default().is_empty() && Selection::default().rank(&Cluster::default()) == Some(0));
        let holds = [
            selection(|s| s.clusterset = Some("prod".into())),
            selection(|s| s.properties = vec![property("region=eu").unwrap(), property("gpu").unwrap()]),
            selection(|s| s.healthy = true),
            selection(|s| s.version = versions(">=1.33, <1.35").ok()),
            selection(|s| s.version = versions(">=v1.34.1").ok()),
        ];
        for selection in &holds {
            assert!(selection.rank(&cluster()).is_some(), "{selection:?}");
            assert!(selection.rank(&Cluster::default()).is_none(), "{selection:?}");
        }
        for fails in [
            selection(|s| s.clusterset = Some("test".into())),
            selection(|s| s.properties = vec![property("region=us").unwrap()]),
            selection(|s| s.properties = vec![property("region=eu").unwrap(), property("cpu").unwrap()]),
            selection(|s| s.version = versions("<1.34").ok()),
            selection(|s| s.placed = Some(Placed::default())),
        ] {
            assert!(fails.rank(&cluster()).is_none(), "{fails:?}");
        }
    }

    #[test]
    fn a_version_counts_by_its_numbers() {
        for (text, expected) in [
            ("v1.33.0+k3s1", Some((1, 33, 0))),
            ("1.30", Some((1, 30, 0))),
            ("v1.29.3-eks-a5ec690", Some((1, 29, 3))),
            ("v1", None),
            ("latest", None),
            ("", None),
        ] {
            let found = numbers(text).map(|version| (version.major, version.minor, version.patch));
            assert_eq!(found, expected, "{text}");
        }
        assert!(versions("new").is_err() && versions("").is_err());
        assert!(property("=x").is_err());
        assert!(placement("web").is_ok() && placement("team-a/Web_1.2").is_ok());
        for bad in ["", "/", "a/", "a/b/c", "a=b", "a,b", "../x", "a b"] {
            assert!(placement(bad).is_err(), "{bad}");
        }
    }
}
