//! Faults on demand: what to do wrong, for which requests, how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::request::Request;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The answer comes this much later.
    Slow(Duration),
    /// The request is read and never answered.
    Silent,
    /// This status with this body (sent as JSON when it looks like it, else as text).
    Status(u16, String),
    /// 401 as the API says it.
    Unauthorized,
    /// 403 as the API says it.
    Forbidden,
    /// 410 for a list's continue token or a watch's revision; other requests pass. Once, unless
    /// [`FaultRule::times`] says otherwise.
    Gone,
    /// 429.
    TooManyRequests {
        /// Seconds in `Retry-After`.
        retry_after: u32,
        /// How often.
        times: usize,
    },
    /// The body stops half way, and the connection ends.
    Truncated,
    /// The connection is closed without an answer.
    Close,
    /// The right answer with a `Warning` header.
    Warning(String),
    /// This status and plain text.
    PlainText(u16, String),
    /// 200, `application/json`, and a body that is no JSON.
    NotJson,
}

pub(crate) type Matcher = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// A fault that was ordered; keep it to limit it or to end it.
#[derive(Clone)]
pub struct FaultRule {
    matcher: Matcher,
    fault: Fault,
    left: Arc<AtomicUsize>,
}

impl FaultRule {
    pub(crate) fn new(matcher: Matcher, fault: Fault) -> Self {
        let times = match fault {
            Fault::Gone => 1,
            Fault::TooManyRequests { times, .. } => times,
            _ => usize::MAX,
        };
        Self { matcher, fault, left: Arc::new(AtomicUsize::new(times)) }
    }

    /// Only so many more times.
    pub fn times(&self, times: usize) -> &Self {
        self.left.store(times, Ordering::SeqCst);
        self
    }

    /// Not any more.
    pub fn end(&self) {
        self.times(0);
    }

    fn take(&self, request: &Request) -> Option<&Fault> {
        let gone = matches!(self.fault, Fault::Gone);
        let resumes = request.verb == "watch" || !request.parameter("continue").is_empty();
        if (gone && !resumes) || !(self.matcher)(request) {
            return None;
        }
        let less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).ok().map(|_| &self.fault)
    }
}

/// What the rules make of one request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) delay: Duration,
    pub(crate) warnings: Vec<String>,
    pub(crate) instead: Option<Fault>,
}

/// Delays and warnings add up; of the others, the first that was ordered counts.
pub(crate) fn plan(rules: &[FaultRule], request: &Request) -> Plan {
    let mut plan = Plan::default();
    for rule in rules {
        let modifies = matches!(rule.fault, Fault::Slow(_) | Fault::Warning(_));
        if !modifies && plan.instead.is_some() {
            continue;
        }
        match rule.take(request) {
            Some(Fault::Slow(delay)) => plan.delay += *delay,
            Some(Fault::Warning(text)) => plan.warnings.push(text.clone()),
            Some(fault) => plan.instead = Some(fault.clone()),
            None => {}
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_ends_after_its_times_and_leaves_others_alone() {
        let pods: Matcher = Arc::new(|request| request.key.resource == "pods");
        let rules = [FaultRule::new(pods.clone(), Fault::TooManyRequests { retry_after: 1, times: 2 })];
        let ask = |path: &str| plan(&rules, &Request::new("GET", path, "")).instead.is_some();
        assert!(!ask("/api/v1/nodes"));
        assert_eq!([ask("/api/v1/pods"), ask("/api/v1/pods"), ask("/api/v1/pods")], [true, true, false]);
    }

    #[test]
    fn gone_hits_only_a_continued_list_and_only_once() {
        let rules = [FaultRule::new(Arc::new(|_| true), Fault::Gone)];
        let ask = |query: &str| plan(&rules, &Request::new("GET", "/api/v1/pods", query)).instead.is_some();
        assert_eq!(
            [ask("limit=5"), ask("limit=5&continue=x"), ask("limit=5&continue=x")],
            [false, true, false]
        );
    }
}
