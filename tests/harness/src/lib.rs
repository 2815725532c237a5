//! What the tests of several crates share.
//!
//! - [`postgres`]: a database of one's own in the cluster that the test run started.
//! - [`upstream`]: a fake statistics service that remembers, judges, and misbehaves on request.
//!
//! A test that needs a component which is absent says so on standard error and ends; with `ATTACHE_TEST_REQUIRE_ALL=1`,
//! as `make test` has it, it fails.

pub mod postgres;
pub mod upstream;
