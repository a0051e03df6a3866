//! The content of a kubeconfig and the edits on it. Pure: text in, text out.

use super::entry::{Change, EXTENSION, Entry, Mark, Update, extension, set_extension};
use super::yaml::{self, Node};
use crate::inventory::cluster_profile::PLUGIN_EXTENSION;
use credential_exec::error::{Error, Kind, Result};
use std::collections::{HashMap, HashSet};

/// A kubeconfig. Order, unknown fields and other people's entries survive every edit.
#[derive(Clone)]
#[cfg_attr(test, derive(Debug))]
pub struct Document {
    root: Node,
    index: Index,
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root
    }
}

/// Where things stand in the lists, so that an edit of many entries looks at each but once.
#[derive(Clone, Default)]
#[cfg_attr(test, derive(Debug))]
struct Index {
    /// For each list the first item of a name.
    names: [HashMap<String, usize>; 3],
    /// Our contexts, by what their mark calls the profile.
    ours: HashMap<String, Vec<usize>>,
}

impl Index {
    fn of(root: &Node) -> Self {
        let mut index = Self::default();
        for list in List::ALL {
            for (at, item) in root.get(list.key()).map(Node::items).unwrap_or_default().iter().enumerate() {
                index.add(list, at, item);
            }
        }
        index
    }

    fn add(&mut self, list: List, at: usize, item: &Node) {
        self.names[list as usize].entry(item.str("name").to_owned()).or_insert(at);
        if list == List::Contexts
            && let Some(mark) = item.get(list.item()).and_then(Mark::of)
        {
            self.ours.entry(mark.profile).or_default().push(at);
        }
    }

    /// Forgets to whom the context at this place belonged.
    fn forget_owner(&mut self, at: usize, item: &Node) {
        if let Some(mark) = item.get(List::Contexts.item()).and_then(Mark::of)
            && let Some(places) = self.ours.get_mut(&mark.profile)
        {
            places.retain(|place| *place != at);
        }
    }
}

/// One of our contexts in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// Name of the context.
    pub context: String,
    /// Where it comes from.
    pub mark: Mark,
    /// Server of its cluster.
    pub server: String,
    /// `certificate-authority-data` of its cluster.
    pub ca: String,
}

/// What stands in the file for a context.
struct Standing {
    server: String,
    ca: String,
    mark: Option<Mark>,
}

/// The three lists of a kubeconfig.
#[derive(Clone, Copy, PartialEq)]
enum List {
    Clusters,
    Users,
    Contexts,
}

impl List {
    const ALL: [Self; 3] = [Self::Clusters, Self::Users, Self::Contexts];

    fn key(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Users => "users",
            Self::Contexts => "contexts",
        }
    }

    /// The key of an item's content, which is also what a person calls it.
    fn item(self) -> &'static str {
        match self {
            Self::Clusters => "cluster",
            Self::Users => "user",
            Self::Contexts => "context",
        }
    }
}

impl Document {
    /// A kubeconfig without entries.
    pub fn empty() -> Self {
        let root = Node::Map(vec![("apiVersion".into(), "v1".into()), ("kind".into(), "Config".into())]);
        Self { root, index: Index::default() }
    }

    /// Reads a kubeconfig in YAML or JSON; an empty text is an empty kubeconfig.
    pub fn parse(text: &str) -> Result<Self> {
        let root = match yaml::parse(text)? {
            None => return Ok(Self::empty()),
            Some(node) if node.is_null() || node == Node::Map(Vec::new()) => return Ok(Self::empty()),
            Some(root @ Node::Map(_)) => root,
            Some(_) => return Err(invalid("not a mapping")),
        };
        for (key, expected) in [("apiVersion", "v1"), ("kind", "Config")] {
            let found = root.str(key);
            if !found.is_empty() && found != expected {
                return Err(invalid(format!("{key} is {found:?}, not {expected}")));
            }
        }
        for list in List::ALL {
            if root.get(list.key()).is_some_and(|node| !node.is_null() && !matches!(node, Node::List(_))) {
                return Err(invalid(format!("`{}` is not a list", list.key())));
            }
        }
        let index = Index::of(&root);
        Ok(Self { root, index })
    }

    /// The file's text. The same content always gives the same bytes, which every reader of YAML
    /// 1.1 and 1.2 understands alike.
    pub fn to_yaml(&self) -> String {
        yaml::write(&self.root)
    }

