//! The phase of the tree and how it ended.

/// How the tree ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeExit {
    /// Every child finished its messages.
    Drained,
    /// At least one child was killed at the deadline.
    DeadlineHit,
    /// [`Root::kill_now`](crate::Root::kill_now) was called.
    Killed,
    /// A child used up its restart budget.
    GaveUp {
        /// The name of that child.
        child: String,
    },
}

/// The phase of the tree, as the supervisor publishes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    Starting,
    Up,
    Ended(TreeExit),
}
