//! The source of random jitter.

use std::fmt;
use std::sync::Arc;

/// Returns random fractions, which spread restarts and periodic passes. The caller supplies the generator, so that tests can fix the seed.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    /// `fraction` returns a number in `[0, 1)`; other values are clamped.
    pub fn new(fraction: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(fraction))
    }

    pub(crate) fn fraction(&self) -> f64 {
        (self.0)().clamp(0.0, 1.0)
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}
