//! The pages in a real browser: headless Chromium with the screen of a desktop and of a phone.
//!
//! A test finds elements by their accessible name and role. Each opened page is checked: no message on the console, no element wider than
//! the screen, no violation that axe-core finds in light or dark. Pictures of the pages are stored in `$ATTACHE_SCREENSHOTS`, if it names a
//! folder.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod browser;
mod driver;
mod judge;
mod shared;

mod access;
mod account;
mod activity;
mod claim;
mod consent;
mod console;
mod device;
mod docs;
mod feed;
mod home;
mod judging;
mod knowledge;
mod operator;
mod pictures;
mod questions;
mod receipt;
mod rules;
mod sessions;
mod signin;
#[cfg(feature = "failpoints")]
mod walkthrough;
mod webhooks;
