//! Computers: their secrets, their identity, and their account (`docs/decisions/0002-accounts-and-computers.md` and
//! `docs/decisions/0004-device-codes.md`).

use chrono::TimeDelta;
use domain::consent::ConsentRule;
use domain::consent::pause::Pauses;
use domain::device::approval::{ApprovalRefusal, ComputerFacts};
use domain::held::MachineFacts;
use domain::ids::{MachineUuid, RegistrationId, UserAccountId, UserCuid};
use domain::label::Label;
use domain::log_part::LogPart;
use domain::secret::SecretHash;
use domain::webhook::NotificationKind;
use domain::{Rng, Timestamp};
use serde_json::json;
use uuid::Uuid;

use crate::account::IDENTITY_ADD;
use crate::api_key::REVOKE_OF_MACHINE;
use crate::consent::baseline::inherit_baseline;
use crate::error::{Corrupt, StoreError};
use crate::log_part::{part, stored};
use crate::notice::{Notice, Recipient};
use crate::operation::{During, Operation};
use crate::pool::{QueryBuilder, Tx, probe, query, scalar};
use crate::probes::KNOWN_COLUMNS;
use crate::probes::rows::{ComputerRow, KnownRow};
use crate::row::{chunks, limit, parsed, parsed_opt, storable, undecodable};
use crate::{Store, in_transaction, joined, probes};

/// Facts about the computer that presented its secret, read by one query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownMachine {
    /// Its identity, its account and its consent levels.
    pub facts: MachineFacts,
    /// Whether events from it are held: only then can a forwarded event release one.
    pub has_held: bool,
    /// Stored time of its last request.
    pub last_seen_at: Timestamp,
}

/// A computer, as its owner and operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Computer {
    /// UUID of the computer.
    pub machine_uuid: MachineUuid,
    /// The identity of its local user.
    pub user_cuid: UserCuid,
    /// Name that it reported.
    pub name: Option<String>,
    /// The account that it is attached to.
    pub account: Option<UserAccountId>,
    /// Time of its registration.
    pub first_seen_at: Timestamp,
    /// Stored time of its last request.
    pub last_seen_at: Timestamp,
    /// Time of its attachment.
    pub attached_at: Option<Timestamp>,
    /// The agent that approved the attachment; `None` if a person or an operator did.
    pub attached_by: Option<RegistrationId>,
    /// Whether its secret is valid; `false` after its owner detached it.
    pub has_secret: bool,
    /// Name that its account set.
    pub label: Option<Label>,
}

impl Computer {
    /// The name that its account set, or its own.
    pub fn shown_name(&self) -> Option<&str> {
        self.label.as_ref().map(Label::as_str).or(self.name.as_deref())
    }
}

/// A computer that registers.
#[derive(Debug, Clone)]
pub struct NewMachine<'a> {
    /// UUID of the computer.
    pub machine_uuid: MachineUuid,
    /// The identity of its local user; created if it is unknown.
    pub user_cuid: &'a UserCuid,
    /// Name that the computer reported.
    pub name: Option<&'a str>,
    /// SHA-256 of its new secret.
    pub secret: SecretHash,
    /// The part of the log for its chains, unless it was registered before.
    pub part: LogPart,
}

/// Result of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// The computer is registered now.
    Registered,
    /// The id is known already, attached or not, with a secret or without.
    AlreadyRegistered,
}

impl Store {
    /// Registers a computer. The id must be neither a machine id of the service's own chains nor the id of a computer that was removed
    /// because it was never attached.
    #[boxed]
    pub async fn machine_register(&self, new: &NewMachine<'_>, now: Timestamp) -> Result<Register, StoreError> {
        const SQL: &str =
            "INSERT INTO machines (machine_uuid, user_cuid, name, secret_hash, first_seen_at, last_seen_at, log_part)
            SELECT $1, $2, $3, $4, $5, $5, COALESCE((SELECT log_part FROM machine_parts WHERE machine_uuid = $1), $6)
            WHERE NOT EXISTS (SELECT 1 FROM identities WHERE control_machine_uuid = $1)
                AND NOT EXISTS (SELECT 1 FROM installation WHERE installation_id = $1)
                AND NOT EXISTS (SELECT 1 FROM spent_machines WHERE machine_uuid = $1)
            ON CONFLICT (machine_uuid) DO NOTHING";
        const PART: &str = "INSERT INTO machine_parts (machine_uuid, log_part)
            SELECT machine_uuid, log_part FROM machines WHERE machine_uuid = $1 AND log_part > 0
            ON CONFLICT (machine_uuid) DO NOTHING";
        let name = new.name.map(storable);
        in_transaction!(
            &self.pool,
            |tx| {
                query(IDENTITY_ADD).bind(new.user_cuid.as_str()).bind(now).execute(&mut *tx).await?;
                let made = query(SQL)
                    .bind(new.machine_uuid.as_uuid())
                    .bind(new.user_cuid.as_str())
                    .bind(name.as_deref())
                    .bind(new.secret.as_bytes())
                    .bind(now)
                    .bind(stored(new.part))
                    .execute(&mut *tx)
                    .await?;
                if made == 0 {
                    return Ok(Register::AlreadyRegistered);
                }
                if !new.part.is_first() {
                    query(PART).bind(new.machine_uuid.as_uuid()).execute(&mut *tx).await?;
                }
                self.record_act(tx, now).await?;
                Ok(Register::Registered)
            },
            commit if |outcome| *outcome == Register::Registered
        )
        .during(Operation::RegisterMachine)
        .await
    }

