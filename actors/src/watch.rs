//! Notices what other processes changed: another node, or an operator's command beside the living server.
//!
//! Once a second it asks the store which registrations and device codes changed since the last pass and tells the actors that live, and
//! it takes over rotated signing keys. So polls never read the store, and yet a change made elsewhere is seen within about a second.
//!
//! **If it crashes:** it looks back far enough to miss nothing.

use std::collections::HashMap;

use chrono::TimeDelta;
use domain::secret::SecretHash;
use domain::{Clock, Timestamp};
use store::Store;

use crate::claim::Claims;
use crate::device::DeviceCodes;
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
    /// Whose pollers are told.
    pub devices: DeviceCodes,
    /// How long retired keys still verify.
    pub keep_retired_for: TimeDelta,
}

/// What a look carries over.
#[derive(Debug, Default)]
pub struct Seen {
    registrations: Changes,
    devices: Changes,
}

/// What is known of the changes of one table.
#[derive(Debug, Default)]
struct Changes {
    until: Option<Timestamp>,
    /// The last look was full: the next goes on from where it ended.
    behind: bool,
    /// Changes within the overlap, so that each is told once.
    told: HashMap<SecretHash, Timestamp>,
}

impl Changes {
    fn since(&self, now: Timestamp) -> Timestamp {
        match self.until {
            // The overlap was looked at when this began. Looking back again would not get on where changes are dense.
            Some(until) if self.behind => until,
            until => until.unwrap_or(now) - OVERLAP,
        }
    }

    /// Takes in what a look found, tells what is new, and says whether there may be more.
    fn take(&mut self, found: Vec<(SecretHash, Timestamp)>, now: Timestamp, tell: impl Fn(SecretHash)) -> bool {
        let since = self.since(now) - OVERLAP;
        self.told.retain(|_, changed_at| *changed_at >= since);
        let whole = found.len() < CHANGES_MAX;
        let mut until = now;
        for (key, changed_at) in found {
            if self.told.insert(key, changed_at) != Some(changed_at) {
                tell(key);
            }
            until = if whole { now } else { changed_at };
        }
        (self.until, self.behind) = (Some(until), !whole);
        !whole
    }
}

impl Pass for Watch {
    type Memory = Seen;

    async fn run(&self, seen: &mut Seen) -> Result<bool, String> {
        domain::failpoint!("watch.pass");
        let now = self.clock.now();
        let found = self.store.registrations_changed_since(seen.registrations.since(now), CHANGES_MAX).await;
        let found = found.map_err(|error| error.to_string())?;
        let more_registrations = seen.registrations.take(found, now, |claim_token| self.claims.hint(claim_token));
        let found = self.store.devices_changed_since(seen.devices.since(now), CHANGES_MAX).await;
        let found = found.map_err(|error| error.to_string())?;
        let more_devices = seen.devices.take(found, now, |code| self.devices.hint(code));
        let keys = self.store.assertion_keys(now, self.keep_retired_for).await.map_err(|error| error.to_string())?;
        self.claims.keyring().replace(&keys).map_err(|error| error.to_string())?;
        Ok(more_registrations || more_devices)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;

    use domain::Chance;
    use domain::secret::{Secret, SecretKind};

    use super::*;

    #[test]
    fn dense_changes_are_all_told_once_and_looking_ends() {
        let chance = Chance::seeded(1);
        let now = Timestamp::UNIX_EPOCH + TimeDelta::days(1);
        // 35,000 changes within the last seven seconds: more than one look holds, within less than the overlap.
        let rows: Vec<_> = (0..35_000)
            .map(|row| {
                let code = Secret::mint(SecretKind::DeviceCode, &chance).hash();
                (code, now - TimeDelta::milliseconds(7_000 - row / 5))
            })
            .collect();
        let look = |since: Timestamp| {
            rows.iter().filter(|(_, at)| *at >= since).take(CHANGES_MAX).copied().collect::<Vec<_>>()
        };
        let told = RefCell::new(Vec::new());
        let mut changes = Changes::default();
        let mut looks = 0;
        loop {
            let found = look(changes.since(now));
            looks += 1;
            if !changes.take(found, now, |code| told.borrow_mut().push(code)) {
                break;
            }
            assert!(looks < 10, "it does not get on");
        }
        assert_eq!((looks, told.borrow().len()), (4, rows.len()));
        assert_eq!(told.borrow().iter().collect::<HashSet<_>>().len(), rows.len());
        let later = now + TimeDelta::seconds(1);
        changes.take(look(changes.since(later)), later, |code| told.borrow_mut().push(code));
        assert_eq!(told.borrow().len(), rows.len(), "what was told is not told again");
    }
}
