//! How many port-forwards are open, and were.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

#[derive(Default)]
pub(crate) struct Forwards {
    connections: Arc<AtomicUsize>,
    pairs: Arc<AtomicUsize>,
    pairs_ever: AtomicUsize,
    linger: AtomicBool,
}

/// One more, while it is held.
pub(crate) struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Forwards {
    pub(crate) fn connection(&self) -> Open {
        Open::new(&self.connections)
    }

    pub(crate) fn pair(&self) -> Open {
        self.pairs_ever.fetch_add(1, SeqCst);
        Open::new(&self.pairs)
    }

    /// Connections, pairs of streams on them, and pairs so far.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.connections.load(SeqCst), self.pairs.load(SeqCst), self.pairs_ever.load(SeqCst))
    }

    /// Whether a connection outlives its Pod.
    pub(crate) fn linger(&self) -> bool {
        self.linger.load(SeqCst)
    }

    pub(crate) fn set_linger(&self, linger: bool) {
        self.linger.store(linger, SeqCst);
    }
}
