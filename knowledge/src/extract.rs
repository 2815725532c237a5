//! From the bytes of a page or a file to Markdown (`docs/decisions/0043-extraction-process.md`).
//!
//! 1. `charset` decodes bytes to text. An encoding that the bytes prove takes precedence over the declared one.
//! 2. `html` finds the main content of a page and writes it as Markdown; `pdf` reads the text of a PDF; `text` takes plain text and
//!    Markdown unchanged, indents JSON, and takes the text between the tags of XML.
//! 3. [`worker`] does all of this to pages and PDFs in a process of its own, because their parsers may loop, eat memory or overflow the
//!    stack on malicious files; that process first drops its rights with [`sandbox`]. A server calls [`Extractor`],
//!    whose `shares` keep it fair between accounts. [`extract`] is the entry point inside the process.

mod charset;
mod error;
mod format;
mod html;
mod pdf;
mod read;
pub mod sandbox;
mod settings;
mod shares;
mod stack;
mod text;
mod tree;
pub mod worker;

pub use error::ExtractError;
pub use format::Format;
pub use read::{Extracted, extract};
pub use settings::ExtractSettings;
pub use worker::{Extractor, Source, WorkerCommand};
