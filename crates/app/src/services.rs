//! Use cases: the operations that the server performs for its clients.
//!
//! A service takes typed arguments and returns typed refusals. It is independent of HTTP and pages: `api` and `web` parse a request,
//! call a service and present its result, as a status with an error code or as a page. A rule of both surfaces is implemented here,
//! once.
//!
//! | service | operations |
//! |---|---|
//! | [`sessions`] | find, list and end browser sessions |
//! | [`confirmation`] | the recent sign-in that a decision with a lasting effect requires |
//! | [`api_keys`] | create, find and revoke API keys |
//! | [`devices`] | approve and deny device codes |
//! | [`claims`] | confirm agents |
//! | [`agents`] | agents of an account |
//! | [`machines`] | register, list and detach computers |
//! | [`consent`] | read and set consent levels |
//! | [`activity`] | the recorded events that a party may see |
//! | [`agent_sessions`] | sums over the events of a session of an agent |
//! | [`closing`] | close an account |
//! | [`export`] | everything that an account has |
//! | [`labels`] | names of computers and agents |
//! | [`usage`] | the usage of an account or a computer, as shares of its plan |
//! | [`knowledge`] | search, batches, spaces, memories and filters of the knowledge API |
//! | [`webhooks`] | endpoints that an account is notified at |
//! | [`audit_links`] | links that show a session or a lane to others |
//! | [`feeds`] | feeds of notifications |
//! | [`rules`] | rules about recorded events, and the weekly digest |
//! | [`oidc`] | sign-in with OpenID Connect providers |

pub mod activity;
pub mod agent_sessions;
pub mod agents;
pub mod api_keys;
pub mod audit_links;
pub mod claims;
pub mod closing;
pub mod confirmation;
pub mod consent;
pub mod devices;
pub mod export;
pub mod feeds;
pub mod knowledge;
pub mod labels;
pub mod machines;
pub mod oidc;
pub mod rules;
pub mod sessions;
pub mod usage;
pub mod webhooks;

use domain::{Clock, Rng};
use store::Store;

/// The resources that most services use. Clones share them.
#[derive(Debug, Clone)]
pub struct Ports {
    /// The main database, for services alone.
    store: Store,
    /// The current time.
    pub clock: Clock,
    /// The source of ids, secrets and codes.
    pub rng: Rng,
}

impl Ports {
    /// The resources of a running server.
    pub fn new(store: Store, clock: Clock, rng: Rng) -> Self {
        Self { store, clock, rng }
    }
}
