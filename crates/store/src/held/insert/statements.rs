//! Statements that hold events. They have many rows: on PostgreSQL a round trip costs more than a row.

use std::collections::HashMap;

use domain::ids::{HeldId, UserAccountId, UserCuid};
use uuid::Uuid;

use super::{Candidate, Key, Ledger, charge, clamped, inserted};
use crate::held::{HeldOutcome, NewHeld, Sender};
use crate::pool::{QueryBuilder, Tx};
use crate::row::{chunks, storable};

/// Inserts the events that were admitted.
pub(super) async fn insert(
    tx: &mut Tx<'_>,
    candidates: &[Candidate<'_>],
    outcomes: &[HeldOutcome],
    ledger: &Ledger<'_>,
) -> Result<(), sqlx::Error> {
    let rows: Vec<(&NewHeld, &str)> = inserted(candidates, outcomes).collect();
    for chunk in chunks(&rows) {
        let mut sql = QueryBuilder::new(
            "INSERT INTO held_events (id, sender, registration_id, machine_uuid, account_id, user_cuid, event_id,
                event_type, agent_id, event_machine_uuid, reason, detail, body, body_sha256, body_bytes,
                charged_bytes, seal, received_at, state) ",
        );
        sql.push_values(chunk, |mut row, (held, sender)| {
            let (registration, machine) = match &held.sender {
                Sender::Registration(id) => (Some(id.as_uuid()), None),
                Sender::Machine(id) => (None, Some(id.as_uuid())),
                Sender::Account(_) => (None, None),
            };
            let outline = &held.outline;
            row.push_bind(held.id.as_uuid())
                .push_bind(*sender)
                .push_bind(registration)
                .push_bind(machine)
                .push_bind(ledger.account(held).map(UserAccountId::as_str))
                .push_bind(held.user_cuid.as_ref().map(UserCuid::as_str))
                .push_bind(outline.event_id.map(|id| id.as_uuid()))
                .push_bind(outline.event_type.as_deref().map(storable))
                .push_bind(outline.agent_id.as_deref().map(storable))
                .push_bind(outline.machine_uuid.map(|id| id.as_uuid()))
                .push_bind(held.reason.as_str())
                .push_bind(storable(&held.detail))
                .push_bind(held.body.as_deref())
                .push_bind(&held.body_sha256.as_bytes()[..])
                .push_bind(clamped(held.body_bytes))
                .push_bind(charge(held))
                .push_bind(held.seal.as_ref().map(|seal| &seal.as_bytes()[..]))
                .push_bind(held.received_at)
                .push_bind("held");
        });
        sql.build().execute(&mut *tx).await?;
    }
    Ok(())
}

/// Stores the reasons of repetitions.
pub(super) async fn judge_again(
    tx: &mut Tx<'_>,
    candidates: &[Candidate<'_>],
    outcomes: &[HeldOutcome],
) -> Result<(), sqlx::Error> {
    let repeated: Vec<(Uuid, &NewHeld)> = candidates
        .iter()
        .zip(outcomes)
        .filter_map(|((held, _), outcome)| match outcome {
            HeldOutcome::AlreadyHeld(id) => Some((id.as_uuid(), *held)),
            _ => None,
        })
        .collect();
    for chunk in chunks(&repeated) {
        let mut sql = QueryBuilder::new("WITH judged (id, reason, detail) AS (");
        sql.push_values(chunk, |mut row, (id, held)| {
            row.push_bind(*id).push_bind(held.reason.as_str()).push_bind(storable(&held.detail));
        });
        sql.push(
            ") UPDATE held_events SET reason = judged.reason, detail = judged.detail FROM judged
            WHERE held_events.id = judged.id
                AND (held_events.reason <> judged.reason OR held_events.detail <> judged.detail)",
        );
        sql.build().execute(&mut *tx).await?;
    }
    Ok(())
}

/// The entries that hold bodies already.
pub(super) async fn entries_of<'a>(
    tx: &mut Tx<'_>,
    candidates: &[Candidate<'a>],
) -> Result<HashMap<Key<'a>, HeldId>, sqlx::Error> {
    let mut entries = HashMap::new();
    let places: Vec<(i64, Candidate<'a>)> = (0..).zip(candidates.iter().copied()).collect();
    for chunk in chunks(&places) {
        let mut sql = QueryBuilder::new("WITH wanted (place, event_id, sender, body_sha256) AS (");
        sql.push_values(chunk, |mut row, (place, (held, (sender, digest)))| {
            row.push_bind(*place).push_bind(held.outline.event_id.map(|id| id.as_uuid()));
            row.push_bind(*sender).push_bind(&digest.as_bytes()[..]);
        });
        // One subquery for each of the two unique indexes.
        sql.push(
            ") SELECT place, id FROM (SELECT place, COALESCE(
                (SELECT h.id FROM held_events h WHERE h.event_id = wanted.event_id AND h.sender = wanted.sender
                    AND h.body_sha256 = wanted.body_sha256 AND h.state = 'held'),
                (SELECT h.id FROM held_events h WHERE wanted.event_id IS NULL AND h.event_id IS NULL
                    AND h.sender = wanted.sender AND h.body_sha256 = wanted.body_sha256 AND h.state = 'held')) AS id
            FROM wanted) AS entries WHERE id IS NOT NULL",
        );
        let rows: Vec<(i64, Uuid)> = sql.build().fetch_all(&mut *tx).await?;
        for (place, id) in rows {
            if let Some((_, key)) = usize::try_from(place).ok().and_then(|place| candidates.get(place)) {
                entries.insert(*key, id.into());
            }
        }
    }
    Ok(entries)
}

/// Adds bytes to senders, which locks their rows. Returns the bytes of each, and of all senders before.
pub(super) async fn add_to_senders(
    tx: &mut Tx<'_>,
    bytes: &[(&str, i64)],
) -> Result<Vec<(String, i64, i64)>, sqlx::Error> {
    let mut senders = Vec::new();
    for chunk in chunks(bytes) {
        let mut sql = QueryBuilder::new("INSERT INTO held_senders (sender, bytes) ");
        sql.push_values(chunk, |mut row, (sender, bytes)| {
            row.push_bind(*sender).push_bind(*bytes);
        });
        sql.push(
            " ON CONFLICT (sender) DO UPDATE SET bytes = held_senders.bytes + excluded.bytes
            RETURNING sender, bytes, (SELECT CAST(SUM(t.bytes) AS BIGINT) FROM held_totals t)",
        );
        senders.append(&mut sql.build().fetch_all(&mut *tx).await?);
    }
    Ok(senders)
}
