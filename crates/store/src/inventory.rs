//! The number of rows of each table, for comparing a backup with its original.

use serde::Serialize;

use crate::Store;
use crate::error::StoreError;
use crate::operation::{During, Operation};
use crate::pool::query;

crate::row! {
    /// Row counts of the main database that are shown to people.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    pub struct Inventory {
        /// Accounts.
        pub accounts: i64,
        /// Computers.
        pub computers: i64,
        /// Agents, claimed or not.
        pub agents: i64,
        /// Events that are held.
        pub held_events: i64,
        /// Spaces.
        pub spaces: i64,
        /// Pages and notes.
        pub memories: i64,
    }
}

impl Inventory {
    /// Each count with its noun.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, i64)> {
        let Self { accounts, computers, agents, held_events, spaces, memories } = *self;
        [
            ("accounts", accounts),
            ("computers", computers),
            ("agents", agents),
            ("held events", held_events),
            ("spaces", spaces),
            ("memories", memories),
        ]
        .into_iter()
    }
}

impl Store {
    /// Counts the rows of each kind, in one statement.
    #[boxed]
    pub async fn inventory(&self) -> Result<Inventory, StoreError> {
        const SQL: &str =
            "SELECT (SELECT COUNT(*) FROM accounts) AS accounts, (SELECT COUNT(*) FROM machines) AS computers,
            (SELECT COUNT(*) FROM registrations) AS agents, (SELECT COUNT(*) FROM held_events) AS held_events,
            (SELECT COUNT(*) FROM spaces) AS spaces, (SELECT COUNT(*) FROM memories) AS memories";
        query(SQL).fetch_one(&self.pool).during(Operation::CountAllRows).await
    }
}
