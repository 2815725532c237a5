//! Content filters: the settings of an account, and the verdict about one item
//! (`docs/protocol/knowledge.md#filter-settings` and `docs/decisions/0025-from-url-to-text.md`).
//!
//! [`Rules`] applies the include and exclude lists. The knowledge crate queries the language model.

mod settings;
mod verdict;
mod words;

pub use settings::{
    CATEGORY_CHARS_MAX, ELEMENTS_MAX, FilterChange, FilterIssue, FilterSettings, FilterUpdate, ITEM_CHARS_MAX,
    PROMPT_CHARS_MAX,
};
pub use verdict::{FilterVerdict, VerdictBy};
pub use words::Rules;
