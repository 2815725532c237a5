//! Registrations of agents, and their claim attempts (`docs/decisions/0005-agents.md`; the rules are in [`domain::claim`]).
//!
//! Every transaction that changes a registration first writes its `changed_at`. This locks the row, so that rows read later in the
//! transaction do not change, and other processes see that they have to read the registration again.

mod row;

use chrono::TimeDelta;
use domain::Timestamp;
use domain::agent_right::AgentRights;
use domain::claim::{Attempt, AttemptState, Claim, Registration};
use domain::confirm::ConfirmedVia;
use domain::ids::{RegistrationId, UserAccountId};
use domain::label::Label;
use domain::secret::SecretHash;
use domain::webhook::NotificationKind;
use serde_json::json;
use uuid::Uuid;

use self::row::{RegistrationRow, SELECT_REGISTRATION, SELECT_STANDING, StandingRow};
use crate::change::Change;
use crate::error::{Corrupt, StoreError};
use crate::machine::DETACH_APPROVED_BY;
use crate::mail::{QueuedMail, insert_mail};
use crate::notice::{Notice, Recipient};
use crate::operation::{During, Operation};
use crate::pool::{Tx, query, scalar};
use crate::row::{limit, parsed, secret_hash, storable, undecodable};
use crate::{Store, in_transaction, joined};

/// Result of starting a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStart {
    /// The attempt is live; earlier attempts have ended.
    Started,
    /// The maximum number of attempts was started in the window.
    TooMany {
        /// Time until another attempt is permitted.
        retry_after: TimeDelta,
    },
    /// The registration is claimed, revoked or unknown.
    Settled,
}

