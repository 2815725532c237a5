//! One row per statement; statements are prepared once.
//!
//! A duplicate is detected by the unique index that rejects it, so a new event needs no lookup.

use domain::clock::stored;
use domain::ids::{UserAccountId, UserCuid};
use domain::{Digest, Timestamp};
use rusqlite::{CachedStatement, Connection, OptionalExtension, ffi, params};
use uuid::Uuid;

use super::{Candidate, Key, Ledger, charge, clamped};
use crate::held::{HeldOutcome, NewHeld, Sender};
use crate::pool::SqliteConnection;
use crate::row::storable;

/// Rows that are inserted within a millisecond, at some 6 µs each.
const IN_PLACE_ROWS_MAX: usize = 128;

/// Step 3: one outcome for each event.
pub(super) fn hold<'a>(
    on: &mut SqliteConnection,
    candidates: &[Candidate<'a>],
    ledger: &mut Ledger<'a>,
) -> Result<Vec<HeldOutcome>, sqlx::Error> {
    let hold = |connection: &Connection| {
        let mut rows = Rows::new(connection)?;
        candidates.iter().map(|(held, key)| rows.hold(held, *key, ledger)).collect()
    };
    if candidates.len() > IN_PLACE_ROWS_MAX { on.visit_long(hold) } else { on.visit(hold) }
}

struct Rows<'c> {
    connection: &'c Connection,
    insert: CachedStatement<'c>,
    /// The last timestamp and its text: the events of a group have few different ones.
    moment: Option<(Timestamp, String)>,
}

impl<'c> Rows<'c> {
    fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        const INSERT: &str =
            "INSERT INTO held_events (id, sender, registration_id, machine_uuid, account_id, user_cuid,
                event_id, event_type, agent_id, event_machine_uuid, reason, detail, body, body_sha256, body_bytes,
                charged_bytes, seal, received_at, state)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, 'held')";
        Ok(Self { connection, insert: connection.prepare_cached(INSERT)?, moment: None })
    }

    fn hold<'a>(&mut self, held: &NewHeld, key: Key<'a>, ledger: &mut Ledger<'a>) -> rusqlite::Result<HeldOutcome> {
        let outcome = match ledger.refusal(held, &key) {
            None => match self.insert(held, key.0, ledger.account(held)) {
                Ok(()) => return Ok(ledger.take(held, key)),
                Err(error) if is_unique_violation(&error) => match self.find(held, key)? {
                    Some(id) => HeldOutcome::AlreadyHeld(id.into()),
                    None => return Err(error),
                },
                Err(error) => return Err(error),
            },
            Some(full @ HeldOutcome::QuotaExceeded { .. }) => match self.find(held, key)? {
                // A duplicate needs no room.
                Some(id) => HeldOutcome::AlreadyHeld(id.into()),
                None => full,
            },
            Some(outcome) => outcome,
        };
        if let HeldOutcome::AlreadyHeld(id) = &outcome {
            self.judged_again(id.as_uuid(), held)?;
        }
        Ok(outcome)
    }

    /// Stores the reason of a repetition.
    fn judged_again(&self, entry: Uuid, held: &NewHeld) -> rusqlite::Result<()> {
        const UPDATE: &str = "UPDATE held_events SET reason = ?2, detail = ?3
            WHERE id = ?1 AND (reason <> ?2 OR detail <> ?3)";
        let mut update = self.connection.prepare_cached(UPDATE)?;
        update.execute(params![bytes(&entry), held.reason.as_str(), storable(&held.detail)])?;
        Ok(())
    }

    fn insert(&mut self, held: &NewHeld, sender: &str, account: Option<&UserAccountId>) -> rusqlite::Result<()> {
        let (registration, machine) = match &held.sender {
            Sender::Registration(id) => (Some(id.as_uuid()), None),
            Sender::Machine(id) => (None, Some(id.as_uuid())),
            Sender::Account(_) => (None, None),
        };
        let moment = match &self.moment {
            Some((at, text)) if *at == held.received_at => text,
            _ => {
                let text = stored(held.received_at);
                &self.moment.insert((held.received_at, text)).1
            }
        };
        let outline = &held.outline;
        self.insert.execute(params![
            bytes(&held.id.as_uuid()),
            sender,
            registration.as_ref().map(bytes),
            machine.as_ref().map(bytes),
            account.map(UserAccountId::as_str),
            held.user_cuid.as_ref().map(UserCuid::as_str),
            outline.event_id.map(|id| *id.as_uuid().as_bytes()),
            outline.event_type.as_deref().map(storable),
            outline.agent_id.as_deref().map(storable),
            outline.machine_uuid.map(|id| *id.as_uuid().as_bytes()),
            held.reason.as_str(),
            storable(&held.detail),
            held.body.as_deref(),
            held.body_sha256.as_bytes(),
            clamped(held.body_bytes),
            charge(held),
            held.seal.as_ref().map(Digest::as_bytes),
            moment,
        ])?;
        Ok(())
    }

    /// The entry that holds these bytes of this sender.
    fn find(&self, held: &NewHeld, (sender, digest): Key<'_>) -> rusqlite::Result<Option<Uuid>> {
        const NAMED: &str = "SELECT id FROM held_events
            WHERE event_id = ?1 AND sender = ?2 AND body_sha256 = ?3 AND state = 'held'";
        const UNNAMED: &str = "SELECT id FROM held_events
            WHERE event_id IS NULL AND sender = ?1 AND body_sha256 = ?2 AND state = 'held'";
        let id = |row: &rusqlite::Row<'_>| row.get(0).map(Uuid::from_bytes);
        let found = match held.outline.event_id {
            Some(event) => self
                .connection
                .prepare_cached(NAMED)?
                .query_row(params![bytes(&event.as_uuid()), sender, digest.as_bytes()], id),
            None => self.connection.prepare_cached(UNNAMED)?.query_row(params![sender, digest.as_bytes()], id),
        };
        found.optional()
    }
}

fn bytes(id: &Uuid) -> &[u8; 16] {
    id.as_bytes()
}

fn is_unique_violation(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|failure| failure.extended_code == ffi::SQLITE_CONSTRAINT_UNIQUE)
}
