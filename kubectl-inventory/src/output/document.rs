//! Objects as one JSON or YAML document, in kubectl's form. Objects are printed as the hub sent
//! them, without their managedFields; a list is written object by object.

use std::io::{self, Write};

use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::value::RawValue;

/// The notation of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// JSON, indented by four spaces.
    Json,
    /// YAML.
    Yaml,
}

/// Prints one object.
pub fn object(syntax: Syntax, raw: &RawValue, out: &mut dyn Write) -> io::Result<()> {
    let mut text = render(syntax, raw)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    out.write_all(text.as_bytes())
}

/// Prints objects of our own making one after the other, as kubectl reads them.
pub fn several(syntax: Syntax, objects: &[Value], out: &mut dyn Write) -> io::Result<()> {
    for (number, object) in objects.iter().enumerate() {
        let between = if number > 0 && syntax == Syntax::Yaml { "---\n" } else { "" };
        writeln!(out, "{between}{}", written(syntax, object)?.trim_end_matches('\n'))?;
    }
    Ok(())
}

/// A `v1` List in the writing: nothing is written before its first object, or its end.
#[derive(Debug)]
pub struct List {
    syntax: Syntax,
    empty: bool,
}

impl List {
    /// A list without objects yet.
    pub fn new(syntax: Syntax) -> Self {
        Self { syntax, empty: true }
    }

    /// Writes the next object.
    pub fn push(&mut self, raw: &RawValue, out: &mut dyn Write) -> io::Result<()> {
        let text = render(self.syntax, raw)?;
        let first = std::mem::replace(&mut self.empty, false);
        match self.syntax {
            Syntax::Json => {
                let before = if first { "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n" } else { ",\n" };
                write!(out, "{before}{}", indented(&text, "        ", "        "))
            }
            Syntax::Yaml => {
                let before = if first { "apiVersion: v1\nitems:\n" } else { "" };
                writeln!(out, "{before}{}", indented(text.trim_end_matches('\n'), "- ", "  "))
            }
        }
    }

    /// Writes what comes after the last object.
    pub fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        let text = match (self.syntax, self.empty) {
            (Syntax::Json, true) => concat!(
                "{\n    \"apiVersion\": \"v1\",\n    \"items\": [],\n    \"kind\": \"List\",\n",
                "    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
            ),
            (Syntax::Json, false) => concat!(
                "\n    ],\n    \"kind\": \"List\",\n",
                "    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n"
            ),
            (Syntax::Yaml, true) => {
                "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"
            }
            (Syntax::Yaml, false) => "kind: List\nmetadata:\n  resourceVersion: \"\"\n",
        };
        out.write_all(text.as_bytes())
    }
}

fn render(syntax: Syntax, raw: &RawValue) -> io::Result<String> {
    let mut object: Value = serde_json::from_str(raw.get())?;
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
    written(syntax, &object)
}

fn written(syntax: Syntax, object: &Value) -> io::Result<String> {
    match syntax {
        Syntax::Json => {
            let mut text = Vec::with_capacity(4096);
            let pretty = PrettyFormatter::with_indent(b"    ");
            serde::Serialize::serialize(object, &mut Serializer::with_formatter(&mut text, pretty))?;
            String::from_utf8(text).map_err(io::Error::other)
        }
        // Block scalars would fold long lines; quoted ones survive any indentation.
        Syntax::Yaml => {
            let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
            serde_saphyr::to_string_with_options(object, options).map_err(io::Error::other)
        }
    }
}

fn indented(text: &str, first: &str, rest: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3 / 2);
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        out.push_str(if number == 0 { first } else { rest });
        out.push_str(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("JSON")
    }

    fn list(syntax: Syntax, objects: &[&str]) -> String {
        let (mut list, mut out) = (List::new(syntax), Vec::new());
        for object in objects {
            list.push(&raw(object), &mut out).expect("written");
        }
        list.finish(&mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    const A: &str = r#"{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"ClusterProfile",
        "metadata":{"managedFields":[{"manager":"x"}],"name":"a","uid":"u"},"spec":{"list":[],"none":null,"n":1.5},
        "status":{"text":"\u001b[31m\nline \"two\"","on":"yes","number":"0123"}}"#;

    #[test]
    fn a_json_list_has_kubectls_form() {
        insta::assert_snapshot!(list(Syntax::Json, &[A, r#"{"metadata":{"name":"b"}}"#]), @r#"
        {
            "apiVersion": "v1",
            "items": [
                {
                    "apiVersion": "multicluster.x-k8s.io/v1alpha1",
                    "kind": "ClusterProfile",
                    "metadata": {
                        "name": "a",
                        "uid": "u"
                    },
                    "spec": {
                        "list": [],
                        "none": null,
                        "n": 1.5
                    },
                    "status": {
                        "text": "\u001b[31m\nline \"two\"",
                        "on": "yes",
                        "number": "0123"
                    }
                },
                {
                    "metadata": {
                        "name": "b"
                    }
                }
            ],
            "kind": "List",
            "metadata": {
                "resourceVersion": ""
            }
        }
        "#);
    }

    #[test]
    fn a_yaml_list_has_kubectls_form() {
        insta::assert_snapshot!(list(Syntax::Yaml, &[A, r#"{"metadata":{"name":"b"}}"#]), @r#"
        apiVersion: v1
        items:
        - apiVersion: multicluster.x-k8s.io/v1alpha1
          kind: ClusterProfile
          metadata:
            name: a
            uid: u
          spec:
            list: []
            none: null
            "n": 1.5
          status:
            text: "\e[31m\nline \"two\""
            "on": "yes"
            number: "0123"
        - metadata:
            name: b
        kind: List
        metadata:
          resourceVersion: ""
        "#);
    }

    #[test]
    fn an_empty_list_is_a_document_too() {
        let json: Value = serde_json::from_str(&list(Syntax::Json, &[])).expect("JSON");
        let yaml: Value = serde_saphyr::from_str(&list(Syntax::Yaml, &[])).expect("YAML");
        assert_eq!(json, yaml);
        assert_eq!(
            json,
            serde_json::json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": []})
        );
    }

    #[test]
    fn one_object_is_printed_by_itself() {
        let mut out = Vec::new();
        object(Syntax::Json, &raw(r#"{"kind":"X","metadata":{"name":"a","managedFields":[]}}"#), &mut out)
            .expect("written");
        let json = "{\n    \"kind\": \"X\",\n    \"metadata\": {\n        \"name\": \"a\"\n    }\n}\n";
        assert_eq!(String::from_utf8_lossy(&out), json);
    }

    proptest::proptest! {
        #[test]
        fn any_text_survives_both_notations(texts in proptest::collection::vec("(?s).{0,100}", 1..4), key in "[ -~]{1,20}") {
            let object = serde_json::json!({"metadata": {"name": "a"}, "spec": {key: texts}});
            let written = object.to_string();
            let expected = serde_json::json!({"apiVersion": "v1", "items": [&object, &object], "kind": "List", "metadata": {"resourceVersion": ""}});
            let json: Value = serde_json::from_str(&list(Syntax::Json, &[&written, &written])).expect("JSON");
            proptest::prop_assert_eq!(&json, &expected);
            let yaml: Value = serde_saphyr::from_str(&list(Syntax::Yaml, &[&written, &written])).expect("YAML");
            proptest::prop_assert_eq!(&yaml, &expected);
        }
    }
}
