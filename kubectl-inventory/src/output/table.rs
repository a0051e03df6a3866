//! Clusters as a table in kubectl's look: left-aligned columns three spaces apart, upper-case
//! headers, nothing after the last cell.
//!
//! A row becomes text as soon as it is pushed and all text lies in one string, so that a large
//! fleet costs little more memory than what is printed.

use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use credential_exec::error::printable;
use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

use crate::inventory::cluster_profile::CLUSTER_ID;
use crate::inventory::managed_cluster::CLUSTER_ID_CLAIM;
use crate::inventory::{Cluster, Origin, Verdict};

const GAP: usize = 3;
const NONE: &str = "<none>";
/// No cell is wider: one hostile value must not widen ten thousand rows. Names are never longer.
const WIDEST: usize = 253;

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    Namespace,
    Healthy,
    Accepted,
    Joined,
    Available,
    Phase,
    Ready,
    Version,
    Platform,
    ControlPlane,
    Clusterset,
    Manager,
    Age,
    DisplayName,
    ClusterId,
    Providers,
}

/// The columns for this kind of inventory.
fn columns(of: Origin, wide: bool) -> Vec<Column> {
    use Column::*;
    let mut columns = match of {
        Origin::ClusterProfile => vec![Name, Namespace, Healthy, Joined, Version, Clusterset, Manager, Age],
        Origin::ManagedCluster => vec![Name, Accepted, Joined, Available, Version, Clusterset, Age],
        Origin::Capi(_) => vec![Name, Namespace, Phase, Ready, Version, Platform, ControlPlane, Age],
    };
    match of {
        Origin::ClusterProfile if wide => columns.extend([DisplayName, ClusterId, Providers]),
        Origin::ManagedCluster if wide => columns.push(ClusterId),
        _ => {}
    }
    columns
}

impl Column {
    fn header(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Namespace => "NAMESPACE",
            Self::Healthy => "HEALTHY",
            Self::Accepted => "ACCEPTED",
            Self::Available => "AVAILABLE",
            Self::Phase => "PHASE",
            Self::Ready => "READY",
            Self::Platform => "PLATFORM",
            Self::ControlPlane => "CONTROL PLANE",
            Self::ClusterId => "CLUSTER ID",
            Self::Joined => "JOINED",
            Self::Version => "VERSION",
            Self::Clusterset => "CLUSTERSET",
            Self::Manager => "MANAGER",
            Self::Age => "AGE",
            Self::DisplayName => "DISPLAY NAME",
            Self::Providers => "PROVIDERS",
        }
    }

    fn text(self, cluster: &Cluster, now: Timestamp) -> String {
        let verdict = |verdict: Option<Verdict>| verdict.map_or(NONE, Verdict::as_str).to_owned();
        let text = |text: &Option<String>| text.as_deref().unwrap_or(NONE).to_owned();
        match self {
            Self::Name => cluster.name.clone(),
            Self::Namespace => cluster.namespace.clone(),
            Self::Healthy | Self::Available | Self::Ready => verdict(cluster.healthy),
            Self::Accepted => verdict(cluster.accepted),
            Self::Phase => text(&cluster.phase),
            Self::Platform => text(&cluster.platform),
            Self::ControlPlane => text(&cluster.control_plane),
            Self::ClusterId => {
                let id = cluster.property(CLUSTER_ID).or_else(|| cluster.property(CLUSTER_ID_CLAIM));
                id.unwrap_or(NONE).to_owned()
            }
            Self::Joined => verdict(cluster.joined),
            Self::Version => text(&cluster.version),
            Self::Clusterset => text(&cluster.clusterset),
            Self::Manager => text(&cluster.manager),
            Self::Age => cluster.created.map_or_else(|| "<unknown>".to_owned(), |created| age(created, now)),
            Self::DisplayName => text(&cluster.display_name),
            Self::Providers if cluster.providers.is_empty() => NONE.to_owned(),
            Self::Providers => cluster.providers.join(","),
        }
    }

    fn style(self, text: &str) -> Option<Style> {
        if !matches!(self, Self::Healthy | Self::Accepted | Self::Joined | Self::Available | Self::Ready) {
            return None;
        }
        let color = match text {
            "True" => AnsiColor::Green,
            "False" => AnsiColor::Red,
            "Unknown" => AnsiColor::Yellow,
            _ => return None,
        };
        Some(color.on_default())
    }
}

