//! Notices what other processes changed: another node, or an operator's command beside the living server.
//!
//! Once a second it asks the store which registrations changed since the last pass and tells the ceremonies that live, and it takes
//! over rotated signing keys. So polls never read the store, and yet a change made elsewhere is seen within about a second.
//!
//! **If it crashes:** it looks back far enough to miss nothing.

use std::collections::HashMap;

use chrono::TimeDelta;
use domain::secret::SecretHash;
use domain::{Clock, Timestamp};
use store::Store;

use crate::claim::Claims;
use crate::periodic::Pass;

/// How far each pass looks back beyond the last one: longer than clocks of nodes may differ and than a transaction may take to be
/// seen.
const OVERLAP: TimeDelta = TimeDelta::seconds(10);

/// How many changes one look takes in; the next look goes on from there at once.
const CHANGES_MAX: usize = 10_000;

/// One look.
#[derive(Debug, Clone)]
pub struct Watch {
    /// The rows.
    pub store: Store,
    /// Time.
    pub clock: Clock,
    /// Whose ceremonies are told.
    pub claims: Claims,
    /// How long retired keys still verify.
    pub keep_retired_for: TimeDelta,
}

/// What a look carries over.
#[derive(Debug, Default)]
pub struct Seen {
    until: Option<Timestamp>,
    /// Changes within the overlap, so that each is told once.
    told: HashMap<SecretHash, Timestamp>,
}

impl Pass for Watch {
    type Memory = Seen;

    async fn run(&self, seen: &mut Seen) -> Result<bool, String> {
        domain::failpoint!("watch.pass");
        let now = self.clock.now();
        let since = seen.until.unwrap_or(now) - OVERLAP;
        let changed =
            self.store.registrations_changed_since(since, CHANGES_MAX).await.map_err(|error| error.to_string())?;
        seen.told.retain(|_, changed_at| *changed_at >= since);
        let whole = changed.len() < CHANGES_MAX;
        let mut until = now;
        for (claim_token, changed_at) in changed {
            if seen.told.insert(claim_token, changed_at) != Some(changed_at) {
                self.claims.hint(claim_token);
            }
            until = if whole { now } else { changed_at };
        }
        let keys = self.store.assertion_keys(now, self.keep_retired_for).await.map_err(|error| error.to_string())?;
        self.claims.keyring().replace(&keys).map_err(|error| error.to_string())?;
        seen.until = Some(until);
        Ok(!whole)
    }
}
