//! Use cases of the knowledge API, for API keys and for people on their pages (`docs/protocol/knowledge.md`).
//!
//! Every operation takes a [`KnowledgeAccess`]: the account, the spaces, and the credential that requests it.

pub mod access;
pub mod batches;
pub mod credential;
pub mod edit;
pub mod filters;
pub mod import;
pub mod library;
pub mod memories;
pub mod refusal;
pub mod search;
pub mod spaces;

pub use self::access::KnowledgeAccess;
pub use self::batches::Batches;
pub use self::filters::Filters;
pub use self::memories::{Memories, MemoryLimits};
pub use self::refusal::Refusal;
pub use self::search::KnowledgeSearch;
pub use self::spaces::Spaces;
