//! Values that are replaced while the program runs, such as settings.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

/// A value that may be replaced while others read it. Reading is one atomic load. Clones share the value.
#[derive(Debug)]
pub struct Live<T>(Arc<ArcSwap<T>>);

impl<T> Live<T> {
    /// A value that is in force until it is replaced.
    pub fn new(value: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(value)))
    }

    /// The value in force. A reader that needs parts that belong together reads once.
    pub fn get(&self) -> Guard<Arc<T>> {
        self.0.load()
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> From<T> for Live<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
