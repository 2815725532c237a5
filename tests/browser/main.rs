//! The pages in a real browser: headless Chromium, driven as a person would, on a desk and on a phone.
//!
//! Every law finds what it needs by the name and role that assistive technology is told. Whatever page it looks at is
//! judged: no word on the console, nothing wider than the screen, no complaint of axe-core in light or dark. A
//! picture of it is kept in `$ATTACHE_SCREENSHOTS`, by default `screenshots` in the folder of the build products.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod browser;
mod driver;
mod judge;
mod outbox;

#[path = "../api/contract.rs"]
#[expect(dead_code, reason = "what the black-box tests need besides")]
mod contract;
#[path = "../api/event.rs"]
#[expect(dead_code, reason = "what the black-box tests need besides")]
mod event;
#[path = "../api/world.rs"]
#[expect(dead_code, unused_imports, unused_macros, reason = "what the black-box tests need besides")]
mod world;

#[path = "../api/knowledge/site.rs"]
mod site;

mod access;
mod account;
mod claim;
mod consent;
mod device;
mod docs;
mod judging;
mod knowledge;
mod signin;
