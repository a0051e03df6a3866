//! YAML without loss of meaning: what a file held is written back as every YAML reader saw it.
//!
//! kubectl reads YAML 1.1 (`no` is false, `012` is ten), most other readers 1.2. So a plain scalar
//! that some reader may take for something other than text is kept as it was spelt, and text is
//! quoted wherever a reader might take it for something else. Comments do not survive, as with
//! `kubectl config`; anchors and merge keys are resolved.

use credential_exec::error::{Error, Kind, Result};
use granit_parser::{Event, Parser, ScalarStyle, Tag};
use std::collections::HashMap;

/// How much text aliases may add to a document, in bytes.
const ALIAS_BUDGET: usize = 16 << 20;
const NESTING: usize = 100;
const WORDS: [&str; 11] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", ""];

/// One YAML value. Keys of a map are scalars.
#[derive(Clone, PartialEq)]
#[cfg_attr(test, derive(Debug))]
pub(super) enum Node {
    /// A plain scalar that may be a number, a boolean or null, as it is spelt.
    Plain(String),
    /// Text, whatever it looks like.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<(Node, Node)>),
}

impl Node {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Plain(text) if text == "~" || text.eq_ignore_ascii_case("null"))
    }

    /// The text of a scalar other than null.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Plain(text) | Self::Text(text) if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// The items of a list; a missing list and null have none.
    pub(super) fn items(&self) -> &[Node] {
        if let Self::List(items) = self { items } else { &[] }
    }

    /// The value of a key; the last one counts, as it does for kubectl.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        let Self::Map(pairs) = self else { return None };
        pairs.iter().rev().find(|(k, _)| k.text() == Some(key)).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let Self::Map(pairs) = self else { return None };
        pairs.iter_mut().rev().find(|(k, _)| k.text() == Some(key)).map(|(_, value)| value)
    }

    /// The text under a key; empty when there is none.
    pub(super) fn str(&self, key: &str) -> &str {
        self.get(key).and_then(Node::text).unwrap_or_default()
    }

    /// Replaces the value of a key in its place, or adds the key at the end.
    pub(super) fn set(&mut self, key: &str, value: Node) {
        if let Some(old) = self.get_mut(key) {
            *old = value;
        } else if let Self::Map(pairs) = self {
            pairs.push((key.into(), value));
        }
    }

    fn weight(&self) -> usize {
        16 + match self {
            Self::Plain(text) | Self::Text(text) => text.len(),
            Self::List(items) => items.iter().map(Node::weight).sum(),
            Self::Map(pairs) => pairs.iter().map(|(k, v)| k.weight() + v.weight()).sum(),
        }
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&serde_json::Value> for Node {
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Plain("null".into()),
            Value::Bool(b) => Self::Plain(b.to_string()),
            Value::Number(n) => Self::Plain(n.to_string()),
            Value::String(s) => s.as_str().into(),
            Value::Array(items) => Self::List(items.iter().map(Into::into).collect()),
            Value::Object(map) => Self::Map(map.iter().map(|(k, v)| (k.as_str().into(), v.into())).collect()),
        }
    }
}

enum Open {
    List { items: Vec<Node>, anchor: usize },
    Map { pairs: Vec<(Node, Node)>, merged: Vec<(Node, Node)>, key: Option<Node>, anchor: usize },
}

