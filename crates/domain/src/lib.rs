//! Values and rules of attache: pure functions without IO, async, clock or randomness.
//!
//! One noun per file; the store, the actors and the HTTP layer have a file of the same name (`crates/store/`, `actors/`,
//! `crates/api/src/`).
//!
//! | module | content |
//! |---|---|
//! | [`ids`] | typed identifiers |
//! | [`secret`] | opaque secrets, their hashes, short codes |
//! | [`canonical`] | strict JSON and RFC 8785 bytes |
//! | [`lane`] | the six lanes of events |
//! | [`envelope`] | the event envelope and its seal |
//! | [`chain`] | rules for positions in hash chains |
//! | [`checkpoint`] | signed checkpoints of a log, its keys and origins |
//! | [`cosignature`] | cosignatures of checkpoints by witnesses |
//! | [`merkle`] | hashes of a Merkle tree, and verification of its proofs |
//! | [`act`] | acts of operators and their events |
//! | [`operator`] | roles of operators |
//! | [`epoch`]
//! the first record of an epoch of the log |
//! | [`agent_session`] | sessions of agents: what an event adds to its session's sums |
//! | [`registry`] | event types, lanes, payload schemas |
//! | [`consent`] | levels and the effective level |
//! | [`held`] | the checks that forward or hold an event, in their order |
//! | [`claim`] | registrations and claim attempts |
//! | [`agent_right`] | rights of an agent that acts for an account |
//! | [`confirm`] | the credential with which a person confirmed |
//! | [`signin`] | sign-in codes, tickets, and the page after signing in |
//! | [`mail`] | texts of mails |
//! | [`device`] | device codes and the pacing of polls |
//! | [`api_key`] | API keys of the knowledge API |
//! | [`label`] | names that an account gives to its computers and agents |
//! | [`space`] | spaces of memories and their access types |
//! | [`batch`] | batches and the messages of their streams |
//! | [`memory`] | memories: pages and notes, and their duplicates |
//! | [`filter`] | content filter settings and verdicts |
//! | [`webhook`] | notifications of accounts: kinds, bodies, signatures |
//! | [`rule`] | rules about recorded events, and the weekly digest |
//! | [`feed`] | feeds of notifications for feed readers |
//! | [`audit_link`] | links that show a session or a lane to others |
//! | [`web_url`] | URLs of web pages and their canonical form |
//! | [`words`] | stems of words for full-text search |
//! | [`excerpt`] | excerpts of search results |
//! | [`fit`] | how well results fit a query, and how many are shown |
//! | [`fair`]
//! fair turns at places shared by many parties |
//! | [`item`] | error codes of batch items |
//! | [`tool`] | the tools that are named as agents |
//! | [`token`] | token scopes and identity assertions |
//! | [`usage`] | plans, windows and the remaining quota |
//! | [`prices`] | prices of models, and the costs of tokens |
//! | [`node`] | servers on one database and their differences |
//! | [`live`] | values that are replaced while the program runs |
//! | [`clock`], [`rng`] | time and randomness as values |
//! | [`reasons()`] | an error and its causes on one line |
//! | [`brief()`] | messages about a text, without the text |
//! | [`thousands()`] | whole numbers with commas |

pub mod act;
pub mod actor_key;
pub mod agent_right;
pub mod agent_session;
pub mod api_key;
pub mod audit_link;
pub mod batch;
mod brief;
pub mod canonical;
pub mod chain;
pub mod checkpoint;
pub mod claim;
pub mod clock;
pub mod confirm;
pub mod consent;
pub mod cosignature;
pub mod device;
pub mod digest;
pub mod envelope;
pub mod epoch;
pub mod excerpt;
pub mod fair;
pub mod feed;
pub mod filter;
pub mod fit;
pub mod foreign;
pub mod held;
mod hex;
pub mod ids;
pub mod item;
pub mod label;
pub mod lane;
pub mod language;
pub mod live;
pub mod log_part;
pub mod mail;
pub mod memory;
pub mod merkle;
pub mod node;
pub mod node_order;
pub mod operator;
pub mod prices;
mod reasons;
pub mod recorder;
pub mod registry;
pub mod retry_after;
pub mod rng;
pub mod rule;
pub mod secret;
pub mod service_pause;
pub mod signin;
pub mod space;
mod thousands;
pub mod token;
pub mod tool;
pub mod trace;
mod unknown_name;
pub mod usage;
pub mod web_url;
pub mod webhook;
pub mod words;

/// The attribute of public async functions in the crates above, which import it in `lib.rs`: the function returns its future in a box, so that
/// its code is compiled once, in its crate (`docs/decisions/0037-futures-compiled-once.md`).
pub use async_recursion::async_recursion as boxed;
pub use brief::brief;
pub use clock::{Clock, Timestamp};
pub use digest::Digest;
pub use reasons::reasons;
pub use retry_after::retry_after;
pub use rng::Rng;
pub use thousands::thousands;
pub use unknown_name::UnknownName;

/// A point where a test can abort the process or make an actor panic. Expands to nothing without the feature
/// `failpoints`.
///
/// `FAILPOINTS=name=panic` panics in the current task; `name=return` aborts the process like `kill -9`.
#[cfg(feature = "failpoints")]
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        if $crate::fail::eval($name, |_| ()).is_some() {
            std::process::abort();
        }
    };
}

/// A point where a test can abort the process or make an actor panic. Expands to nothing without the feature
/// `failpoints`.
#[cfg(not(feature = "failpoints"))]
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {};
}

#[cfg(feature = "failpoints")]
#[doc(hidden)]
pub use fail;