    /// The computer with this secret. Every submission of events starts with this lookup.
    #[boxed]
    pub async fn machine_by_secret(&self, secret: &SecretHash) -> Result<Option<KnownMachine>, StoreError> {
        let rows = probe(probes::MACHINE_BY_SECRET).bind(secret.as_bytes()).fetch_all(&self.pool);
        let rows = rows.during(Operation::FindMachineByItsSecret).await?;
        Ok(known(rows.iter())?)
    }

    /// The computers with several secrets, in order. On PostgreSQL a single statement, to save round trips.
    #[boxed]
    pub async fn machines_by_secret(&self, secrets: &[SecretHash]) -> Result<Vec<Option<KnownMachine>>, StoreError> {
        // One row per level of a computer, and one row without a level if it has none. PostgreSQL caches a plan from the time when the
        // tables were empty, which would always scan them. `OFFSET 0` keeps each subquery separate, so that it is an index lookup at any
        // size; and it hides the length of the array, which would make the planner plan again.
        const SQL: &str = joined!(
            "SELECT asked.secret AS secret_hash, ",
            KNOWN_COLUMNS,
            " FROM (SELECT $1::BYTEA[] AS secrets OFFSET 0) AS p CROSS JOIN LATERAL unnest(p.secrets) AS asked (secret)
            CROSS JOIN LATERAL (SELECT * FROM machines WHERE secret_hash = asked.secret OFFSET 0) AS m
            LEFT JOIN LATERAL (SELECT * FROM consent_levels l
                WHERE l.user_cuid = m.user_cuid AND (l.machine_uuid IS NULL OR l.machine_uuid = m.machine_uuid)
                OFFSET 0) AS c ON TRUE"
        );
        if !self.pool.is_postgres() {
            let mut machines = Vec::with_capacity(secrets.len());
            for secret in secrets {
                machines.push(self.machine_by_secret(secret).await?);
            }
            return Ok(machines);
        }
        let mut hashes: Vec<&[u8]> = secrets.iter().map(SecretHash::as_bytes).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let rows: Vec<SecretRow> =
            query(SQL).bind(hashes).fetch_all(&self.pool).during(Operation::FindMachinesByTheirSecrets).await?;
        let of = |secret: &SecretHash| {
            let own = rows.iter().filter(|row| row.secret_hash == secret.as_bytes());
            known(own.map(|row| &row.machine))
        };
        Ok(secrets.iter().map(of).collect::<Result<_, _>>()?)
    }

    /// The same for a computer that an account names. The caller must check its account.
    #[boxed]
    pub async fn machine_facts(&self, machine: MachineUuid) -> Result<Option<KnownMachine>, StoreError> {
        let rows = probe(probes::MACHINE).bind(machine.as_uuid()).fetch_all(&self.pool);
        let rows = rows.during(Operation::ReadMachine).await?;
        Ok(known(rows.iter())?)
    }

