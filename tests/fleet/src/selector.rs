//! Label selectors (`a=b,c!=d,e in (f,g),h,!i`) and the field selectors on name and namespace.

use serde_json::Value;

/// What a list or watch is narrowed to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Reads both query parameters; the error is the text of a 400.
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<Self, String> {
        let parse = |text: &str| split(text).into_iter().map(requirement).collect::<Result<Vec<_>, _>>();
        let fields = parse(fields)?;
        for field in &fields {
            let (Requirement::In(name, _) | Requirement::NotIn(name, _)) = field else {
                return Err("invalid field selector".into());
            };
            if !name.starts_with("metadata.") && !name.starts_with("spec.") && !name.starts_with("status.") {
                return Err(format!("field label not supported: {name}"));
            }
        }
        Ok(Self { labels: parse(labels)?, fields })
    }

    /// Also demands this name, as a watch of one object does.
    pub(crate) fn only_name(&mut self, name: &str) {
        self.fields.push(Requirement::In("metadata.name".to_owned(), vec![name.to_owned()]));
    }

    /// Whether everything matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether the object is in the selection.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let label = |name: &str| object["metadata"]["labels"][name].as_str().map(str::to_owned);
        let field = |path: &str| {
            let found = path.split('.').try_fold(object, |value, part| value.get(part));
            Some(found.and_then(Value::as_str).unwrap_or_default().to_owned())
        };
        self.labels.iter().all(|r| r.holds(label)) && self.fields.iter().all(|r| r.holds(field))
    }
}

impl Requirement {
    fn holds(&self, lookup: impl Fn(&str) -> Option<String>) -> bool {
        match self {
            Self::In(name, values) => lookup(name).is_some_and(|v| values.contains(&v)),
            Self::NotIn(name, values) => lookup(name).is_none_or(|v| !values.contains(&v)),
            Self::Exists(name) => lookup(name).is_some(),
            Self::Absent(name) => lookup(name).is_none(),
        }
    }
}

/// Splits at the commas that stand outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|p| !p.is_empty()).collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    if let Some((head, values)) = text.split_once('(') {
        let values =
            values.strip_suffix(')').ok_or_else(|| format!("unable to parse requirement: {text}"))?;
        let values = values.split(',').map(|v| v.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(name), Some("in"), None) => Ok(Requirement::In(name.into(), values)),
            (Some(name), Some("notin"), None) => Ok(Requirement::NotIn(name.into(), values)),
            _ => Err(format!("unable to parse requirement: {text}")),
        };
    }
    let pair = |(name, value): (&str, &str)| (name.trim().to_owned(), vec![value.trim().to_owned()]);
    if let Some((name, values)) = text.split_once("!=").map(pair) {
        return Ok(Requirement::NotIn(name, values));
    }
    if let Some((name, values)) = text.split_once("==").or_else(|| text.split_once('=')).map(pair) {
        return Ok(Requirement::In(name, values));
    }
    if text.contains(char::is_whitespace) {
        return Err(format!("unable to parse requirement: {text}"));
    }
    Ok(match text.strip_prefix('!') {
        Some(name) => Requirement::Absent(name.trim().to_owned()),
        None => Requirement::Exists(text.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selects(labels: &str) -> bool {
        let object =
            json!({"metadata": {"name": "n", "namespace": "ns", "labels": {"app": "web", "tier": "front"}}});
        Selector::parse(labels, "").unwrap().matches(&object)
    }

    #[test]
    fn each_operator_of_a_label_selector_works() {
        for yes in ["", "app=web", "app==web,tier=front", "app!=db", "none!=x", "app in (db, web)", "app"] {
            assert!(selects(yes), "{yes}");
        }
        for yes in ["!none", "tier notin (back)", "none notin (x)"] {
            assert!(selects(yes), "{yes}");
        }
        for no in ["app=db", "app!=web", "app in (db)", "app notin (db,web)", "!app", "none", "app,none"] {
            assert!(!selects(no), "{no}");
        }
    }

    #[test]
    fn fields_select_by_name_and_namespace() {
        let object = json!({"metadata": {"name": "n", "namespace": "ns"}});
        let selects = |fields: &str| Selector::parse("", fields).unwrap().matches(&object);
        assert!(selects("metadata.name=n,metadata.namespace=ns"));
        assert!(!selects("metadata.name!=n"));
        assert!(Selector::parse("", "color=red").is_err());
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        assert!(Selector::parse("a b", "").is_err());
        assert!(Selector::parse("a in (b", "").is_err());
    }
}
