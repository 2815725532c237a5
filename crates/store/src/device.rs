//! Device codes: how a computer is attached to the account of the approver (`docs/decisions/0004-device-codes.md`).

mod approve;

use chrono::TimeDelta;
use domain::Timestamp;
use domain::agent_right::AgentRights;
use domain::api_key::ApiKeyScope;
use domain::confirm::ConfirmedVia;
use domain::consent::ConsentLevel;
use domain::device::approval::ApprovalRefusal;
use domain::device::{DeviceCode, DeviceState, WantedAgent, WantedKey};
use domain::ids::{Email, MachineUuid, PersonId, RegistrationId, UserAccountId};
use domain::secret::SecretHash;
use domain::tool::Tool;
use uuid::Uuid;

use crate::api_key::{KeyGrant, scopes_of_text, scopes_text};
use crate::change::Change;
use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{probe, query, scalar};
use crate::probes::rows::CodeRow;
use crate::row::{count, limit, parsed, parsed_opt, secret_hash, storable, undecodable};
use crate::{Store, in_transaction, probes};

/// A code that a computer asks for.
#[derive(Debug, Clone)]
pub struct NewDeviceCode<'a> {
    /// The code, in state `pending`.
    pub code: &'a DeviceCode,
    /// HMAC of the user code.
    pub sealed_user_code: [u8; 32],
    /// Address that it was asked from.
    pub ip_address: Option<&'a str>,
    /// Key of the knowledge API that the computer asks for too.
    pub key: Option<&'a WantedKey>,
    /// Agent that asks to be confirmed too.
    pub agent: Option<&'a WantedAgent>,
}

/// What became of such a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceStart {
    /// The code waits for a person. The one that waited before, if any, does not any more.
    Started {
        /// Hash of the code that was pending before.
        superseded: Option<SecretHash>,
    },
    /// Another computer has this user code: draw again.
    UserCodeTaken,
    /// The computer requested too many codes within the window.
    TooMany {
        /// How long until there is room for another.
        retry_after: TimeDelta,
    },
    /// The computer was detached or removed in the meantime.
    MachineGone,
}

/// The computer behind a user code, as shown to the person who typed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskingDevice {
    /// The device code behind the typed user code.
    pub code: DeviceCode,
    /// Name of the computer, if it gave one.
    pub name: Option<String>,
    /// When it registered; none when it is gone.
    pub first_seen_at: Option<Timestamp>,
    /// How many other computers name its identity and are not attached to the account of the reader; counted up to [`OTHERS_MAX`].
    pub others: u32,
    /// Address that the code was asked from.
    pub ip_address: Option<String>,
    /// Scopes of the key that the computer asks for too; `None` if it asks for none.
    pub key_scopes: Option<Vec<ApiKeyScope>>,
    /// Whether the computer is attached to the account of the reader already.
    pub is_attached: bool,
    /// Agent that asks to be confirmed too.
    pub agent: Option<AskingAgent>,
}

/// The agent behind a user code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskingAgent {
    /// Its registration.
    pub registration: RegistrationId,
    /// The tool of the agent.
    pub tool: Tool,
    /// SHA-256 of its claim token; `None` when the registration is gone.
    pub claim_token: Option<SecretHash>,
    /// The account that it acts for, once it is claimed.
    pub account: Option<UserAccountId>,
}

/// The party that one count of wrong codes belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guesser {
    /// Id of the signed-in person.
    pub person: PersonId,
    /// Whether an agent typed the code: the codes of all agents of a person have a separate count.
    pub by_agent: bool,
}

/// Other computers of an identity that are counted.
pub const OTHERS_MAX: u32 = 100;

/// What typing a user code leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeEntry {
    /// The code exists, in any state.
    Found(Box<AskingDevice>),
    /// There is none; this was counted.
    Wrong,
    /// Too many wrong codes within the window: nothing was looked up.
    Blocked,
}

