//! Converts pages and files to Markdown (`docs/decisions/0025-from-url-to-text.md`).
//!
//! 1. `charset` decodes the bytes. An encoding that the bytes prove takes precedence over the declared one.
//! 2. `html` finds the main content of a page and writes Markdown; `pdf` extracts the text of a PDF; `text` handles
//!    plain text, Markdown, JSON and XML.
//! 3. [`worker`] extracts pages and PDFs in a separate process, because their parsers can loop, exhaust memory or
//!    overflow the stack on malicious files. The process first enters its [`sandbox`]. Servers call [`Extractor`],
//!    which shares its places fairly among accounts ([`fair`]). [`extract`] is the entry point inside the process.

#[macro_use(boxed)]
extern crate domain;

mod charset;
pub mod content_type;
mod error;
pub mod fair;
mod format;
mod html;
mod pdf;
mod read;
pub mod sandbox;
mod settings;
mod stack;
mod text;
mod tree;
pub mod worker;

pub use error::ExtractError;
pub use format::ContentFormat;
pub use read::{Extracted, extract};
pub use settings::ExtractSettings;
pub use worker::{Extractor, RawContent, WorkerCommand};