    /// Attaches a computer to an account and links its identity, both or neither. Attaching it again to the same account succeeds.
    #[boxed]
    pub async fn machine_attach(
        &self,
        machine: MachineUuid,
        account: &UserAccountId,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<Result<(), ApprovalRefusal>, StoreError> {
        in_transaction!(
            &self.pool,
            |tx| {
                let Some((identity, attached_to)) = lock_machine(tx, machine).await? else {
                    return Ok(Err(ApprovalRefusal::MachineNotRegistered));
                };
                let computer = lock_identity(tx, identity, attached_to, machine).await?;
                match computer.attach(account) {
                    Ok(links) => {
                        let new = Attachment { machine, identity: &computer.identity, account, links };
                        attach_machine(self, tx, new, now, rng).await?;
                        self.record_act(tx, now).await.map(Ok)
                    }
                    Err(refusal) => Ok(Err(refusal)),
                }
            },
            commit if Result::is_ok
        )
        .during(Operation::AttachMachine)
        .await
    }

    /// Detaches a computer of this account and revokes its secret and keys; `false` if the account has no such computer.
    #[boxed]
    pub async fn machine_detach(
        &self,
        machine: MachineUuid,
        owner: &UserAccountId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const SQL: &str =
            "UPDATE machines SET account_id = NULL, attached_at = NULL, attached_by = NULL, secret_hash = NULL
            WHERE machine_uuid = $1 AND account_id = $2";
        in_transaction!(
            &self.pool,
            |tx| {
                let rows_affected = query(SQL).bind(machine.as_uuid()).bind(owner.as_str()).execute(&mut *tx).await?;
                if rows_affected == 1 {
                    let notice = detached(machine, Recipient::Account(owner.as_str()), "owner", now);
                    self.notify_owners(tx, &[notice]).await?;
                }
                query(REVOKE_OF_MACHINE).bind(machine.as_uuid()).bind(now).execute(&mut *tx).await?;
                Ok(rows_affected == 1)
            },
            commit if |done| *done
        )
        .during(Operation::DetachMachine)
        .await
    }

    /// Moves `last_seen_at` of many computers forward, never back, and only if it was moved at least `sparing` before. This limits the
    /// writes per computer for any number of processes.
    #[boxed]
    pub async fn machines_touch(
        &self,
        seen: &[(MachineUuid, Timestamp)],
        sparing: TimeDelta,
    ) -> Result<(), StoreError> {
        if seen.is_empty() {
            return Ok(());
        }
        // Sorted, because rows are locked in input order: two nodes with different orders would deadlock.
        let mut seen = seen.to_vec();
        seen.sort_unstable();
        in_transaction!(&self.pool, |tx| {
            for chunk in chunks(&seen) {
                let mut sql = QueryBuilder::new("WITH seen (machine_uuid, at, due) AS (");
                sql.push_values(chunk, |mut row, (machine, at)| {
                    row.push_bind(machine.as_uuid()).push_bind(*at).push_bind(*at - sparing);
                });
                sql.push(
                    ") UPDATE machines SET last_seen_at = seen.at FROM seen
                    WHERE machines.machine_uuid = seen.machine_uuid AND machines.last_seen_at < seen.at
                        AND machines.last_seen_at <= seen.due",
                );
                sql.build().execute(&mut *tx).await?;
            }
            Ok(())
        })
        .during(Operation::WriteLastRequestsOfMachines)
        .await
    }

    /// The computers of an account, newest first.
    #[boxed]
    pub async fn computers_of_account(
        &self,
        account: &UserAccountId,
        rows_max: usize,
    ) -> Result<Vec<Computer>, StoreError> {
        let rows = probe(probes::COMPUTERS).bind(account.as_str()).bind(limit(rows_max)).fetch_all(&self.pool);
        let rows = rows.during(Operation::ListComputersOfAccount).await?;
        Ok(rows.into_iter().map(Computer::try_from).collect::<Result<_, _>>()?)
    }

    /// The computers that were attached to an account and are now unattached, most recently active first.
    #[boxed]
    pub async fn computers_ended(&self, account: &UserAccountId, rows_max: usize) -> Result<Vec<Computer>, StoreError> {
        const SQL: &str = "SELECT m.machine_uuid, m.user_cuid, m.name, m.account_id, m.first_seen_at, m.last_seen_at,
                m.attached_at, m.attached_by, m.secret_hash IS NOT NULL AS has_secret, a.label
            FROM attachments a JOIN machines m ON m.machine_uuid = a.machine_uuid AND m.user_cuid = a.user_cuid
            WHERE a.account_id = $1 AND m.account_id IS NULL
            ORDER BY m.last_seen_at DESC, m.machine_uuid DESC LIMIT $2";
        let rows: Vec<ComputerRow> = query(SQL)
            .bind(account.as_str())
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListEndedComputersOfAccount)
            .await?;
        Ok(rows.into_iter().map(Computer::try_from).collect::<Result<_, _>>()?)
    }