impl Store {
    /// Stores a registration and, for `service_auth`, its first attempt.
    #[boxed]
    pub async fn registration_create(
        &self,
        registration: &Registration,
        first: Option<&Attempt>,
    ) -> Result<(), StoreError> {
        const SQL: &str = "INSERT INTO registrations (id, registration_type, login_hint, claim_token_hash,
                claim_token_expires_at, created_at, ip_address, changed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $6)";
        let address = registration.ip_address.as_deref().map(storable);
        in_transaction!(&self.pool, |tx| {
            query(SQL)
                .bind(registration.id.as_uuid())
                .bind(registration.registration_type.as_str())
                .bind(registration.login_hint.as_ref().map(domain::ids::Email::as_str))
                .bind(registration.claim_token.as_bytes())
                .bind(registration.claim_token_expires)
                .bind(registration.created_at)
                .bind(address.as_deref())
                .execute(&mut *tx)
                .await?;
            if let Some(attempt) = first {
                insert_attempt(tx, attempt, registration.created_at).await?;
            }
            Ok(())
        })
        .during(Operation::CreateRegistration)
        .await
    }

    /// A registration with its newest attempt.
    #[boxed]
    pub async fn registration_by_id(
        &self,
        id: RegistrationId,
    ) -> Result<Option<(Registration, Option<Attempt>)>, StoreError> {
        const SQL: &str = joined!(SELECT_STANDING, " WHERE r.id = $1");
        let row: Option<StandingRow> =
            query(SQL).bind(id.as_uuid()).fetch_optional(&self.pool).during(Operation::ReadRegistration).await?;
        Ok(row.map(StandingRow::into_domain).transpose()?)
    }

    /// The same by the claim token. [`Registration::claim_grant`] decides whether the token is still valid.
    #[boxed]
    pub async fn registration_by_claim_token(
        &self,
        token: &SecretHash,
    ) -> Result<Option<(Registration, Option<Attempt>)>, StoreError> {
        const SQL: &str = joined!(SELECT_STANDING, " WHERE r.claim_token_hash = $1");
        let row: Option<StandingRow> = query(SQL)
            .bind(token.as_bytes())
            .fetch_optional(&self.pool)
            .during(Operation::FindRegistrationByItsClaimToken)
            .await?;
        Ok(row.map(StandingRow::into_domain).transpose()?)
    }

    /// The registration of an attempt in any state.
    #[boxed]
    pub async fn attempt_owner(&self, token: &SecretHash) -> Result<Option<RegistrationId>, StoreError> {
        const SQL: &str = "SELECT registration_id FROM claim_attempts WHERE token_hash = $1";
        let id: Option<Uuid> = scalar(SQL)
            .bind(token.as_bytes())
            .fetch_optional(&self.pool)
            .during(Operation::FindRegistrationOfAttempt)
            .await?;
        Ok(id.map(RegistrationId::from))
    }

    /// Starts an attempt and ends the live one, unless `starts_max` were started within `window` before `now`.
    #[boxed]
    pub async fn attempt_start(
        &self,
        attempt: &Attempt,
        starts_max: u32,
        window: TimeDelta,
        now: Timestamp,
    ) -> Result<AttemptStart, StoreError> {
        // The attempt in the window that has to expire before another is permitted.
        const FULL: &str = "SELECT created_at FROM claim_attempts WHERE registration_id = $1 AND created_at > $2
            ORDER BY number DESC LIMIT 1 OFFSET $3";
        let registration = attempt.registration.as_uuid();
        let room_needs = starts_max.saturating_sub(1);
        in_transaction!(
            &self.pool,
            |tx| {
                let locked = query(LOCK_UNCLAIMED).bind(registration).bind(now).execute(&mut *tx).await?;
                if locked == 0 {
                    return Ok(AttemptStart::Settled);
                }
                let oldest: Option<Timestamp> = scalar(FULL)
                    .bind(registration)
                    .bind(now - window)
                    .bind(i64::from(room_needs))
                    .fetch_optional(&mut *tx)
                    .await?;
                match oldest {
                    _ if starts_max == 0 => return Ok(AttemptStart::TooMany { retry_after: window }),
                    Some(oldest) => return Ok(AttemptStart::TooMany { retry_after: oldest + window - now }),
                    None => {}
                }
                query(END_ATTEMPT).bind(registration).execute(&mut *tx).await?;
                insert_attempt(tx, attempt, now).await?;
                self.announce_registration(tx, registration).await?;
                Ok(AttemptStart::Started)
            },
            commit if |outcome| *outcome == AttemptStart::Started
        )
        .during(Operation::StartClaim)
        .await
    }

    /// Counts a wrong code; the try that reaches `tries_max` ends the attempt. Returns the state of the attempt afterwards, or `None`,
    /// without counting, if it had ended or is unknown.
    #[boxed]
    pub async fn attempt_wrong_code(
        &self,
        token: &SecretHash,
        tries_max: u32,
        now: Timestamp,
    ) -> Result<Option<AttemptState>, StoreError> {
        const SQL: &str = "UPDATE claim_attempts SET wrong_tries = wrong_tries + 1,
                state = CASE WHEN wrong_tries + 1 >= $2 THEN 'burnt' ELSE state END
            WHERE token_hash = $1 AND state = 'live' AND expires_at > $3 RETURNING state";
        let state: Option<String> = in_transaction!(
            &self.pool,
            |tx| {
                let locked = scalar(LOCK_UNCLAIMED_OF_ATTEMPT).bind(token.as_bytes()).bind(now);
                let registration: Option<Uuid> = locked.fetch_optional(&mut *tx).await?;
                let count = scalar(SQL).bind(token.as_bytes()).bind(i64::from(tries_max)).bind(now);
                let state: Option<String> = count.fetch_optional(&mut *tx).await?;
                if let (Some(registration), Some(_)) = (registration, &state) {
                    self.announce_registration(tx, registration).await?;
                }
                Ok(state)
            },
            commit if Option::is_some
        )
        .during(Operation::CountWrongCode)
        .await?;
        Ok(state.map(|state| parsed("claim_attempts.state", &state)).transpose()?)
    }

    /// Claims the registration of a live attempt. Exactly one of concurrent calls returns `true`. It ends the tokens from before the
    /// claim and moves the agent's earlier events to the account. `via` names the credential with which the person confirmed; a revoked
    /// agent cannot confirm. `notice` is the mail about the claim, stored in the same transaction.
    #[boxed]
    pub async fn attempt_complete(
        &self,
        token: &SecretHash,
        claim: &Claim,
        via: ConfirmedVia,
        notice: Option<&QueuedMail>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const COMPLETE: &str = "UPDATE claim_attempts SET state = 'completed'
            WHERE token_hash = $1 AND state = 'live' AND expires_at > $2";
        in_transaction!(
            &self.pool,
            |tx| {
                if let Some(agent) = via.agent()
                    && !lock_agent(tx, agent).await?
                {
                    return Ok(false);
                }
                // A transaction that holds events of the agent shares this lock: events held earlier are visible below, and a transaction
                // that holds events later sees the claim.
                let registration: Option<Uuid> = scalar(LOCK_UNCLAIMED_OF_ATTEMPT)
                    .bind(token.as_bytes())
                    .bind(now)
                    .fetch_optional(&mut *tx)
                    .await?;
                let Some(registration) = registration else {
                    return Ok(false);
                };
                let rows_affected = query(COMPLETE).bind(token.as_bytes()).bind(now).execute(&mut *tx).await?;
                if rows_affected == 0 {
                    return Ok(false);
                }
                claim_locked(tx, registration.into(), claim, via, now).await?;
                if let Some(mail) = notice {
                    insert_mail(tx, mail, now).await?;
                }
                self.announce_registration(tx, registration).await?;
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::CompleteClaim)
        .await
    }

    /// Revokes a registration permanently, with its tokens and its live attempt; for its owner, or for an operator (`None`). Its
    /// confirmations end too: the agents that it claimed are revoked with their own confirmations, and computers that any of these agents
    /// approved are detached. `false` if there is no such valid registration.
    #[boxed]
    pub async fn registration_revoke(
        &self,
        id: RegistrationId,
        owner: Option<&UserAccountId>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE registrations SET revoked_at = $2, changed_at = $2
            WHERE id = $1 AND revoked_at IS NULL AND ($3 IS NULL OR account_id = $3)";
        // One level at a time: this waits for claims that such an agent is completing, and the next level sees them.
        const CONFIRMED: &str = "UPDATE registrations SET revoked_at = $2, changed_at = $2
            WHERE claimed_by = $1 AND revoked_at IS NULL RETURNING id";
        const END_TOKENS: &str =
            "UPDATE access_tokens SET revoked_at = $2 WHERE registration_id = $1 AND revoked_at IS NULL";
        in_transaction!(
            &self.pool,
            |tx| {
                let rows_affected = query(SQL)
                    .bind(id.as_uuid())
                    .bind(now)
                    .bind(owner.map(UserAccountId::as_str))
                    .execute(&mut *tx)
                    .await?;
                if rows_affected == 0 {
                    return Ok(false);
                }
                let mut ending = vec![id.as_uuid()];
                while let Some(agent) = ending.pop() {
                    let reason = match owner {
                        _ if agent != id.as_uuid() => "confirmed_by_revoked_agent",
                        Some(_) => "owner",
                        None => "operator",
                    };
                    self.notify_of_end(tx, agent, reason, now).await?;
                    let confirmed: Vec<Uuid> =
                        scalar(CONFIRMED).bind(agent).bind(now).fetch_all(&mut *tx).await?;
                    ending.extend(confirmed);
                    query(END_TOKENS).bind(agent).bind(now).execute(&mut *tx).await?;
                    query(END_ATTEMPT).bind(agent).execute(&mut *tx).await?;
                    query(DETACH_APPROVED_BY).bind(agent).execute(&mut *tx).await?;
                }
                self.announce(tx, &Change::Others).await?;
                self.record_act(tx, now).await?;
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::RevokeRegistration)
        .await
    }

    /// Notifies the owner that an agent is revoked, and of the computers that are detached with it.
    async fn notify_of_end(
        &self,
        tx: &mut Tx<'_>,
        agent: Uuid,
        reason: &'static str,
        now: Timestamp,
    ) -> Result<(), sqlx::Error> {
        const OWNER: &str = "SELECT account_id FROM registrations WHERE id = $1 AND account_id IS NOT NULL";
        const COMPUTERS: &str = "SELECT machine_uuid FROM machines WHERE attached_by = $1";
        if !self.notifies_owners() {
            return Ok(());
        }
        let owner: Option<String> = scalar(OWNER).bind(agent).fetch_optional(&mut *tx).await?;
        let Some(owner) = owner else { return Ok(()) };
        let computers: Vec<Uuid> = scalar(COMPUTERS).bind(agent).fetch_all(&mut *tx).await?;
        let to = Recipient::Account(&owner);
        let data = json!({ "agent_id": agent, "reason": reason });
        let mut notices = vec![Notice::new(NotificationKind::AgentRevoked, agent, to, now, data)];
        notices.extend(computers.into_iter().map(|machine| {
            let data = json!({ "machine_uuid": machine, "reason": "agent_revoked", "agent_id": agent });
            Notice::new(NotificationKind::ComputerDetached, machine, to, now, data)
        }));
        self.notify_owners(tx, &notices).await
    }

    /// Announces that a registration changed. Does nothing on SQLite, where no other process listens.
    pub(crate) async fn announce_registration(&self, tx: &mut Tx<'_>, registration: Uuid) -> Result<(), sqlx::Error> {
        const SQL: &str = "SELECT claim_token_hash FROM registrations WHERE id = $1";
        if !self.notifies || !tx.is_postgres() {
            return Ok(());
        }
        let token: Vec<u8> = scalar(SQL).bind(registration).fetch_one(&mut *tx).await?;
        let token = secret_hash("registrations.claim_token_hash", &token).map_err(undecodable)?;
        self.announce(tx, &Change::Registration(token)).await
    }

    /// Dependants of an agent: agents that it confirmed, directly or indirectly, and computers that any of these approved.
    #[boxed]
    pub async fn confirmed_by(&self, agent: RegistrationId) -> Result<Confirmed, StoreError> {
        const SQL: &str = "WITH RECURSIVE ending (id) AS (SELECT id FROM registrations WHERE id = $1
                UNION SELECT r.id FROM registrations r JOIN ending e ON r.claimed_by = e.id WHERE r.revoked_at IS NULL)
            SELECT (SELECT COUNT(*) FROM ending WHERE id <> $1) AS agents,
                (SELECT COUNT(*) FROM machines m JOIN ending e ON m.attached_by = e.id) AS computers";
        let (agents, computers): (i64, i64) =
            query(SQL).bind(agent.as_uuid()).fetch_one(&self.pool).during(Operation::CountConfirmationsOfAgent).await?;
        Ok(Confirmed { agents: agents.max(0).unsigned_abs(), computers: computers.max(0).unsigned_abs() })
    }

    /// Claim tokens of registrations that changed at `since` or later, earliest change first, for reading changes of other processes.
    #[boxed]
    pub async fn registrations_changed_since(
        &self,
        since: Timestamp,
        rows_max: usize,
    ) -> Result<Vec<(SecretHash, Timestamp)>, StoreError> {
        const SQL: &str = "SELECT claim_token_hash, changed_at FROM registrations
            WHERE changed_at >= $1 ORDER BY changed_at, id LIMIT $2";
        let rows: Vec<(Vec<u8>, Timestamp)> = query(SQL)
            .bind(since)
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListRegistrationsThatChanged)
            .await?;
        let read = |(hash, at): (Vec<u8>, Timestamp)| Ok((secret_hash("registrations.claim_token_hash", &hash)?, at));
        Ok(rows.into_iter().map(read).collect::<Result<_, Corrupt>>()?)
    }

    /// The agents that an account claimed, newest first; revoked agents come last.
    #[boxed]
    pub async fn agents_of_account(
        &self,
        account: &UserAccountId,
        rows_max: usize,
    ) -> Result<Vec<Registration>, StoreError> {
        const SQL: &str = joined!(
            SELECT_REGISTRATION,
            " WHERE r.account_id = $1
                ORDER BY (r.revoked_at IS NOT NULL), r.created_at DESC, r.id DESC LIMIT $2"
        );
        let rows: Vec<RegistrationRow> = query(SQL)
            .bind(account.as_str())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListAgentsOfAccount)
            .await?;
        Ok(rows.into_iter().map(Registration::try_from).collect::<Result<_, Corrupt>>()?)
    }

    /// Sets or removes the name of an agent of an account; `false` if the account has no such agent.
    #[boxed]
    pub async fn agent_label_set(
        &self,
        id: RegistrationId,
        owner: &UserAccountId,
        label: Option<&Label>,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE registrations SET label = $3 WHERE id = $1 AND account_id = $2";
        let rows_affected = query(SQL)
            .bind(id.as_uuid())
            .bind(owner.as_str())
            .bind(label.map(Label::as_str))
            .execute(self.pool.writer())
            .during(Operation::NameAgent)
            .await?;
        Ok(rows_affected == 1)
    }

    /// Registrations for operators, newest first: all, claimed or not, or the registrations of an account.
    #[boxed]
    pub async fn agents(&self, account: Option<&UserAccountId>, rows_max: usize) -> Result<Vec<Agent>, StoreError> {
        const ALL: &str = joined!(SELECT_REGISTRATION, " ORDER BY r.id DESC LIMIT $1");
        const OF_ACCOUNT: &str =
            joined!(SELECT_REGISTRATION, " WHERE r.account_id = $2 ORDER BY r.created_at DESC, r.id DESC LIMIT $1");
        let rows = match account {
            None => query(ALL).bind(limit(rows_max)),
            Some(account) => query(OF_ACCOUNT).bind(limit(rows_max)).bind(account.as_str()),
        };
        let rows: Vec<AgentRow> = rows.fetch_all(&self.pool).during(Operation::ListAgents).await?;
        Ok(rows.into_iter().map(Agent::try_from).collect::<Result<_, Corrupt>>()?)
    }
}

