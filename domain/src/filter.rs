//! What new content has to be like before it is kept: an account's filter settings, and what was decided about one item
//! (`docs/protocol/knowledge.md#filter-settings` and `docs/decisions/0044-content-filter.md`).
//!
//! The include and exclude lists are applied by [`Rules`]; whoever asks a language model stands a floor above.

mod settings;
mod verdict;
mod words;

pub use settings::{
    CATEGORY_CHARS_MAX, ELEMENTS_MAX, FilterChange, FilterIssue, FilterSettings, FilterUpdate, ITEM_CHARS_MAX,
    PROMPT_CHARS_MAX,
};
pub use verdict::{FilterVerdict, VerdictBy};
pub use words::Rules;
