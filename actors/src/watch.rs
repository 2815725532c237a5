//! Notices what other processes changed: another node, or an operator's command beside the living server.
//!
//! Once a second it asks the store which registrations and device codes changed since the last pass and sends hints to the running actors, and
//! it takes over rotated signing keys. So polls never read the store, and yet a change made elsewhere is seen within about a second.
//!
//! **If it crashes:** it looks back far enough to miss nothing.

use std::collections::HashMap;

use chrono::TimeDelta;
use domain::secret::SecretHash;
use domain::{Clock, Timestamp};
use store::Store;
use supervision::periodic::{Next, Pass, PassError};

use crate::claim::Claims;
use crate::device::DeviceCodes;

/// How far each pass looks back beyond the last one: longer than clocks of nodes may differ and than a transaction may take to be
/// seen.
const OVERLAP: TimeDelta = TimeDelta::seconds(10);

/// Maximum number of changes that one pass reads; the next pass continues there at once.
const CHANGES_MAX: usize = 10_000;

/// The pass that reads changes of other processes.
#[derive(Debug, Clone)]
pub struct ChangeFeed {
    /// The main database.
    pub store: Store,
    /// The clock of the server.
    pub clock: Clock,
    /// Receives hints about registrations.
    pub claims: Claims,
    /// Receives hints about device codes.
    pub devices: DeviceCodes,
    /// How long retired keys still verify.
    pub keep_retired_for: TimeDelta,
}

/// The position that one pass leaves to the next.
#[derive(Debug, Default)]
pub struct ChangeCursor {
    registrations: TableCursor,
    /// Changes of registrations within the overlap, and in how many looks each was seen.
    told: HashMap<SecretHash, (Timestamp, u32)>,
    devices: TableCursor,
}

/// How far one table was looked at.
#[derive(Debug, Default)]
struct TableCursor {
    until: Option<Timestamp>,
    /// The last pass read the maximum: the next continues where it ended.
    behind: bool,
}

impl TableCursor {
    fn since(&self, now: Timestamp) -> Timestamp {
        match self.until {
            // The overlap was looked at when this began. Looking back again would not get on where changes are dense.
            Some(until) if self.behind => until,
            until => until.unwrap_or(now) - OVERLAP,
        }
    }

    /// Stores the position after a read. Returns whether there may be more.
    fn on(&mut self, found: &[(SecretHash, Timestamp)], now: Timestamp) -> bool {
        self.behind = found.len() >= CHANGES_MAX;
        self.until = Some(found.last().filter(|_| self.behind).map_or(now, |(_, changed_at)| *changed_at));
        self.behind
    }
}

impl Pass for ChangeFeed {
    type Memory = ChangeCursor;

    async fn run(&self, seen: &mut ChangeCursor) -> Result<Next, PassError> {
        domain::failpoint!("watch.pass");
        let now = self.clock.now();
        let since = seen.registrations.since(now);
        let found = self.store.registrations_changed_since(since, CHANGES_MAX).await?;
        let more_registrations = seen.registrations.on(&found, now);
        seen.told.retain(|_, (changed_at, _)| *changed_at >= since - OVERLAP);
        for (claim_token, changed_at) in found {
            let (told_at, looks) = seen.told.entry(claim_token).or_insert((changed_at, 0));
            if *told_at != changed_at {
                (*told_at, *looks) = (changed_at, 0);
            }
            *looks += 1;
            // Twice, with a pass in between: a ceremony may be starting from a row that was read before the change.
            if matches!(*looks, 1 | 3) {
                self.claims.hint(claim_token);
            }
        }
        let found = self.store.devices_changed_since(seen.devices.since(now), CHANGES_MAX).await?;
        let more_devices = seen.devices.on(&found, now);
        // Repeated within the overlap: a poller may be starting from a row that was read before the change. One that knows
        // the end does not look.
        for (code, _) in found {
            self.devices.hint(code);
        }
        let keys = self.store.assertion_keys(now, self.keep_retired_for).await?;
        self.claims.keyring().replace(&keys)?;
        Ok(Next::at_once_if(more_registrations || more_devices))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use domain::Rng;
    use domain::secret::{Secret, SecretKind};

    use super::*;

    #[test]
    fn dense_changes_are_all_found_and_looking_ends() {
        let rng = Rng::seeded(1);
        let now = Timestamp::UNIX_EPOCH + TimeDelta::days(1);
        // 35,000 changes within the last seven seconds: more than one look holds, within less than the overlap.
        let rows: Vec<_> = (0..35_000)
            .map(|row| {
                let code = Secret::mint(SecretKind::DeviceCode, &rng).hash();
                (code, now - TimeDelta::milliseconds(7_000 - row / 5))
            })
            .collect();
        let mut looked = TableCursor::default();
        let (mut found, mut looks) = (HashSet::new(), 0);
        loop {
            let since = looked.since(now);
            let look: Vec<_> = rows.iter().filter(|(_, at)| *at >= since).take(CHANGES_MAX).copied().collect();
            looks += 1;
            found.extend(look.iter().map(|(code, _)| *code));
            if !looked.on(&look, now) {
                break;
            }
            assert!(looks < 10, "it does not get on");
        }
        assert_eq!((looks, found.len()), (4, rows.len()));
        let later = now + TimeDelta::seconds(1);
        assert_eq!(looked.since(later), now - OVERLAP, "the next pass looks back again");
    }
}