/// A computer that is being attached, for the notice about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedDevice {
    /// UUID of the attached computer.
    pub machine: MachineUuid,
    /// Its name, if it gave one.
    pub name: Option<String>,
    /// Address that the code was asked from.
    pub ip_address: Option<String>,
    /// The account that it is attached to.
    pub account: UserAccountId,
    /// The address of the account's owner.
    pub owner: Email,
    /// Whether the key that the computer asked for is valid from now on.
    pub has_key: bool,
    /// The agent that acts for the account from now on, and its tool.
    pub agent: Option<(RegistrationId, Tool)>,
}

/// Consents of a person in addition to the attachment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Agreed {
    /// The key that the computer asks for becomes valid.
    pub key: Option<KeyGrant>,
    /// The agent that asks with the computer is confirmed, with these rights.
    pub agent: Option<AgentRights>,
    /// How much may be recorded: becomes the person's level ([`chosen_rules`](domain::consent::chosen_rules)). `None` changes no level.
    pub consent: Option<ConsentLevel>,
}

/// Who approves or denies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approver {
    /// Id of the signed-in person.
    pub person: PersonId,
    /// With which credential; kept with the code.
    pub via: ConfirmedVia,
}

/// The account that the computer is attached to since its code was approved, or why the code was not approved.
pub type Approval = Result<UserAccountId, ApprovalRefusal>;

