//! Components that the tests of several crates share. This crate depends on no crate above `domain`; whole servers are in `blackbox`.
//!
//! - [`balancer`]: a balancer that checks the health of servers and sends each request once.
//! - [`databases`]: [`on_each_database!`], [`on_each_vector_index!`] and [`on_sqlite!`], which run a test on the databases that it depends
//!   on.
//! - [`event`]: hash-chained events and their senders.
//! - [`npm`]: the folder of the packages that tests use from npm.
//! - [`oidc`]: a real OpenID provider, with accounts that need no password.
//! - [`postgres`]: a database for each test, in the cluster that the test run started.
//! - [`python`]: environments of the packages that tests use from `PyPI`.
//! - [`relay`]: a relay to a database, which loses or holds data.
//! - [`s3`]: a real S3 server.
//! - [`smtp`]: a real mail server that stores received mails.
//! - [`statements`]: a relay that counts the statements on the way to PostgreSQL.
//! - [`upstream`]: a fake statistics service that records requests, checks them against the contract, and fails on request.
//! - [`vectors`]: test vectors that are changes of one file.
//!
//! A test without its component reports that on standard error and ends; with `ATTACHE_TEST_REQUIRE_ALL=1`, which `make test` sets, it
//! fails.

pub mod balancer;
pub mod databases;
pub mod event;
pub mod npm;
pub mod oidc;
pub mod postgres;
pub mod python;
pub mod relay;
pub mod s3;
pub mod smtp;
pub mod statements;
pub mod upstream;
pub mod vectors;

pub use tools::cache;
