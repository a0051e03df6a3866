//! Merge patches, and as much of strategic and server-side apply as `kubectl apply` needs.

use serde_json::Value;

/// The object after the patch. With `by_name`, lists of named things are merged by name and
/// strategic directives are honoured; without, a list replaces the list (RFC 7386).
pub(crate) fn merge(target: &mut Value, patch: &Value, by_name: bool) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = Value::Object(serde_json::Map::new());
            }
            for (name, change) in fields {
                if by_name && name.starts_with('$') {
                    continue;
                }
                match (change, target.as_object_mut()) {
                    (Value::Null, Some(target)) => drop(target.remove(name)),
                    (change, Some(target)) => {
                        merge(target.entry(name.clone()).or_insert(Value::Null), change, by_name)
                    }
                    (_, None) => {}
                }
            }
        }
        Value::Array(items)
            if by_name && items.iter().all(|item| item["name"].is_string()) && !items.is_empty() =>
        {
            let mut merged = target.as_array().cloned().unwrap_or_default();
            for item in items {
                let at = merged.iter().position(|old| old["name"] == item["name"]);
                match at {
                    Some(at) if item["$patch"] == "delete" => drop(merged.remove(at)),
                    Some(at) => merge(&mut merged[at], item, true),
                    None => merged.push(item.clone()),
                }
            }
            *target = Value::Array(merged);
        }
        other => *target = other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_replaces_lists_and_null_removes() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "l": [{"name": "x"}]});
        merge(&mut object, &json!({"a": {"b": null, "d": 3}, "l": [{"name": "y"}]}), false);
        assert_eq!(object, json!({"a": {"c": 2, "d": 3}, "l": [{"name": "y"}]}));
    }

    #[test]
    fn a_strategic_patch_merges_lists_by_name() {
        let mut object = json!({"l": [{"name": "x", "v": 1}, {"name": "z"}]});
        let patch = json!({"$setElementOrder/l": [], "l": [{"name": "x", "v": 2}, {"name": "z", "$patch": "delete"}]});
        merge(&mut object, &patch, true);
        assert_eq!(object, json!({"l": [{"name": "x", "v": 2}]}));
    }
}
