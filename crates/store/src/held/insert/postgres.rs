//! Many rows per statement: a round trip costs more than a row.

use domain::ids::UserAccountId;
use uuid::Uuid;

use super::{Candidate, Key, Ledger, charge, clamped};
use crate::held::{HeldOutcome, NewHeld, Sender};
use crate::pool::{QueryBuilder, Tx};
use crate::row::{chunks, storable};

/// Step 3: one outcome for each event. The statements look each body up in the index, also with a plan that was made when the table was empty.
pub(super) async fn hold<'a>(
    tx: &mut Tx<'_>,
    candidates: &[Candidate<'a>],
    ledger: &mut Ledger<'a>,
) -> Result<Vec<HeldOutcome>, sqlx::Error> {
    let (mut named, mut unnamed) = (Vec::new(), Vec::new());
    for (place, (held, (sender, digest))) in (0_i64..).zip(candidates) {
        match held.outline.event_id {
            Some(event) => named.push((place, event.as_uuid(), *sender, *digest)),
            None => unnamed.push((place, *sender, *digest)),
        }
    }
    for chunk in chunks(&named) {
        let mut sql = QueryBuilder::new("WITH wanted (place, event_id, sender, body_sha256) AS (");
        sql.push_values(chunk, |mut row, (place, event, sender, digest)| {
            row.push_bind(*place).push_bind(*event).push_bind(*sender).push_bind(&digest.as_bytes()[..]);
        });
        sql.push(
            ") SELECT place, id FROM (SELECT place, (SELECT h.id FROM held_events h
                WHERE h.event_id = wanted.event_id AND h.sender = wanted.sender
                    AND h.body_sha256 = wanted.body_sha256 AND h.state = 'held') AS id
            FROM wanted) AS found WHERE id IS NOT NULL",
        );
        ledger.are_held(candidates, sql.build().fetch_all(&mut *tx).await?);
    }
    for chunk in chunks(&unnamed) {
        let mut sql = QueryBuilder::new("WITH wanted (place, sender, body_sha256) AS (");
        sql.push_values(chunk, |mut row, (place, sender, digest)| {
            row.push_bind(*place).push_bind(*sender).push_bind(&digest.as_bytes()[..]);
        });
        sql.push(
            ") SELECT place, id FROM (SELECT place, (SELECT h.id FROM held_events h
                WHERE h.event_id IS NULL AND h.sender = wanted.sender
                    AND h.body_sha256 = wanted.body_sha256 AND h.state = 'held') AS id
            FROM wanted) AS found WHERE id IS NOT NULL",
        );
        ledger.are_held(candidates, sql.build().fetch_all(&mut *tx).await?);
    }

    let outcomes: Vec<HeldOutcome> = candidates.iter().map(|(held, key)| ledger.admit(held, *key)).collect();
    let admitted: Vec<(&NewHeld, &str)> = candidates
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| matches!(outcome, HeldOutcome::Held(_)))
        .map(|((held, (sender, _)), _)| (*held, *sender))
        .collect();
    for chunk in chunks(&admitted) {
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
                .push_bind(held.user_cuid.as_ref().map(domain::ids::UserCuid::as_str))
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
    let repeated: Vec<(Uuid, &NewHeld)> = candidates
        .iter()
        .zip(&outcomes)
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
    Ok(outcomes)
}

impl<'a> Ledger<'a> {
    /// Records the bodies that are held already: place in the batch, entry.
    fn are_held(&mut self, candidates: &[Candidate<'a>], rows: Vec<(i64, Uuid)>) {
        for (place, id) in rows {
            if let Some((_, key)) = usize::try_from(place).ok().and_then(|place| candidates.get(place)) {
                self.held.insert(*key, id.into());
            }
        }
    }

    fn admit(&mut self, held: &NewHeld, key: Key<'a>) -> HeldOutcome {
        self.refusal(held, &key).unwrap_or_else(|| self.take(held, key))
    }
}