    /// Sets or removes the name of a computer that is or was attached to an account; `false` if the account never had the computer.
    #[boxed]
    pub async fn computer_label_set(
        &self,
        machine: MachineUuid,
        owner: &UserAccountId,
        label: Option<&Label>,
    ) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE attachments SET label = $3 WHERE account_id = $1 AND machine_uuid = $2";
        let rows_affected = query(SQL)
            .bind(owner.as_str())
            .bind(machine.as_uuid())
            .bind(label.map(Label::as_str))
            .execute(self.pool.writer())
            .during(Operation::NameComputer)
            .await?;
        Ok(rows_affected > 0)
    }

    /// Computers for operators, newest first.
    #[boxed]
    pub async fn machines(&self, rows_max: usize) -> Result<Vec<Computer>, StoreError> {
        const SQL: &str = "SELECT m.machine_uuid, m.user_cuid, m.name, m.account_id, m.first_seen_at, m.last_seen_at,
                m.attached_at, m.attached_by, m.secret_hash IS NOT NULL AS has_secret, a.label
            FROM machines m LEFT JOIN attachments a ON a.account_id = m.account_id AND a.machine_uuid = m.machine_uuid
                AND a.user_cuid = m.user_cuid
            ORDER BY m.first_seen_at DESC, m.machine_uuid DESC LIMIT $1";
        let rows: Vec<ComputerRow> =
            query(SQL).bind(limit(rows_max)).fetch_all(&self.pool).during(Operation::ListMachines).await?;
        Ok(rows.into_iter().map(Computer::try_from).collect::<Result<_, _>>()?)
    }

    /// Deletes a computer, so that it may register again: for operators. Its identity and events stay; the keys of its attachment are
    /// revoked.
    #[boxed]
    pub async fn machine_remove(&self, machine: MachineUuid, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "DELETE FROM machines WHERE machine_uuid = $1";
        in_transaction!(
            &self.pool,
            |tx| {
                // Written before the row is deleted, because the row names the account.
                let notice = detached(machine, Recipient::OwnerOf(machine), "operator", now);
                self.notify_owners(tx, &[notice]).await?;
                let rows_affected = query(SQL).bind(machine.as_uuid()).execute(&mut *tx).await?;
                query(REVOKE_OF_MACHINE).bind(machine.as_uuid()).bind(now).execute(&mut *tx).await?;
                if rows_affected == 1 {
                    self.record_act(tx, now).await?;
                }
                Ok(rows_affected == 1)
            },
            commit if |done| *done
        )
        .during(Operation::RemoveMachine)
        .await
    }
}

fn detached<'a>(machine: MachineUuid, to: Recipient<'a>, reason: &'static str, now: Timestamp) -> Notice<'a> {
    let data = json!({ "machine_uuid": machine, "reason": reason });
    Notice::new(NotificationKind::ComputerDetached, machine.as_uuid(), to, now, data)
}

/// Locks a computer that has a secret, and returns its identity and the account that it is attached to. A computer without a secret was
/// detached: no process can act as it any more.
pub(crate) async fn lock_machine(
    tx: &mut Tx<'_>,
    machine: MachineUuid,
) -> Result<Option<(UserCuid, Option<UserAccountId>)>, sqlx::Error> {
    // A write that changes nothing: of two accounts that attach it at once, the second sees the first.
    const LOCK: &str = "UPDATE machines SET machine_uuid = machine_uuid
        WHERE machine_uuid = $1 AND secret_hash IS NOT NULL RETURNING user_cuid, account_id";
    let row: Option<(String, Option<String>)> = query(LOCK).bind(machine.as_uuid()).fetch_optional(tx).await?;
    let read = |(identity, account): (String, Option<String>)| {
        Ok((parsed("machines.user_cuid", &identity)?, parsed_opt("machines.account_id", account.as_deref())?))
    };
    row.map(read).transpose().map_err(undecodable)
}

/// Locks the identity of a locked computer, and reads what decides about its attachment.
pub(crate) async fn lock_identity(
    tx: &mut Tx<'_>,
    identity: UserCuid,
    account: Option<UserAccountId>,
    machine: MachineUuid,
) -> Result<ComputerFacts, sqlx::Error> {
    const LOCK: &str = "UPDATE identities SET account_id = account_id WHERE user_cuid = $1 RETURNING account_id";
    const FACTS: &str = "SELECT EXISTS (SELECT 1 FROM persons WHERE account_id = $2) AS has_owner,
        (SELECT machine_uuid FROM machines WHERE user_cuid = $1 ORDER BY first_seen_at, machine_uuid LIMIT 1) AS first";
    let linked: Option<String> = scalar(LOCK).bind(identity.as_str()).fetch_one(&mut *tx).await?;
    let (has_owner, first): (bool, Uuid) = query(FACTS).bind(identity.as_str()).bind(&linked).fetch_one(tx).await?;
    let linked = parsed_opt("identities.account_id", linked.as_deref()).map_err(undecodable)?;
    Ok(ComputerFacts { identity, account, linked, has_owner, is_first: first == machine.as_uuid() })
}

