//! Memory for data that clients are still sending: bodies, and heads that are longer than usual.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::live::Live;

/// The memory of all connections (`http.bodies_bytes_max`).
#[derive(Debug)]
pub struct ReceiveMemory {
    bytes: AtomicUsize,
    bytes_max: Live<usize>,
}

impl ReceiveMemory {
    /// Free memory of this size.
    pub fn new(bytes_max: impl Into<Live<usize>>) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), bytes_max: bytes_max.into() })
    }

    /// A new, empty share for a connection or body.
    pub fn share(self: &Arc<Self>) -> MemoryShare {
        MemoryShare { memory: Arc::clone(self), bytes: 0 }
    }
}

/// A part of the memory; it is free again when dropped.
#[derive(Debug)]
pub struct MemoryShare {
    memory: Arc<ReceiveMemory>,
    bytes: usize,
}

impl MemoryShare {
    /// Size of the share in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds bytes that are already in memory; `false` if all shares together exceed the maximum.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let previous = self.memory.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        previous.saturating_add(bytes) <= **self.memory.bytes_max.get()
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.memory.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_together_and_come_back() {
        let bytes_max = Live::new(10);
        let memory = ReceiveMemory::new(bytes_max.clone());
        let (mut one, mut two) = (memory.share(), memory.share());
        assert!(one.grow(6) && two.grow(4));
        assert!(!two.grow(1), "11 bytes");
        drop(one);
        assert!(two.grow(5), "10 bytes");
        bytes_max.set(11);
        assert!(two.grow(1));
    }
}