/// The number of confirmations by an agent for its person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmed {
    /// Agents that are not revoked.
    pub agents: u64,
    /// Attached computers that it approved.
    pub computers: u64,
}

/// A registration and how it was claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The registration of the agent.
    pub registration: Registration,
    /// The credential with which the person confirmed.
    pub claimed_via: Option<String>,
    /// The agent that confirmed, if one did.
    pub claimed_by: Option<RegistrationId>,
}

crate::row! {
    struct AgentRow {
        registration: RegistrationRow,
        claimed_via: Option<String>,
        claimed_by: Option<Uuid>,
    }
}

impl TryFrom<AgentRow> for Agent {
    type Error = Corrupt;

    fn try_from(row: AgentRow) -> Result<Self, Corrupt> {
        Ok(Self {
            registration: row.registration.try_into()?,
            claimed_via: row.claimed_via,
            claimed_by: row.claimed_by.map(RegistrationId::from),
        })
    }
}

/// Locks a registration that may still be claimed, and updates its `changed_at`.
const LOCK_UNCLAIMED: &str = "UPDATE registrations SET changed_at = $2
    WHERE id = $1 AND claimed_at IS NULL AND revoked_at IS NULL RETURNING id";

/// The same, by an attempt of the registration.
const LOCK_UNCLAIMED_OF_ATTEMPT: &str = "UPDATE registrations SET changed_at = $2
    WHERE id = (SELECT registration_id FROM claim_attempts WHERE token_hash = $1)
        AND claimed_at IS NULL AND revoked_at IS NULL RETURNING id";

