//! What a verb prints, and in which form (`-o`).

pub mod checks;
pub mod columns;
pub mod description;
pub mod document;
pub mod table;

use std::str::FromStr;

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// The objects as JSON.
    Json,
    /// The objects as YAML.
    Yaml,
    /// `resource/name`, one a line.
    Name,
}

impl Format {
    /// What `-o` may be.
    pub const CHOICES: [&str; 4] = ["wide", "json", "yaml", "name"];
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            _ => Err(format!("{text:?} is none of {}", Self::CHOICES.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_format_names_the_known_ones() {
        assert_eq!("jsn".parse::<Format>(), Err(r#""jsn" is none of wide, json, yaml, name"#.to_owned()));
        for choice in Format::CHOICES {
            assert!(choice.parse::<Format>().is_ok());
        }
    }
}
