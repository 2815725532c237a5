//! The levels that people, agents and computers set (`docs/decisions/0025-effective-consent-level.md` and `docs/decisions/0053-persons-level-is-the-upper-bound.md`).

use domain::consent::change::{ConsentChange, after};
use domain::consent::{ConsentLevel, ConsentRule};
use domain::envelope::Lane;
use domain::ids::{MachineUuid, UserAccountId, UserCuid};
use domain::{Rng, Timestamp};
use sqlx_macros::FromRow;
use uuid::Uuid;

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::outbox::{ChainRow, OutboxEvent, insert_event, move_chain};
use crate::pool::{query, scalar};
use crate::row::{parsed, parsed_opt, storable, undecodable};
use crate::{Store, in_transaction};

/// A level of one identity, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentRecord {
    /// Identity that the level applies to.
    pub user_cuid: UserCuid,
    /// Where, and how much.
    pub rule: ConsentRule,
}

impl Store {
    /// All levels of an identity, the general ones first.
    pub async fn consent_rules(&self, user_cuid: &UserCuid) -> Result<Vec<ConsentRule>, StoreError> {
        const SQL: &str = "SELECT user_cuid, machine_uuid, lane, level, set_by FROM consent_levels WHERE user_cuid = $1
            ORDER BY COALESCE(machine_uuid, $2), COALESCE(lane, ''), set_by = 'computer'";
        let rows: Vec<RecordRow> = query(SQL)
            .bind(user_cuid.as_str())
            .bind(Uuid::nil())
            .fetch_all(&self.pool)
            .during(Operation::ReadConsent)
            .await?;
        Ok(rows
            .into_iter()
            .map(|row| row.try_into().map(|record: ConsentRecord| record.rule))
            .collect::<Result<_, _>>()?)
    }

    /// All levels of all identities that are linked to an account, identity by identity: those for all computers, and those of computers
    /// that are or were attached to it. Levels that a computer which only names an identity set for itself are excluded.
    pub async fn consent_of_account(&self, account: &UserAccountId) -> Result<Vec<ConsentRecord>, StoreError> {
        const SQL: &str = "SELECT c.user_cuid, c.machine_uuid, c.lane, c.level, c.set_by
            FROM identities i JOIN consent_levels c ON c.user_cuid = i.user_cuid WHERE i.account_id = $1
                AND (c.machine_uuid IS NULL OR EXISTS (SELECT 1 FROM attachments a WHERE a.account_id = $1
                    AND a.machine_uuid = c.machine_uuid AND a.user_cuid = c.user_cuid))
            ORDER BY c.user_cuid, COALESCE(c.machine_uuid, $2), COALESCE(c.lane, ''),
                c.set_by = 'computer'";
        let rows: Vec<RecordRow> = query(SQL)
            .bind(account.as_str())
            .bind(Uuid::nil())
            .fetch_all(&self.pool)
            .during(Operation::ReadConsentOfAccount)
            .await?;
        Ok(rows.into_iter().map(ConsentRecord::try_from).collect::<Result<_, _>>()?)
    }

    /// Sets one level for each of these identities, for one computer or all, for one lane or all; all or none. A computer's
    /// level of itself is a row beside its person's. Gives the identities whose level this changed. Each change is reported by an event that is written with it and waits in the outbox.
    /// Identities must be known.
    pub async fn consent_set(
        &self,
        identities: &[UserCuid],
        rule: &ConsentRule,
        reason: Option<&str>,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<Vec<UserCuid>, StoreError> {
        // Locked first: the levels of an identity, and its chain, change one after the other.
        const LOCK: &str =
            "UPDATE identities SET control_machine_uuid = COALESCE(control_machine_uuid, $2) WHERE user_cuid = $1
            RETURNING account_id, control_machine_uuid, control_chain_epoch, control_seq, control_prev";
        const BEFORE: &str = "SELECT level FROM consent_levels
            WHERE user_cuid = $1 AND machine_uuid IS NOT DISTINCT FROM $2 AND lane IS NOT DISTINCT FROM $3
                AND (set_by = 'computer') = ($4 = 'computer')";
        const CHANGE: &str = "UPDATE consent_levels SET level = $4, reason = $5, changed_at = $6, set_by = $7
            WHERE user_cuid = $1 AND machine_uuid IS NOT DISTINCT FROM $2 AND lane IS NOT DISTINCT FROM $3
                AND (set_by = 'computer') = ($7 = 'computer') AND level <> $4";
        const ADD: &str =
            "INSERT INTO consent_levels (user_cuid, machine_uuid, lane, level, reason, changed_at, set_by)
            VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
        let machine = rule.machine.map(|machine| machine.as_uuid());
        let lane = rule.lane.map(Lane::as_str);
        let author = rule.set_by.as_str();
        let reason = reason.map(storable);
        in_transaction!(&self.pool, |tx| {
            let mut changed = Vec::new();
            // In one order, so that two calls for the same identities do not wait for each other in a circle.
            let mut identities: Vec<&UserCuid> = identities.iter().collect();
            identities.sort_by_key(|identity| identity.as_str());
            for user_cuid in identities {
                let control = rng.uuid_v7(now);
                let chain: Option<ChainRow> =
                    query(LOCK).bind(user_cuid.as_str()).bind(control).fetch_optional(&mut *tx).await?;
                let before: Option<String> = scalar(BEFORE)
                    .bind(user_cuid.as_str())
                    .bind(machine)
                    .bind(lane)
                    .bind(author)
                    .fetch_optional(&mut *tx)
                    .await?;
                let done = query(if before.is_some() { CHANGE } else { ADD })
                    .bind(user_cuid.as_str())
                    .bind(machine)
                    .bind(lane)
                    .bind(rule.level.as_str())
                    .bind(reason.as_deref())
                    .bind(now)
                    .bind(author)
                    .execute(&mut *tx)
                    .await?;
                if let Some(chain) = chain.filter(|_| done > 0) {
                    let chain = chain.read().map_err(undecodable)?;
                    let report = ConsentChange {
                        identity: user_cuid.clone(),
                        account: chain.account,
                        rule: rule.clone(),
                        previous: before.as_deref().and_then(|level| level.parse().ok()),
                        reason: reason.as_deref().map(str::to_owned),
                    };
                    let id = rng.uuid_v7(now);
                    let written = report.event(id.into(), chain.machine, &chain.position, now);
                    let event = OutboxEvent { id: id.into(), account: report.account, body: written.body };
                    insert_event(tx, user_cuid, &event, &chain.position, now).await?;
                    move_chain(tx, user_cuid, &after(&chain.position, written.seal)).await?;
                    changed.push(user_cuid.clone());
                }
            }
            Ok(changed)
        })
        .during(Operation::SetConsent)
        .await
    }
}

#[derive(FromRow)]
struct RecordRow {
    user_cuid: String,
    machine_uuid: Option<Uuid>,
    lane: Option<String>,
    level: String,
    set_by: String,
}

impl TryFrom<RecordRow> for ConsentRecord {
    type Error = Corrupt;

    fn try_from(row: RecordRow) -> Result<Self, Corrupt> {
        let lane = parsed_opt("consent_levels.lane", row.lane.as_deref())?;
        let level: ConsentLevel = parsed("consent_levels.level", &row.level)?;
        let machine = row.machine_uuid.map(MachineUuid::from);
        Ok(Self {
            user_cuid: parsed("consent_levels.user_cuid", &row.user_cuid)?,
            rule: ConsentRule { machine, lane, level, set_by: parsed("consent_levels.set_by", &row.set_by)? },
        })
    }
}