/// Reads the one document of a text; `None` when it holds none.
pub(super) fn parse(text: &str) -> Result<Option<Node>> {
    let options = granit_parser::options! { flow_nesting_limit: NESTING, block_nesting_limit: NESTING };
    let mut stack: Vec<Open> = Vec::new();
    let mut root = None;
    let mut anchors: HashMap<usize, Node> = HashMap::new();
    let mut budget = ALIAS_BUDGET;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|e| {
            refused(e.marker().line(), format!("{}, column {}", e.info(), e.marker().col() + 1))
        })?;
        let line = span.start.line();
        let (node, anchor) = match event {
            Event::DocumentStart(..) if root.is_some() => {
                return Err(refused(
                    line,
                    "a second YAML document begins here; kubectl reads only the first",
                ));
            }
            Event::Scalar(value, style, anchor, tag) => {
                (scalar(&value, style, tag.as_deref(), line)?, anchor)
            }
            Event::Alias(id) => {
                let node =
                    anchors.get(&id).ok_or_else(|| refused(line, "an alias within its own anchor"))?.clone();
                budget = budget
                    .checked_sub(node.weight())
                    .ok_or_else(|| refused(line, "aliases expand to more than 16 MiB"))?;
                (node, 0)
            }
            Event::SequenceStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), "seq", line)?;
                stack.push(Open::List { items: Vec::new(), anchor });
                continue;
            }
            Event::MappingStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), "map", line)?;
                stack.push(Open::Map { pairs: Vec::new(), merged: Vec::new(), key: None, anchor });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match stack.pop() {
                Some(Open::List { items, anchor }) => (Node::List(items), anchor),
                Some(Open::Map { mut pairs, merged, anchor, .. }) => {
                    merge(&mut pairs, merged);
                    (Node::Map(pairs), anchor)
                }
                None => continue,
            },
            _ => continue,
        };
        if anchor != 0 {
            anchors.insert(anchor, node.clone());
        }
        match stack.last_mut() {
            None => root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { pairs, merged, key, .. }) => match (key.take(), node) {
                (None, node @ (Node::Plain(_) | Node::Text(_))) => *key = Some(node),
                (None, _) => return Err(refused(line, "a key that is not text")),
                (Some(Node::Plain(word)), Node::Map(more)) if word == "<<" => merge(merged, more),
                (Some(Node::Plain(word)), Node::List(maps)) if word == "<<" => {
                    for map in maps {
                        let Node::Map(more) = map else { return Err(refused(line, "`<<` wants a mapping")) };
                        merge(merged, more);
                    }
                }
                (Some(Node::Plain(word)), _) if word == "<<" => {
                    return Err(refused(line, "`<<` wants a mapping"));
                }
                (Some(key), node) => pairs.push((key, node)),
            },
        }
    }
    Ok(root)
}

/// Adds the pairs whose keys are not there yet.
fn merge(into: &mut Vec<(Node, Node)>, from: Vec<(Node, Node)>) {
    for (key, value) in from {
        if !into.iter().any(|(k, _)| *k == key) {
            into.push((key, value));
        }
    }
}