    /// Puts an entry: in the place of ours with the same names, else at the end. What stands there
    /// is replaced whole, except the context's namespace and other tools' extensions. An entry that
    /// is not ours is replaced only by `force`.
    pub fn put(&mut self, entry: &Entry, force: bool) -> Result<Change> {
        let names = [entry.cluster_name.as_str(), &entry.user_name, &entry.context];
        let written = |list: List| list != List::Users || entry.user.is_some();
        let foreign = List::ALL
            .into_iter()
            .zip(names)
            .find(|(list, name)| written(*list) && self.is_foreign(*list, name));
        if let Some((list, name)) = foreign.filter(|_| !force) {
            let cause =
                format!("{} {name:?} is in the kubeconfig and was not written by this plugin", list.item());
            return Err(Error::new(Kind::Usage, cause)
                .remedy("choose another name with --context-name NAME, or replace the entry with --force"));
        }
        let old = self.body(List::Contexts, &entry.context);
        let other = old.and_then(Mark::of).filter(|mark| !mark.is_same_cluster(&entry.mark));
        if let Some(other) = other.as_ref().filter(|_| !force) {
            let cause = format!(
                "context {:?} is that of {} of hub {}",
                entry.context, other.profile, other.hub_context
            );
            return Err(Error::new(Kind::Usage, cause)
                .remedy("choose another name with --context-name NAME, or replace the entry with --force"));
        }
        let old = old.filter(|_| other.is_none());
        let before = old.map(|context| self.standing(context));
        let namespace =
            match old.filter(|body| Mark::of(body).is_some()).and_then(|body| body.get("namespace")) {
                Some(kept) => Some(kept.clone()),
                None => entry.namespace.as_deref().map(Node::from),
            };
        let mut context = vec![("cluster".into(), names[0].into())];
        context.extend(namespace.map(|namespace| ("namespace".into(), namespace)));
        context.push(("user".into(), names[1].into()));
        let user_before = old.map(|body| body.str("user").to_owned());
        let bodies =
            [Some(Node::from(&entry.cluster)), entry.user.as_ref().map(Node::from), Some(Node::Map(context))];
        let mut changed = false;
        for ((list, name), body) in List::ALL.into_iter().zip(names).zip(bodies) {
            if let Some(body) = body {
                changed |= self.put_item(list, name, body, &entry.mark);
            }
        }
        if let Some(user) = user_before.filter(|user| *user != entry.user_name) {
            self.remove_orphan(List::Users, &user);
        }
        Ok(match before {
            None => Change::Added,
            Some(_) if !changed => Change::Unchanged,
            Some(old) => {
                let differs = |key: &str, old: String| {
                    let new = entry.cluster.get(key).and_then(|value| value.as_str()).unwrap_or_default();
                    (old != new).then(|| (old, new.to_owned()))
                };
                Change::Updated(Box::new(Update {
                    server: differs("server", old.server),
                    ca: differs("certificate-authority-data", old.ca),
                    was: old.mark.filter(|mark| !mark.is_same_entry(&entry.mark)),
                }))
            }
        })
    }

    /// Whether putting this entry would lead a context of ours to another server, or another CA: what changes, in
    /// words.
    pub fn moves(&self, entry: &Entry) -> Option<String> {
        let old = self.standing(self.body(List::Contexts, &entry.context)?);
        old.mark?;
        let new = |key: &str| entry.cluster.get(key).and_then(|value| value.as_str()).unwrap_or_default();
        if old.server != new("server") {
            return Some(format!("server {} → {}", old.server, new("server")));
        }
        (old.ca != new("certificate-authority-data")).then(|| "CA".to_owned())
    }