/// How a table is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Show the namespaces even where all rows share one.
    pub namespaces: bool,
    /// Leave the headers out.
    pub no_headers: bool,
    /// Colour what is well and what is not.
    pub color: bool,
}

/// Clusters as rows of text.
pub struct Table {
    now: Timestamp,
    columns: Vec<Column>,
    widths: Vec<usize>,
    text: String,
    /// Where in `text` each cell ends, row by row.
    ends: Vec<usize>,
    namespace: Option<String>,
    several_namespaces: bool,
}

impl Table {
    /// An empty table of this kind of inventory; ages count up to `now`.
    pub fn new(of: Origin, wide: bool, now: Timestamp) -> Self {
        let columns = columns(of, wide);
        let widths = columns.iter().map(|column| column.header().len()).collect();
        Self {
            now,
            columns,
            widths,
            text: String::new(),
            ends: Vec::new(),
            namespace: None,
            several_namespaces: false,
        }
    }

    /// Adds a row.
    pub fn push(&mut self, cluster: &Cluster) {
        for (column, width) in self.columns.iter().zip(&mut self.widths) {
            let text = cell(&column.text(cluster, self.now));
            *width = (*width).max(text.width());
            self.text.push_str(&text);
            self.ends.push(self.text.len());
        }
        match &self.namespace {
            Some(known) => self.several_namespaces |= *known != cluster.namespace,
            None => self.namespace = Some(cluster.namespace.clone()),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Prints the table; nothing where there is no row.
    pub fn print(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        if !look.no_headers {
            let mut headers = self.columns.iter().map(|column| column.header());
            self.line(look, &mut headers, false, out)?;
        }
        let mut start = 0;
        let mut cells = self.ends.iter().map(|&end| &self.text[std::mem::replace(&mut start, end)..end]);
        for _ in 0..self.ends.len() / self.columns.len() {
            self.line(look, &mut cells, look.color, out)?;
        }
        Ok(())
    }

    fn line(
        &self,
        look: Look,
        cells: &mut dyn Iterator<Item = &str>,
        color: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let namespaces = look.namespaces || self.several_namespaces;
        let mut line = String::new();
        let mut pad = 0;
        for ((&column, &width), text) in self.columns.iter().zip(&self.widths).zip(cells) {
            if column == Column::Namespace && !namespaces {
                continue;
            }
            line.extend(std::iter::repeat_n(' ', pad));
            pad = width - text.width() + GAP;
            match column.style(text).filter(|_| color) {
                Some(style) => _ = write!(line, "{style}{text}{style:#}"),
                None => line.push_str(text),
            }
        }
        line.push('\n');
        out.write_all(line.as_bytes())
    }
}

/// A cell's text: safe for a terminal, never empty, never endless.
fn cell(text: &str) -> String {
    if text.is_empty() {
        return NONE.to_owned();
    }
    match text.char_indices().nth(WIDEST) {
        Some((cut, _)) => format!("{}…", printable(&text[..cut])),
        None => printable(text),
    }
}

/// How long ago something was, in kubectl's words: `119s`, `3m2s`, `3d4h`, `2y30d`.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;

    fn two(seconds: i64, unit: (i64, char), smaller: (i64, char)) -> String {
        let (whole, rest) = (seconds / unit.0, seconds % unit.0 / smaller.0);
        if rest == 0 { format!("{whole}{}", unit.1) } else { format!("{whole}{}{rest}{}", unit.1, smaller.1) }
    }

    let seconds = now.as_second() - then.as_second();
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds, (MINUTE, 'm'), (1, 's')),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds, (DAY, 'd'), (HOUR, 'h')),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds, (YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-06-01T12:00:00Z".parse().expect("a time")
    }

    fn cluster1() -> Cluster {
        Cluster {
            name: "cluster1".into(),
            namespace: "cluster-inventory".into(),
            created: "2026-05-29T08:00:00Z".parse().ok(),
            display_name: Some("Berlin".into()),
            manager: Some("open-cluster-management".into()),
            clusterset: Some("prod".into()),
            version: Some("v1.34.1".into()),
            healthy: Some(Verdict::Yes),
            joined: Some(Verdict::No),
            providers: vec!["open-cluster-management".into(), "google".into()],
            ..Cluster::default()
        }
    }

    fn bare() -> Cluster {
        Cluster {
            name: "a-cluster-that-says-little".into(),
            namespace: "cluster-inventory".into(),
            healthy: Some(Verdict::Unknown),
            ..Cluster::default()
        }
    }

    fn print(clusters: &[Cluster], wide: bool, look: Look) -> String {
        let mut table = Table::new(Origin::ClusterProfile, wide, now());
        clusters.iter().for_each(|cluster| table.push(cluster));
        let mut out = Vec::new();
        table.print(look, &mut out).expect("printed");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn the_default_table_looks_like_kubectls() {
        insta::assert_snapshot!(print(&[cluster1(), bare()], false, Look::default()), @r#"
        NAME                         HEALTHY   JOINED   VERSION   CLUSTERSET   MANAGER                   AGE
        cluster1                     True      False    v1.34.1   prod         open-cluster-management   3d4h
        a-cluster-that-says-little   Unknown   <none>   <none>    <none>       <none>                    <unknown>
        "#);
    }

    #[test]
    fn the_wide_table_adds_columns_at_the_end() {
        insta::assert_snapshot!(print(&[cluster1(), bare()], true, Look::default()), @r#"
        NAME                         HEALTHY   JOINED   VERSION   CLUSTERSET   MANAGER                   AGE         DISPLAY NAME   CLUSTER ID   PROVIDERS
        cluster1                     True      False    v1.34.1   prod         open-cluster-management   3d4h        Berlin         <none>       open-cluster-management,google
        a-cluster-that-says-little   Unknown   <none>   <none>    <none>       <none>                    <unknown>   <none>         <none>       <none>
        "#);
    }

    #[test]
    fn namespaces_show_when_asked_for_or_when_there_are_several() {
        let elsewhere = Cluster { namespace: "team-a".into(), ..cluster1() };
        insta::assert_snapshot!(print(&[cluster1(), elsewhere], false, Look::default()), @r#"
        NAME       NAMESPACE           HEALTHY   JOINED   VERSION   CLUSTERSET   MANAGER                   AGE
        cluster1   cluster-inventory   True      False    v1.34.1   prod         open-cluster-management   3d4h
        cluster1   team-a              True      False    v1.34.1   prod         open-cluster-management   3d4h
        "#);
        let asked = print(&[cluster1()], false, Look { namespaces: true, ..Look::default() });
        assert!(asked.starts_with("NAME       NAMESPACE           HEALTHY"), "{asked}");
    }

    #[test]
    fn headers_can_be_left_out_and_no_row_prints_nothing() {
        let look = Look { no_headers: true, ..Look::default() };
        assert!(print(&[cluster1()], false, look).starts_with("cluster1   True"));
        assert_eq!(print(&[], true, Look::default()), "");
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let plain = print(&[cluster1(), bare()], true, Look::default());
        let colored = print(&[cluster1(), bare()], true, Look { color: true, ..Look::default() });
        assert!(colored.contains("\u{1b}[32mTrue\u{1b}[0m") && colored.contains("\u{1b}[31mFalse\u{1b}[0m"));
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), plain);
    }

    #[test]
    fn hostile_text_neither_reaches_the_terminal_nor_widens_the_table() {
        let hostile = Cluster {
            name: "evil\u{1b}[2J\nroot".into(),
            version: Some("v".repeat(1 << 20)),
            clusterset: Some(String::new()),
            ..cluster1()
        };
        let table = print(&[hostile, cluster1()], false, Look::default());
        assert!(!table.contains('\u{1b}'), "{table:?}");
        assert_eq!(table.lines().count(), 3);
        assert!(table.contains("<none>") && table.len() < 2000);
    }

    #[test]
    fn columns_line_up_under_wide_characters() {
        let wide = Cluster { clusterset: Some("東京".into()), ..cluster1() };
        let table = print(&[wide, cluster1()], false, Look::default());
        let columns: Vec<_> =
            table.lines().map(|line| line.split("open-").next().unwrap_or("").width()).collect();
        assert_eq!(columns[1], columns[2], "{table}");
    }

    #[test]
    fn ages_are_worded_as_kubectl_words_them() {
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_799, "7h59m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (273_600, "3d4h"),
            (691_199, "7d23h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (65_664_000, "2y30d"),
            (252_288_000, "8y"),
            (999_999_999, "31y"),
        ];
        for (seconds, words) in cases {
            let then = Timestamp::from_second(now().as_second() - seconds).expect("a time");
            assert_eq!(age(then, now()), words, "{seconds} s");
        }
    }
}
