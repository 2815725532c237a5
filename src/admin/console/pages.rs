//! The handlers of the pages.

pub mod actors;
pub mod flow;
pub mod held;
pub mod keys;
pub mod log;
pub mod nodes;
pub mod record;
pub mod sessions;
pub mod settings;
pub mod webhooks;