    /// Puts one item and tells whether the file is different now.
    fn put_item(&mut self, list: List, name: &str, mut body: Node, mark: &Mark) -> bool {
        let old = self.body(list, name).filter(|body| Mark::of(body).is_some());
        if let Some(mut kept) = old.and_then(|body| body.get("extensions")).cloned() {
            // What plugins are told about the cluster is ours to say, in an entry of ours.
            if let Node::List(items) = &mut kept {
                items.retain(|item| item.str("name") != PLUGIN_EXTENSION);
            }
            let own = body.get("extensions").cloned();
            body.set("extensions", kept);
            for item in own.iter().flat_map(Node::items) {
                if let Some(content) = item.get("extension") {
                    set_extension(&mut body, item.str("name"), content.clone());
                }
            }
        }
        set_extension(&mut body, EXTENSION, mark.node());
        let item = Node::Map(vec![(list.item().into(), body), ("name".into(), name.into())]);
        match self.position(list, name) {
            Some(at) if self.items(list)[at] == item => return false,
            Some(at) => {
                let old = std::mem::replace(&mut self.items_mut(list)[at], item.clone());
                if list == List::Contexts {
                    self.index.forget_owner(at, &old);
                }
                self.index.add(list, at, &item);
            }
            None => {
                self.index.add(list, self.items(list).len(), &item);
                self.items_mut(list).push(item);
            }
        }
        true
    }

    /// Removes contexts of ours, with the clusters and users that no other context needs. Answers the one
    /// among them that was the current one.
    pub fn remove_all(&mut self, contexts: &HashSet<String>) -> Option<String> {
        let is_ours =
            |item: &Node, list: List| item.get(list.item()).is_some_and(|body| Mark::of(body).is_some());
        let goes = |item: &Node| contexts.contains(item.str("name")) && is_ours(item, List::Contexts);
        if !self.items(List::Contexts).iter().any(goes) {
            return None;
        }
        let mut needless: [HashSet<String>; 2] = Default::default();
        for item in self.items(List::Contexts).iter().filter(|item| goes(item)) {
            for (list, names) in [List::Clusters, List::Users].into_iter().zip(&mut needless) {
                names.extend(item.get("context").map(|body| body.str(list.item()).to_owned()));
            }
        }
        self.items_mut(List::Contexts).retain(|item| !goes(item));
        for (list, mut names) in [List::Clusters, List::Users].into_iter().zip(needless) {
            for item in self.items(List::Contexts) {
                names.remove(item.get("context").map_or("", |body| body.str(list.item())));
            }
            self.items_mut(list).retain(|item| !(names.contains(item.str("name")) && is_ours(item, list)));
        }
        self.index = Index::of(&self.root);
        let current =
            self.current_context().filter(|name| contexts.contains(*name) && !self.has_context(name));
        let current = current.map(str::to_owned);
        if current.is_some() {
            self.root.set("current-context", "".into());
        }
        if self.previous().is_some_and(|name| contexts.contains(name))
            && let Some(Node::List(items)) = self.root.get_mut("extensions")
        {
            items.retain(|item| item.str("name") != EXTENSION);
        }
        current
    }

    /// Removes a cluster or user of ours that no context needs.
    fn remove_orphan(&mut self, list: List, name: &str) {
        let contexts = self.items(List::Contexts).iter().filter_map(|item| item.get("context"));
        let orphan = !contexts.into_iter().any(|other| other.str(list.item()) == name);
        if orphan && self.body(list, name).is_some_and(|body| Mark::of(body).is_some()) {
            self.items_mut(list).retain(|item| item.str("name") != name);
            self.index = Index::of(&self.root);
        }
    }

    /// Our contexts, in the file's order.
    pub fn ours(&self) -> impl Iterator<Item = Ours> {
        self.items(List::Contexts).iter().filter_map(|item| {
            let Standing { server, ca, mark } = self.standing(item.get("context")?);
            Some(Ours { context: item.str("name").to_owned(), mark: mark?, server, ca })
        })
    }

    /// Where a context of ours comes from.
    pub fn mark_of(&self, context: &str) -> Option<Mark> {
        Mark::of(self.body(List::Contexts, context)?)
    }

    /// Whether a context of this name is in the file.
    pub fn has_context(&self, name: &str) -> bool {
        self.body(List::Contexts, name).is_some()
    }

    /// The context that kubectl uses.
    pub fn current_context(&self) -> Option<&str> {
        Some(self.root.str("current-context")).filter(|name| !name.is_empty())
    }

    /// The context that was current before the last [`Document::switch`].
    pub fn previous(&self) -> Option<&str> {
        Some(extension(&self.root, EXTENSION)?.str("previous")).filter(|name| !name.is_empty())
    }

