//! One search in progress: its inputs, and the services that it uses.

use store::Store;
use store::chunk::AccountStatistics;

use super::query::SearchQuery;
use super::settings::Settings;
use crate::index::Index;

/// The inputs of one search, which all steps share.
#[derive(Debug)]
pub(super) struct SearchContext<'s, E> {
    pub(super) store: &'s Store,
    pub(super) embedder: &'s E,
    pub(super) index: &'s Index,
    pub(super) settings: &'s Settings,
    pub(super) account_indexes: &'s [AccountStatistics],
    pub(super) query: &'s SearchQuery,
}
