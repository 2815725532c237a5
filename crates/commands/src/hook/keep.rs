//! From events to the spool: the common part of a hook and a receiver of spans.

use std::io;
use std::process::Child;

use domain::{Clock, Rng};
use hooks::{HookEvent, Tool};

use super::background;
use super::folder::HookFolder;
use super::levels::Levels;
use super::spool::Spool;

/// Number of events per outcome.
#[derive(Debug, Default)]
pub struct KeptEvents {
    /// Appended to the spool.
    pub spooled: u64,
    /// Dropped, because their level is off.
    pub withheld: u64,
    /// Refused by a full spool.
    pub refused: u64,
    /// The sender, if it was started.
    pub sender: Option<Child>,
}

/// Spools events as far as the known levels permit, and starts the sender if necessary.
pub fn keep(
    folder: &HookFolder,
    profile: &str,
    events: impl IntoIterator<Item = (Tool, HookEvent)>,
) -> io::Result<KeptEvents> {
    let (levels, clock, rng) = (Levels::cached(folder), Clock::system(), Rng::system());
    let now = clock.now();
    let (mut kept, mut is_needed, mut done) = (KeptEvents::default(), false, Ok(()));
    for (tool, mut event) in events {
        is_needed |= levels.is_due(event.lane, now);
        event.event_id = event.event_id.or_else(|| Some(rng.uuid_v7(now).into()));
        event.ts_edge_ms = event.ts_edge_ms.or_else(|| Some(now.timestamp_millis()));
        let level = levels.level(event.lane, now);
        let Some(event) = event.limited(level) else {
            kept.withheld += 1;
            continue;
        };
        match Spool::of(folder, tool).append(event) {
            Ok(is_appended) => {
                kept.spooled += u64::from(is_appended);
                kept.refused += u64::from(!is_appended);
                is_needed = true;
            }
            Err(error) => {
                done = Err(error);
                break;
            }
        }
    }
    // The sender also sends the events before a failure.
    if is_needed {
        kept.sender = background::start(folder, profile)?;
    }
    done.map(|()| kept)
}
