//! Pure values and laws of attache: no IO, no async, no clock and no chance of their own.
//!
//! One noun per file; the same noun is found again on every floor above (`store/`, `actors/`, `src/http/`).
//!
//! | noun | what it fixes |
//! |---|---|
//! | [`ids`] | identifiers, typed at the door |
//! | [`secret`] | opaque secrets, their hashes, short codes |
//! | [`canonical`] | strict JSON and RFC 8785 bytes |
//! | [`lane`] | the six lanes |
//! | [`envelope`] | the event envelope and its seal |
//! | [`chain`] | the position law of hash chains |
//! | [`checkpoint`] | signed checkpoints of a log, its keys and origins |
//! | [`merkle`] | hashes of a Merkle tree, and verification of its proofs |
//! | [`epoch`] | the record with which the log begins an epoch |
//! | [`registry`] | event types, lanes, payload schemas |
//! | [`consent`] | levels and the effective level |
//! | [`held`] | forward or hold: the one order of checks |
//! | [`claim`] | registrations and claim attempts |
//! | [`confirm`] | the credential with which a person decided |
//! | [`signin`] | codes that sign people in, and where they go next |
//! | [`mail`] | what is written to people |
//! | [`device`] | device codes and the pacing of polls |
//! | [`api_key`] | keys of the knowledge API |
//! | [`space`] | where memories are put, and who may read and write there |
//! | [`batch`] | what is added at once, and the stream that tells of it |
//! | [`memory`] | pages and notes that are kept, and what makes two of them the same |
//! | [`filter`] | what new content has to be like, and what was decided |
//! | [`web_url`] | addresses of web pages, and when two of them are the same |
//! | [`words`] | words as they are searched for |
//! | [`excerpt`] | what is shown of a passage that was found |
//! | [`item`] | what became of one item of a batch |
//! | [`token`] | scopes and identity assertions |
//! | [`usage`] | plans, windows, what is left |
//! | [`clock`], [`rng`] | time and randomness as values |
//! | [`reasons()`] | an error with its causes, on one line |

pub mod api_key;
pub mod batch;
pub mod canonical;
pub mod chain;
pub mod checkpoint;
pub mod claim;
pub mod clock;
pub mod confirm;
pub mod consent;
pub mod device;
pub mod digest;
pub mod envelope;
pub mod epoch;
pub mod excerpt;
pub mod filter;
pub mod foreign;
pub mod held;
pub mod ids;
pub mod item;
pub mod lane;
pub mod mail;
pub mod memory;
pub mod merkle;
mod reasons;
pub mod recorder;
pub mod registry;
pub mod retry_after;
pub mod rng;
pub mod secret;
pub mod signin;
pub mod space;
pub mod token;
mod unknown_name;
pub mod usage;
pub mod web_url;
pub mod words;

pub use clock::{Clock, Timestamp};
pub use digest::Digest;
pub use reasons::reasons;
pub use retry_after::retry_after;
pub use rng::Rng;
pub use unknown_name::UnknownName;

/// A place where a test may make the process die or an actor panic: nothing unless the feature `failpoints` is on.
///
/// With `FAILPOINTS=name=panic` the task panics there; with `name=return` the process ends as abruptly as by `kill -9`.
#[cfg(feature = "failpoints")]
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        if $crate::fail::eval($name, |_| ()).is_some() {
            std::process::abort();
        }
    };
}

/// A place where a test may make the process die or an actor panic: nothing unless the feature `failpoints` is on.
#[cfg(not(feature = "failpoints"))]
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {};
}

#[cfg(feature = "failpoints")]
#[doc(hidden)]
pub use fail;