impl Store {
    /// Stores a code in place of the pending one, unless `codes_max` were asked for within `window` before now.
    #[boxed]
    pub async fn device_start(
        &self,
        new: &NewDeviceCode<'_>,
        codes_max: u32,
        window: TimeDelta,
    ) -> Result<DeviceStart, StoreError> {
        // An approval and a new code both lock this row first, so they cannot deadlock.
        const LOCK: &str =
            "UPDATE machines SET machine_uuid = machine_uuid WHERE machine_uuid = $1 AND secret_hash IS NOT NULL";
        // The code in the window that makes room when it leaves.
        const FULL: &str = "SELECT created_at FROM device_codes WHERE machine_uuid = $1 AND created_at > $2
            ORDER BY created_at DESC LIMIT 1 OFFSET $3";
        // One read: SQLite has one writer, so nothing is locked and nothing changes between two statements.
        const LOOK: &str = "SELECT (SELECT created_at FROM device_codes WHERE machine_uuid = $1 AND created_at > $2
                ORDER BY created_at DESC LIMIT 1 OFFSET $3) AS oldest,
            EXISTS (SELECT 1 FROM device_codes WHERE machine_uuid = $1 AND state = 'pending') AS has_pending
            FROM machines WHERE machine_uuid = $1 AND secret_hash IS NOT NULL";
        const SUPERSEDE: &str = "UPDATE device_codes SET state = 'superseded', settled_at = $2, changed_at = $2
            WHERE machine_uuid = $1 AND state = 'pending' RETURNING device_code_hash";
        const ADD: &str =
            "INSERT INTO device_codes (device_code_hash, sealed_user_code, machine_uuid, user_cuid, ip_address,
                created_at, expires_at, state, changed_at, key_hash, key_scopes, agent_registration, agent_tool)
            VALUES ($1, $2, $3, $4, $5, $6, $7, 'pending', $6, $8, $9, $10, $11) ON CONFLICT (sealed_user_code) DO NOTHING";
        let DeviceCode { code, machine, identity, created_at, expires_at, .. } = new.code;
        let (machine, now) = (machine.as_uuid(), *created_at);
        let address = new.ip_address.map(storable);
        let (key_hash, key_scopes) = (new.key.map(|key| key.hash), new.key.map(|key| scopes_text(&key.scopes)));
        let (is_postgres, others_max) = (self.pool.is_postgres(), i64::from(codes_max.saturating_sub(1)));
        let started = in_transaction!(
            &self.pool,
            |tx| {
                let found: Option<(Option<Timestamp>, bool)> = if !is_postgres {
                    query(LOOK).bind(machine).bind(now - window).bind(others_max).fetch_optional(&mut *tx).await?
                } else if query(LOCK).bind(machine).execute(&mut *tx).await? == 0 {
                    None
                } else {
                    let full = scalar(FULL).bind(machine).bind(now - window).bind(others_max);
                    Some((full.fetch_optional(&mut *tx).await?, true))
                };
                let Some((oldest, has_pending)) = found else { return Ok((DeviceStart::MachineGone, None)) };
                if let Some(oldest) = oldest {
                    return Ok((DeviceStart::TooMany { retry_after: oldest + window - now }, None));
                }
                let superseded: Option<Vec<u8>> = if has_pending {
                    scalar(SUPERSEDE).bind(machine).bind(now).fetch_optional(&mut *tx).await?
                } else {
                    None
                };
                let added = query(ADD)
                    .bind(code.as_bytes())
                    .bind(&new.sealed_user_code[..])
                    .bind(machine)
                    .bind(identity.as_str())
                    .bind(address.as_deref())
                    .bind(now)
                    .bind(*expires_at)
                    .bind(key_hash.as_ref().map(SecretHash::as_bytes))
                    .bind(key_scopes.as_deref())
                    .bind(new.agent.map(|agent| agent.registration.as_uuid()))
                    .bind(new.agent.map(|agent| agent.tool.as_str()))
                    .execute(&mut *tx)
                    .await?;
                if added == 0 {
                    return Ok((DeviceStart::UserCodeTaken, None));
                }
                if let Some(superseded) = superseded.as_deref() {
                    let code = secret_hash("device_codes.device_code_hash", superseded).map_err(undecodable)?;
                    self.announce(tx, &Change::Device(code)).await?;
                }
                Ok((DeviceStart::Started { superseded: None }, superseded))
            },
            commit if |(outcome, _)| matches!(outcome, DeviceStart::Started { .. })
        )
        .during(Operation::StartAttachmentOfMachine)
        .await?;
        Ok(match started {
            (DeviceStart::Started { .. }, Some(hash)) => {
                DeviceStart::Started { superseded: Some(secret_hash("device_codes.device_code_hash", &hash)?) }
            }
            (outcome, _) => outcome,
        })
    }

    /// A device code by its hash.
    #[boxed]
    pub async fn device_by_code(&self, code: &SecretHash) -> Result<Option<DeviceCode>, StoreError> {
        let row = probe(probes::DEVICE_CODE).bind(code.as_bytes()).fetch_optional(&self.pool);
        let row = row.during(Operation::ReadDeviceCode).await?;
        Ok(row.map(DeviceCode::try_from).transpose()?)
    }

    /// The newest device code of a computer.
    #[boxed]
    pub async fn device_newest(&self, machine: MachineUuid) -> Result<Option<DeviceCode>, StoreError> {
        const SQL: &str =
            "SELECT device_code_hash, machine_uuid, user_cuid, created_at, expires_at, state, account_id, settled_at
            FROM device_codes WHERE machine_uuid = $1 ORDER BY created_at DESC LIMIT 1";
        let row = query(SQL).bind(machine.as_uuid()).fetch_optional(&self.pool);
        let row: Option<CodeRow> = row.during(Operation::ReadDeviceCode).await?;
        Ok(row.map(DeviceCode::try_from).transpose()?)
    }

    /// Finds a code that a person typed; an unknown code counts as a guess, and too many of those within `window` block. One person's
    /// guesses are judged one after the other, so any number at once are counted.
    #[boxed]
    pub async fn device_typed(
        &self,
        sealed_user_code: &[u8; 32],
        Guesser { person, by_agent }: Guesser,
        guess: Uuid,
        (guesses_max, window): (u32, TimeDelta),
        now: Timestamp,
    ) -> Result<CodeEntry, StoreError> {
        const LOCK: &str = "UPDATE persons SET id = id WHERE id = $1";
        const COUNT: &str = "SELECT COUNT(*) FROM device_guesses
            WHERE person_id = $1 AND guessed_at > $2 AND by_agent = $3";
        const FIND: &str =
            "SELECT d.device_code_hash, d.machine_uuid, d.user_cuid, d.created_at, d.expires_at, d.state, d.account_id,
                d.settled_at, d.ip_address, d.key_scopes, m.name, m.first_seen_at,
                d.agent_registration, d.agent_tool, r.claim_token_hash AS agent_token, r.account_id AS agent_account,
                COALESCE(m.account_id = (SELECT p.account_id FROM persons p WHERE p.id = $2), FALSE) AS is_attached,
                (SELECT COUNT(*) FROM (SELECT 1 AS one FROM machines o
                    WHERE o.user_cuid = d.user_cuid AND o.machine_uuid <> d.machine_uuid AND o.secret_hash IS NOT NULL
                        AND o.account_id IS DISTINCT FROM (SELECT p.account_id FROM persons p WHERE p.id = $2)
                    LIMIT $3) AS named) AS others
            FROM device_codes d LEFT JOIN machines m ON m.machine_uuid = d.machine_uuid AND m.secret_hash IS NOT NULL
                LEFT JOIN registrations r ON r.id = d.agent_registration
            WHERE d.sealed_user_code = $1";
        const ADD: &str = "INSERT INTO device_guesses (id, person_id, guessed_at, by_agent) VALUES ($1, $2, $3, $4)";
        let found: Result<AskingRow, CodeEntry> = in_transaction!(
            &self.pool,
            |tx| {
                query(LOCK).bind(person.as_uuid()).execute(&mut *tx).await?;
                let count = scalar(COUNT).bind(person.as_uuid()).bind(now - window).bind(by_agent);
                let wrong: i64 = count.fetch_one(&mut *tx).await?;
                if wrong >= i64::from(guesses_max) {
                    return Ok(Err(CodeEntry::Blocked));
                }
                let row: Option<AskingRow> =
                    query(FIND)
                    .bind(&sealed_user_code[..])
                    .bind(person.as_uuid())
                    .bind(i64::from(OTHERS_MAX))
                    .fetch_optional(&mut *tx)
                    .await?;
                let Some(row) = row else {
                    let add = query(ADD).bind(guess).bind(person.as_uuid()).bind(now).bind(by_agent);
                    add.execute(&mut *tx).await?;
                    return Ok(Err(CodeEntry::Wrong));
                };
                Ok(Ok(row))
            },
            commit if |found| matches!(found, Err(CodeEntry::Wrong))
        )
        .during(Operation::FindTypedCode)
        .await?;
        Ok(match found {
            Ok(row) => CodeEntry::Found(Box::new(row.try_into()?)),
            Err(typed) => typed,
        })
    }

    /// Denies a pending code; `false` when it is expired, answered, or gone.
    #[boxed]
    pub async fn device_deny(&self, code: &SecretHash, denier: &Approver, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE device_codes
            SET state = 'denied', person_id = $2, settled_via = $3, settled_at = $4, changed_at = $4
            WHERE device_code_hash = $1 AND state = 'pending' AND expires_at > $4";
        in_transaction!(
            &self.pool,
            |tx| {
                let deny = query(SQL).bind(code.as_bytes()).bind(denier.person.as_uuid()).bind(denier.via.as_str());
                if deny.bind(now).execute(&mut *tx).await? == 0 {
                    return Ok(false);
                }
                self.announce(tx, &Change::Device(*code)).await?;
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::DenyDeviceCode)
        .await
    }

    /// Expires a code, before its computer receives the answer: an approval by another process that read it in time is refused then.
    /// `false` when it was settled otherwise, or is gone.
    #[boxed]
    pub async fn device_expire(&self, code: &SecretHash, now: Timestamp) -> Result<bool, StoreError> {
        const SQL: &str = "UPDATE device_codes SET state = 'expired', settled_at = $2, changed_at = $2
            WHERE device_code_hash = $1 AND state = 'pending' AND expires_at <= $2";
        let done = query(SQL)
            .bind(code.as_bytes())
            .bind(now)
            .execute(self.pool.writer())
            .during(Operation::EndDeviceCode)
            .await?;
        Ok(done == 1)
    }

    /// The codes that were settled at `since` or later, the earliest first: what another process did is to be read again. Codes that
    /// wait are not among them: no process caches an older state of those.
    #[boxed]
    pub async fn devices_changed_since(
        &self,
        since: Timestamp,
        rows_max: usize,
    ) -> Result<Vec<(SecretHash, Timestamp)>, StoreError> {
        const SQL: &str = "SELECT device_code_hash, changed_at FROM device_codes
            WHERE changed_at >= $1 AND state <> 'pending' ORDER BY changed_at, device_code_hash LIMIT $2";
        let rows: Vec<(Vec<u8>, Timestamp)> = query(SQL)
            .bind(since)
            .bind(limit(rows_max))
            .fetch_all(&self.pool)
            .during(Operation::ListDeviceCodesThatChanged)
            .await?;
        let read = |(hash, at): (Vec<u8>, Timestamp)| Ok((secret_hash("device_codes.device_code_hash", &hash)?, at));
        Ok(rows.into_iter().map(read).collect::<Result<_, Corrupt>>()?)
    }
}