/// A computer, which the transaction has locked, and the account that it is attached to.
pub(crate) struct Attachment<'a> {
    pub(crate) machine: MachineUuid,
    pub(crate) identity: &'a UserCuid,
    pub(crate) account: &'a UserAccountId,
    /// Whether the identity is linked to the account, and gets its levels for all computers.
    pub(crate) links: bool,
}

/// Attaches a computer.
pub(crate) async fn attach_machine(
    store: &Store,
    tx: &mut Tx<'_>,
    Attachment { machine, identity, account, links }: Attachment<'_>,
    now: Timestamp,
    rng: &Rng,
) -> Result<(), sqlx::Error> {
    const LINK: &str = "UPDATE identities SET account_id = $2 WHERE user_cuid = $1";
    const ATTACH: &str = "UPDATE machines SET account_id = $2, attached_at = COALESCE(attached_at, $3)
        WHERE machine_uuid = $1 AND (account_id IS NULL OR account_id = $2)";
    // Permanent: the owner of the account can still read the computer's records after it is detached.
    const REMEMBER: &str =
        "INSERT INTO attachments (account_id, machine_uuid, user_cuid) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    let account = account.as_str();
    if links {
        query(LINK).bind(identity.as_str()).bind(account).execute(&mut *tx).await?;
        inherit_baseline(store, tx, identity, account, now, rng).await?;
    }
    query(ATTACH).bind(machine.as_uuid()).bind(account).bind(now).execute(&mut *tx).await?;
    query(REMEMBER).bind(account).bind(machine.as_uuid()).bind(identity.as_str()).execute(tx).await.map(drop)
}

/// The agent that approved the attachment: `$2`, null for a person or an operator.
pub(crate) const ATTACHED_BY: &str = "UPDATE machines SET attached_by = $2 WHERE machine_uuid = $1";

/// Ends the attachments that an agent approved. The computers stay registered, with their secrets: a person may approve them again.
pub(crate) const DETACH_APPROVED_BY: &str =
    "UPDATE machines SET account_id = NULL, attached_at = NULL, attached_by = NULL WHERE attached_by = $1";

crate::row! {
    struct SecretRow {
        secret_hash: Vec<u8>,
        machine: KnownRow,
    }
}

/// Collects one computer from its rows, which differ only in the level.
fn known<'r>(rows: impl Iterator<Item = &'r KnownRow> + Clone) -> Result<Option<KnownMachine>, Corrupt> {
    let Some(first) = rows.clone().next() else {
        return Ok(None);
    };
    let mut machine = KnownMachine {
        facts: MachineFacts {
            machine_uuid: first.machine_uuid.into(),
            user_cuid: parsed("machines.user_cuid", &first.user_cuid)?,
            account: parsed_opt("machines.account_id", first.account_id.as_deref())?,
            identity_account: parsed_opt("identities.account_id", first.identity_account_id.as_deref())?,
            consent: Vec::new(),
            pauses: Pauses { account: first.account_paused_until, machine: first.machine_paused_until },
            part: part("machines.log_part", first.log_part)?,
        },
        has_held: first.has_held,
        last_seen_at: first.last_seen_at,
    };
    for row in rows {
        if let (Some(level), Some(set_by)) = (&row.rule_level, &row.rule_set_by) {
            machine.facts.consent.push(ConsentRule {
                machine: row.rule_machine_uuid.map(MachineUuid::from),
                lane: parsed_opt("consent_levels.lane", row.rule_lane.as_deref())?,
                level: parsed("consent_levels.level", level)?,
                set_by: parsed("consent_levels.set_by", set_by)?,
            });
        }
    }
    Ok(Some(machine))
}

impl TryFrom<ComputerRow> for Computer {
    type Error = Corrupt;

    fn try_from(row: ComputerRow) -> Result<Self, Corrupt> {
        Ok(Self {
            machine_uuid: row.machine_uuid.into(),
            user_cuid: parsed("machines.user_cuid", &row.user_cuid)?,
            name: row.name,
            account: parsed_opt("machines.account_id", row.account_id.as_deref())?,
            first_seen_at: row.first_seen_at,
            last_seen_at: row.last_seen_at,
            attached_at: row.attached_at,
            attached_by: row.attached_by.map(RegistrationId::from),
            has_secret: row.has_secret,
            label: parsed_opt("attachments.label", row.label.as_deref())?,
        })
    }
}