/// Locks the agent that confirms, before all other rows; `false` if it was revoked.
pub(crate) async fn lock_agent(tx: &mut Tx<'_>, agent: RegistrationId) -> Result<bool, sqlx::Error> {
    const SQL: &str = "UPDATE registrations SET id = id WHERE id = $1 AND revoked_at IS NULL";
    Ok(query(SQL).bind(agent.as_uuid()).execute(tx).await? == 1)
}

/// Locks a registration that may still be claimed; `false` if it is claimed, revoked or deleted.
pub(crate) async fn lock_unclaimed(
    tx: &mut Tx<'_>,
    registration: RegistrationId,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    Ok(query(LOCK_UNCLAIMED).bind(registration.as_uuid()).bind(now).execute(tx).await? == 1)
}

/// Claims a registration that the caller has locked: ends its live attempt and the tokens from before the claim, and moves its earlier
/// events to the account. An agent that another agent confirms gets the rights of the confirming agent.
pub(crate) async fn claim_locked(
    tx: &mut Tx<'_>,
    registration: RegistrationId,
    claim: &Claim,
    via: ConfirmedVia,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    const CLAIM: &str = "UPDATE registrations
        SET account_id = $2, person_id = $3, claimed_email = $4, claimed_at = $5, claimed_via = $6, claimed_by = $7,
            rights = CASE WHEN $7 IS NULL THEN $8 ELSE (SELECT c.rights FROM registrations c WHERE c.id = $7) END
        WHERE id = $1 AND claimed_at IS NULL AND revoked_at IS NULL";
    const END_TOKENS: &str = "UPDATE access_tokens SET revoked_at = $2
        WHERE registration_id = $1 AND scope = 'svc.events' AND revoked_at IS NULL";
    const ADOPT_HELD: &str = "UPDATE held_events SET account_id = $2 WHERE registration_id = $1 AND account_id IS NULL";
    let id = registration.as_uuid();
    query(CLAIM)
        .bind(id)
        .bind(claim.account.as_str())
        .bind(claim.person.as_uuid())
        .bind(claim.email.as_str())
        .bind(claim.at)
        .bind(via.as_str())
        .bind(via.agent().map(|agent| agent.as_uuid()))
        .bind(claim.rights.map(AgentRights::as_text))
        .execute(&mut *tx)
        .await?;
    query(END_ATTEMPT).bind(id).execute(&mut *tx).await?;
    query(END_TOKENS).bind(id).bind(now).execute(&mut *tx).await?;
    query(ADOPT_HELD).bind(id).bind(claim.account.as_str()).execute(&mut *tx).await?;
    Ok(())
}

/// Ends the live attempt of a registration.
const END_ATTEMPT: &str =
    "UPDATE claim_attempts SET state = 'superseded' WHERE registration_id = $1 AND state = 'live'";

/// Adds an attempt with the next number of its registration, which the caller has locked.
async fn insert_attempt(tx: &mut Tx<'_>, attempt: &Attempt, now: Timestamp) -> Result<(), sqlx::Error> {
    const SQL: &str = "INSERT INTO claim_attempts (token_hash, registration_id, number, sealed_code, email, created_at,
            expires_at, wrong_tries, state)
        SELECT $1, $2, COALESCE(MAX(number), 0) + 1, $3, $4, $5, $6, $7, $8 FROM claim_attempts
        WHERE registration_id = $2";
    query(SQL)
        .bind(attempt.token.as_bytes())
        .bind(attempt.registration.as_uuid())
        .bind(&attempt.sealed_code[..])
        .bind(attempt.email.as_ref().map(domain::ids::Email::as_str))
        .bind(now)
        .bind(attempt.expires_at)
        .bind(i64::from(attempt.wrong_tries))
        .bind(attempt.state.as_str())
        .execute(tx)
        .await
        .map(drop)
}
