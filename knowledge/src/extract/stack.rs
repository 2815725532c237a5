//! A thread with a stack for deep trees.

use std::io;

/// Runs `work` on a thread whose stack holds the tree of a page.
pub(super) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    /// For trees of `depth_max` and one step of the parser more, in builds without optimisation too.
    const STACK_BYTES: usize = 128 * 1024 * 1024;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("extract".to_owned()).stack_size(STACK_BYTES);
        let running = thread.spawn_scoped(scope, work)?;
        running.join().map_err(|_| io::Error::other("the reading thread panicked"))
    })
}
