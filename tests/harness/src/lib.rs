//! What the tests of several crates share.
//!
//! - [`npm`]: the folder with the packages that tests have from npm.
//! - [`oidc`]: a real OpenID provider, with accounts that anybody may sign in as.
//! - [`postgres`]: a database of one's own in the cluster that the test run started.
//! - [`python`]: environments with packages that tests have from `PyPI`.
//! - [`smtp`]: a real mail server that remembers its letters.
//! - [`upstream`]: a fake statistics service that remembers, judges, and misbehaves on request.
//!
//! A test that needs a component which is absent says so on standard error and ends; with `ATTACHE_TEST_REQUIRE_ALL=1`,
//! as `make test` has it, it fails.

mod cache;
mod laws;
pub mod npm;
pub mod oidc;
pub mod postgres;
pub mod python;
pub mod smtp;
pub mod upstream;