impl TryFrom<CodeRow> for DeviceCode {
    type Error = Corrupt;

    fn try_from(row: CodeRow) -> Result<Self, Corrupt> {
        let state = match (row.state.as_str(), row.account_id, row.settled_at) {
            ("pending", ..) => DeviceState::Pending,
            ("claimed", Some(account), Some(at)) => {
                DeviceState::Claimed { account: parsed("device_codes.account_id", &account)?, at }
            }
            ("denied", ..) => DeviceState::Denied,
            ("expired", ..) => DeviceState::Expired,
            ("superseded", ..) => DeviceState::Superseded,
            _ => return Err(Corrupt::new("device_codes.state", "not a state of a device code")),
        };
        Ok(Self {
            code: secret_hash("device_codes.device_code_hash", &row.device_code_hash)?,
            machine: row.machine_uuid.into(),
            identity: parsed("device_codes.user_cuid", &row.user_cuid)?,
            created_at: row.created_at,
            expires_at: row.expires_at,
            state,
        })
    }
}

crate::row! {
    struct AskingRow {
        code: CodeRow,
        ip_address: Option<String>,
        name: Option<String>,
        first_seen_at: Option<Timestamp>,
        others: i64,
        key_scopes: Option<String>,
        is_attached: bool,
        agent_registration: Option<Uuid>,
        agent_tool: Option<String>,
        agent_token: Option<Vec<u8>>,
        agent_account: Option<String>,
    }
}

impl TryFrom<AskingRow> for AskingDevice {
    type Error = Corrupt;

    fn try_from(row: AskingRow) -> Result<Self, Corrupt> {
        let code = row.code.try_into()?;
        let others = count("machines.user_cuid", row.others)?;
        let key_scopes =
            row.key_scopes.as_deref().map(|text| scopes_of_text("device_codes.key_scopes", text)).transpose()?;
        let agent = match (row.agent_registration, row.agent_tool.as_deref()) {
            (Some(registration), Some(tool)) => {
                let claim_token = row.agent_token.as_deref();
                Some(AskingAgent {
                    registration: registration.into(),
                    tool: parsed("device_codes.agent_tool", tool)?,
                    claim_token: claim_token
                        .map(|hash| secret_hash("registrations.claim_token_hash", hash))
                        .transpose()?,
                    account: parsed_opt("registrations.account_id", row.agent_account.as_deref())?,
                })
            }
            _ => None,
        };
        let AskingRow { name, first_seen_at, ip_address, is_attached, .. } = row;
        Ok(Self { code, name, first_seen_at, others, ip_address, key_scopes, is_attached, agent })
    }
}
