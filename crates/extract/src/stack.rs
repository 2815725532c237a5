//! A thread with a large stack, for recursive work on deep trees.

use std::io;

/// Runs `work` on a thread with a stack that is large enough for the tree of a page.
pub(super) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    /// Enough for a tree of `depth_max` plus one step of the parser, even in debug builds.
    const STACK_BYTES: usize = 128 * 1024 * 1024;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("extract".to_owned()).stack_size(STACK_BYTES);
        let running = thread.spawn_scoped(scope, work)?;
        running.join().map_err(|_| io::Error::other("the reading thread panicked"))
    })
}