fn scalar(value: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Node> {
    match tag {
        Some(tag) if tag.original() == "!" => Ok(value.into()),
        Some(tag) => match tag.core_suffix() {
            Some("str" | "timestamp") => Ok(value.into()),
            Some("int" | "float" | "bool" | "null") => Ok(plain(value)),
            _ => Err(unknown_tag(tag, line)),
        },
        None if style == ScalarStyle::Plain => Ok(plain(value)),
        None => Ok(value.into()),
    }
}

/// A plain scalar: kept as spelt if a reader may take it for a number, a boolean or null.
fn plain(value: &str) -> Node {
    let number = value.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && value.contains(|c: char| c.is_ascii_digit() || c == '.')
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.+:-".contains(&b))
        && value.contains(|c: char| c.is_ascii_alphanumeric())
        && !value.ends_with(':');
    match value {
        "" | "~" => Node::Plain("null".into()),
        _ if number || is_word(value) || value == "<<" => Node::Plain(value.into()),
        _ => value.into(),
    }
}

fn is_word(text: &str) -> bool {
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

fn collection_tag(tag: Option<&Tag>, expected: &str, line: usize) -> Result<()> {
    match tag {
        Some(tag) if tag.original() != "!" && tag.core_suffix() != Some(expected) => {
            Err(unknown_tag(tag, line))
        }
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &Tag, line: usize) -> Error {
    refused(line, format!("the YAML tag {} has no meaning in a kubeconfig", tag.original()))
}

fn refused(line: usize, why: impl std::fmt::Display) -> Error {
    Error::new(Kind::Usage, format!("line {line}: {why}"))
}

/// Writes a document as block YAML in kubectl's layout.
pub(super) fn write(root: &Node) -> String {
    let mut out = String::new();
    match root {
        Node::Map(pairs) if !pairs.is_empty() => write_map(&mut out, pairs, 0, false),
        Node::List(items) if !items.is_empty() => write_list(&mut out, items, 0, false),
        other => write_leaf(&mut out, other),
    }
    out
}

fn write_map(out: &mut String, pairs: &[(Node, Node)], indent: usize, mut inline: bool) {
    for (key, value) in pairs {
        pad(out, if std::mem::take(&mut inline) { 0 } else { indent });
        write_scalar(out, key);
        out.push(':');
        match value {
            Node::Map(pairs) if !pairs.is_empty() => {
                out.push('\n');
                write_map(out, pairs, indent + 2, false);
            }
            Node::List(items) if !items.is_empty() => {
                out.push('\n');
                write_list(out, items, indent, false);
            }
            leaf => {
                out.push(' ');
                write_leaf(out, leaf);
            }
        }
    }
}

fn write_list(out: &mut String, items: &[Node], indent: usize, mut inline: bool) {
    for item in items {
        pad(out, if std::mem::take(&mut inline) { 0 } else { indent });
        out.push_str("- ");
        match item {
            Node::Map(pairs) if !pairs.is_empty() => write_map(out, pairs, indent + 2, true),
            Node::List(items) if !items.is_empty() => write_list(out, items, indent + 2, true),
            leaf => write_leaf(out, leaf),
        }
    }
}

fn write_leaf(out: &mut String, node: &Node) {
    match node {
        Node::Map(_) => out.push_str("{}"),
        Node::List(_) => out.push_str("[]"),
        scalar => write_scalar(out, scalar),
    }
    out.push('\n');
}

fn write_scalar(out: &mut String, node: &Node) {
    match node {
        Node::Plain(text) => out.push_str(text),
        Node::Text(text) if is_bare(text) => out.push_str(text),
        Node::Text(text) => quote(out, text),
        Node::List(_) | Node::Map(_) => {}
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Whether every reader takes this for text without quotes.
fn is_bare(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./@+=:-".contains(&b))
        && !text.ends_with(':')
        && !is_word(text)
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' => {
                out.push(c)
            }
            '\u{10000}'.. => out.push(c),
            other => out.push_str(&format!("\\u{:04x}", u32::from(other))),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn read(text: &str) -> Node {
        parse(text).unwrap().unwrap()
    }

    fn value_of(text: &str) -> Node {
        read(&format!("key: {text}\n")).get("key").unwrap().clone()
    }

    #[test]
    fn text_that_yaml_1_1_takes_for_something_else_is_quoted() {
        let traps = [
            "y",
            "Y",
            "n",
            "N",
            "yes",
            "Yes",
            "YES",
            "no",
            "No",
            "NO",
            "on",
            "On",
            "ON",
            "off",
            "Off",
            "OFF",
            "true",
            "True",
            "TRUE",
            "false",
            "null",
            "Null",
            "NULL",
            "~",
            "",
            "=",
            "<<",
            "1e3",
            "1E3",
            "0o7",
            "012",
            "0x1F",
            "0b1",
            "1_000",
            "190:20:30",
            "2001-01-01",
            "2001-12-14t21:59:43.10-05:00",
            ".5",
            "5.",
            "+1",
            "-1",
            ".inf",
            "-.Inf",
            ".nan",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "#a",
            "a #b",
            "a: b",
            "a:",
            "- a",
            "-",
            "--- a",
            "...",
            "? a",
            "| a",
            "> a",
            "[a",
            "{a",
            "]",
            "}",
            ",",
            "'a'",
            "\"a\"",
            " a",
            "a ",
            "a\nb",
            "a\tb",
            "\u{85}",
            "\u{2028}",
            "\u{feff}",
            "\u{7f}",
            "\u{fffe}",
            "é",
            "10.0.0.1",
            "1",
        ];
        for trap in traps {
            for shape in [json!({"key": trap}), json!({trap: "v"}), json!([trap])] {
                let text = write(&Node::from(&shape));
                assert!(text.contains('"'), "{trap:?} is bare in {text}");
                assert_eq!(read(&text), Node::from(&shape), "{text}");
            }
        }
    }

    #[test]
    fn ordinary_names_addresses_and_base64_need_no_quotes() {
        for text in [
            "cluster1@hub",
            "https://spoke.example:6443/a",
            "LS0tLS1CRUdJTg==",
            "/usr/local/bin/x",
            "a-b_c.d",
        ] {
            assert_eq!(write(&Node::from(&json!({ "key": text }))), format!("key: {text}\n"));
        }
    }

    #[test]
    fn what_may_be_a_number_or_a_boolean_stays_as_it_is_spelt() {
        for text in
            ["no", "On", "012", "0o7", "1_000", "1e3", "12345678901234567890123", "0x1F", ".inf", "190:20:30"]
        {
            assert_eq!(write(&read(&format!("key: {text}\n"))), format!("key: {text}\n"));
        }
        assert_eq!(write(&read("key:\n")), "key: null\n");
        assert_eq!(write(&read("key: ~\n")), "key: null\n");
        assert_eq!(write(&read("key: 'no'\n")), "key: \"no\"\n");
    }

    #[test]
    fn tags_of_the_core_schema_keep_their_meaning_and_others_are_refused() {
        assert_eq!(value_of("!!str 12"), Node::Text("12".into()));
        assert_eq!(value_of("! 12"), Node::Text("12".into()));
        assert_eq!(value_of("!!int '12'"), Node::Plain("12".into()));
        for text in ["!!binary aGk=", "!mine x", "!mine [x]", "!!set {a}"] {
            assert!(parse(&format!("key: {text}\n")).is_err(), "{text}");
        }
    }

    #[test]
    fn anchors_and_merge_keys_are_resolved() {
        let node = read("a: &a {x: 1, y: 2}\nb: *a\nc:\n  x: 3\n  <<: *a\nd:\n  <<: [{z: 1}, *a]\n  y: 4\n");
        let expected = "a:\n  x: 1\n  \"y\": 2\nb:\n  x: 1\n  \"y\": 2\nc:\n  x: 3\n  \"y\": 2\nd:\n  \"y\": 4\n  z: 1\n  x: 1\n";
        assert_eq!(write(&node).replace("\"y\"", "y"), expected.replace("\"y\"", "y"));
    }

    #[test]
    fn hostile_documents_are_refused_and_not_followed() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..12 {
            let row = vec![format!("*a{}", i - 1); 10].join(",");
            bomb.push_str(&format!("a{i}: &a{i} [{row}]\n"));
        }
        for text in [
            bomb,
            "[".repeat(100_000),
            "a: &a [*a]\n".into(),
            "a: 1\n---\nb: 2\n".into(),
            "? [a]\n: b\n".into(),
        ] {
            let error = parse(&text).expect_err("a refusal");
            assert!(error.cause.starts_with("line "), "{error}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            ".*",
            "[-+.0-9eExob_:~=<]{0,6}",
            "[ \n\t#:'\"\\[\\]{},&*!|>%@`?-]{0,5}",
            "(?s).{0,200}"
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e300..1e300f64).prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((".{0,20}", inner), 0..6)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(value in any_value()) {
            let node = Node::from(&value);
            let text = write(&node);
            prop_assert_eq!(parse(&text).unwrap().unwrap(), node, "{}", text);
        }

        #[test]
        fn another_reader_sees_the_same(value in any_value()) {
            let text = write(&Node::from(&json!({ "key": value })));
            let seen: Value = serde_saphyr::from_str(&text).unwrap();
            prop_assert_eq!(&seen["key"], &value, "{}", text);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "(?s)[-a-z0 \n:\\[\\]{},&*!|>'\"#?<]{0,60}") {
            if let Ok(Some(node)) = parse(&text) {
                let once = write(&node);
                prop_assert_eq!(parse(&once).unwrap().unwrap(), node, "{}", once);
            }
        }
    }
}