    /// Makes a context the current one and remembers the old one, which is returned. Where this file
    /// names none, that is the one of the other files of the list.
    pub fn switch(&mut self, elsewhere: Option<&str>, to: &str) -> Option<String> {
        let old = self.current_context().or(elsewhere).map(str::to_owned);
        self.root.set("current-context", to.into());
        if let Some(old) = old.as_deref().filter(|old| *old != to) {
            let previous = Node::Map(vec![("previous".into(), old.into())]);
            set_extension(&mut self.root, EXTENSION, previous);
        }
        old
    }

    /// Makes a context the current one of a file that had none.
    pub fn set_current_context(&mut self, to: &str) {
        self.root.set("current-context", to.into());
    }

    /// The name for an entry: `<profile>@<hub context>`, with the namespace before it and the
    /// account behind the profile only where another entry of ours has the shorter name.
    pub fn name_for(&self, mark: &Mark) -> String {
        let (namespace, profile) = mark.profile.split_once('/').unwrap_or(("", &mark.profile));
        let name = |with_namespace: bool, account: Option<&str>| {
            let namespace = if with_namespace { format!("{namespace}/") } else { String::new() };
            let account = account.map(|account| format!(":{account}")).unwrap_or_default();
            format!("{namespace}{profile}{account}@{}", mark.hub_context)
        };
        let account = mark.account.as_deref();
        let forms = [name(false, None), name(false, account), name(true, None), name(true, account)];
        let is_form = |context: &str| {
            let base = context
                .rsplit_once('-')
                .filter(|(_, n)| n.parse::<u32>().is_ok())
                .map_or(context, |(base, _)| base);
            forms.iter().any(|form| form == context || form == base)
        };
        let places = self.index.ours.get(&mark.profile).into_iter().flatten();
        let mut own = places.filter_map(|at| {
            let item = self.items(List::Contexts).get(*at)?;
            let same = Mark::of(item.get(List::Contexts.item())?)?.is_same_entry(mark);
            same.then(|| item.str("name")).filter(|name| is_form(name))
        });
        if let Some(own) = own.next() {
            return own.to_owned();
        }
        let (mut with_namespace, mut with_account, mut count) = (false, false, 1);
        loop {
            let mut candidate = name(with_namespace, account.filter(|_| with_account));
            if count > 1 {
                candidate.push_str(&format!("-{count}"));
            }
            match self.rival(&candidate, mark) {
                None => return candidate,
                Some(rival) if rival.profile != mark.profile && !with_namespace => with_namespace = true,
                Some(rival) if rival.account != mark.account && !with_account => with_account = true,
                Some(_) => count += 1,
            }
        }
    }

    /// An entry of ours with this name that stands for something else.
    fn rival(&self, name: &str, mark: &Mark) -> Option<Mark> {
        let marks = List::ALL.into_iter().filter_map(|list| Mark::of(self.body(list, name)?));
        marks.into_iter().find(|other| !other.is_same_entry(mark))
    }

    fn standing(&self, context: &Node) -> Standing {
        let cluster = self.body(List::Clusters, context.str("cluster"));
        let text = |key| cluster.map(|cluster| cluster.str(key)).unwrap_or_default().to_owned();
        Standing { server: text("server"), ca: text("certificate-authority-data"), mark: Mark::of(context) }
    }

    /// Whether an item of this name is there and is not ours.
    fn is_foreign(&self, list: List, name: &str) -> bool {
        let item = self.position(list, name).map(|at| &self.items(list)[at]);
        item.is_some_and(|item| item.get(list.item()).and_then(Mark::of).is_none())
    }

    fn items(&self, list: List) -> &[Node] {
        self.root.get(list.key()).map(Node::items).unwrap_or_default()
    }

    fn items_mut(&mut self, list: List) -> &mut Vec<Node> {
        if !matches!(self.root.get(list.key()), Some(Node::List(_))) {
            self.root.set(list.key(), Node::List(Vec::new()));
        }
        match self.root.get_mut(list.key()) {
            Some(Node::List(items)) => items,
            _ => unreachable!("the list was just put there"),
        }
    }

    /// The content of the item with this name.
    fn body(&self, list: List, name: &str) -> Option<&Node> {
        self.items(list)[self.position(list, name)?].get(list.item())
    }

    fn position(&self, list: List, name: &str) -> Option<usize> {
        self.index.names[list as usize].get(name).copied()
    }
}

fn invalid(why: impl std::fmt::Display) -> Error {
    Error::new(Kind::Usage, format!("not a kubeconfig: {why}"))
}
