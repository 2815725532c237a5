//! Device codes: how a computer is attached to the account of the approver (`docs/decisions/0004-device-codes.md`).

use chrono::TimeDelta;
use domain::agent_right::AgentRights;
use domain::api_key::ApiKeyScope;
use domain::claim::Claim;
use domain::confirm::ConfirmedVia;
use domain::consent::{Author, ConsentLevel};
use domain::device::{DeviceCode, DeviceState, WantedAgent, WantedKey};
use domain::foreign::visible;
use domain::ids::{Email, MachineUuid, PersonId, RegistrationId, UserAccountId};
use domain::label::Label;
use domain::secret::SecretHash;
use domain::tool::Tool;
use domain::{Rng, Timestamp};
use uuid::Uuid;

use crate::api_key::{ComputersKey, KeyCreate, KeyGrant, add_key_of_computer, scopes_of_text, scopes_text};
use crate::change::Change;
use crate::claim::{claim_locked, lock_agent, lock_unclaimed};
use crate::consent::baseline::{Choice, lock_baseline, write_choice};
use crate::error::{Corrupt, StoreError};
use crate::machine::{ATTACHED_BY, AttachRefusal, FIRST_OF_IDENTITY, attach_machine};
use crate::mail::{QueuedMail, insert_mail};
use crate::operation::{During, Operation};
use crate::pool::{Tx, probe, query, scalar};
use crate::probes::rows::CodeRow;
use crate::row::{count, limit, parsed, parsed_opt, secret_hash, storable, undecodable};
use crate::{Store, in_transaction, probes};
use async_recursion::async_recursion as boxed;

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
    /// The computer was detached or removed meanwhile.
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
    /// The tool whose agent it is.
    pub tool: Tool,
    /// SHA-256 of its claim token; `None` when the registration is gone.
    pub claim_token: Option<SecretHash>,
    /// The account that it acts for, once it is claimed.
    pub account: Option<UserAccountId>,
}

/// Whose wrong codes are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guesser {
    /// Id of the signed-in person.
    pub person: PersonId,
    /// Whether an agent typed for them: codes that all their agents typed are counted apart from those that they typed themselves.
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

/// Consents of a person beside the attachment.
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

/// Why a device code is not approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalRefusal {
    /// The code is expired, answered, or deleted.
    CodeConsumed,
    /// The computer's identity has no owner, and another computer registered under it first.
    NotTheFirst,
    /// The person has no account, and the computer's identity has none that the person could take over.
    AccountRequired,
    /// The computer cannot be attached to the person's account.
    Attach(AttachRefusal),
    /// The account has as many valid keys as it may have.
    TooManyKeys,
    /// The agent that asks with the computer was claimed, revoked or deleted meanwhile.
    AgentGone,
}

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
        // Of those in the window, the one whose leaving makes room.
        const FULL: &str = "SELECT created_at FROM device_codes WHERE machine_uuid = $1 AND created_at > $2
            ORDER BY created_at DESC LIMIT 1 OFFSET $3";
        // All of it in one look: SQLite has one writer, so nothing is locked and nothing changes meanwhile.
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

    /// Attaches the computer of a pending code to the account of the approver; with `agreed.key`, the key that it asks for becomes valid
    /// and takes the place of those that it had; with `agreed.agent`, the agent that asks with it is claimed for the account. Exactly one of
    /// any number of calls approves, and never beside a denial. With `agreed.consent`, that level becomes the approver's. `notice` writes the mail about it, stored with the approval or not at all. An agent that was revoked
    /// meanwhile approves nothing: to it the code is consumed.
    pub async fn device_approve(
        &self,
        code: &DeviceCode,
        approver: &Approver,
        agreed: Agreed,
        notice: impl FnOnce(&AttachedDevice) -> QueuedMail + Send,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<Approval, StoreError> {
        // Locked in this order by everyone: agent, person, account, computer, code, identity.
        const PERSON: &str = "UPDATE persons SET id = id WHERE id = $1 RETURNING account_id, email";
        const MACHINE: &str = "UPDATE machines SET machine_uuid = machine_uuid
            WHERE machine_uuid = $1 AND secret_hash IS NOT NULL RETURNING user_cuid, account_id";
        const CLAIM: &str = "UPDATE device_codes SET changed_at = $2
            WHERE device_code_hash = $1 AND state = 'pending' AND expires_at > $2 RETURNING user_cuid";
        const LINKED: &str = "UPDATE identities SET account_id = account_id WHERE user_cuid = $1 RETURNING account_id";
        const OWNERS: &str = "SELECT COUNT(*) FROM persons WHERE account_id = $1";
        const ATTACHED: &str =
            "SELECT m.name, d.ip_address, d.key_hash, d.key_scopes FROM device_codes d JOIN machines m ON m.machine_uuid = d.machine_uuid
            WHERE d.device_code_hash = $1";
        let person = approver.person.as_uuid();
        let DeviceCode { code, machine, .. } = code;
        let machine = *machine;
        in_transaction!(
            &self.pool,
            |tx| {
                if let Some(agent) = approver.via.agent()
                    && !lock_agent(tx, agent).await?
                {
                    return Ok(Err(ApprovalRefusal::CodeConsumed));
                }
                let claimed = if agreed.agent.is_some() { asking_agent(tx, code).await? } else { None };
                let is_gone = match claimed {
                    Some((agent, _)) => !lock_unclaimed(tx, agent, now).await?,
                    None => false,
                };
                let (own, email): (Option<String>, String) =
                    query(PERSON).bind(person).fetch_one(&mut *tx).await?;
                if let (Some(_), Some(account)) = (agreed.consent, &own) {
                    lock_baseline(tx, account).await?;
                }
                let asking: Option<(String, Option<String>)> =
                    query(MACHINE).bind(machine.as_uuid()).fetch_optional(&mut *tx).await?;
                let asked_by: Option<String> =
                    scalar(CLAIM).bind(code.as_bytes()).bind(now).fetch_optional(&mut *tx).await?;
                let Some(asked_by) = asked_by else { return Ok(Err(ApprovalRefusal::CodeConsumed)) };
                // A computer that was removed and registered again with another identity did not request this code.
                let asking = asking.filter(|(identity, _)| *identity == asked_by);
                let Some((identity, attached_to)) = asking else {
                    return Ok(Err(ApprovalRefusal::Attach(AttachRefusal::MachineNotRegistered)));
                };
                if is_gone {
                    return Ok(Err(ApprovalRefusal::AgentGone));
                }
                let was_attached = attached_to.is_some();
                let linked: Option<String> = scalar(LINKED).bind(&identity).fetch_one(&mut *tx).await?;
                let owners: i64 = scalar(OWNERS).bind(&linked).fetch_one(&mut *tx).await?;
                // Anybody may register under any identity, so one without an owner goes to the computer that registered first.
                if attached_to.is_none() && owners == 0 && (linked.is_none() || own.is_none()) {
                    let first: Uuid =
                        scalar(FIRST_OF_IDENTITY).bind(&identity).fetch_one(&mut *tx).await?;
                    if first != machine.as_uuid() {
                        return Ok(Err(ApprovalRefusal::NotTheFirst));
                    }
                }
                let account = match own {
                    Some(account) => account,
                    None => match provisioned(linked, attached_to, owners) {
                        Ok(account) => {
                            query(OWN).bind(person).bind(&account).execute(&mut *tx).await?;
                            account
                        }
                        Err(refusal) => return Ok(Err(refusal)),
                    },
                };
                if let Err(refusal) = attach_machine(self, tx, machine, &account, now, rng).await? {
                    return Ok(Err(ApprovalRefusal::Attach(refusal)));
                }
                // A person's approval is their own from then on; an agent's does not take over an attachment that was there.
                if approver.via == ConfirmedVia::Session || !was_attached {
                    let agent = approver.via.agent().map(|agent| agent.as_uuid());
                    query(ATTACHED_BY).bind(machine.as_uuid()).bind(agent).execute(&mut *tx).await?;
                }
                if let Some(level) = agreed.consent {
                    agree_to_level(self, tx, approver, level, (&account, &identity, machine), now, rng).await?;
                }
                settle(tx, code, &account, approver, now).await?;
                let row: AttachedRow = query(ATTACHED).bind(code.as_bytes()).fetch_one(&mut *tx).await?;
                let Some(has_key) = grant_key(tx, agreed.key, machine, &account, &row, now).await? else {
                    return Ok(Err(ApprovalRefusal::TooManyKeys));
                };
                let AttachedRow { name, ip_address, .. } = row;
                let account: UserAccountId = parsed("persons.account_id", &account).map_err(undecodable)?;
                let owner: Email = parsed("persons.email", &email).map_err(undecodable)?;
                if let Some((agent, tool)) = claimed {
                    let (account, email) = (account.clone(), owner.clone());
                    let claim = Claim { account, person: approver.person, email, rights: agreed.agent, at: now };
                    claim_locked(tx, agent, &claim, approver.via, now).await?;
                    label_agent(tx, agent, &label_of(tool, name.as_deref())).await?;
                    self.announce_registration(tx, agent.as_uuid()).await?;
                }
                let attached = AttachedDevice { machine, name, ip_address, account, owner, has_key, agent: claimed };
                insert_mail(tx, &notice(&attached), now).await?;
                self.announce(tx, &Change::Device(*code)).await?;
                Ok(Ok(attached.account))
            },
            commit if Result::is_ok
        )
        .during(Operation::ApproveDeviceCode)
        .await
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

crate::row! {
    struct AttachedRow {
        name: Option<String>,
        ip_address: Option<String>,
        key_hash: Option<Vec<u8>>,
        key_scopes: Option<String>,
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

/// Writes the level that the approver chose for a computer, which the account has now. The mail about the attachment says it.
async fn agree_to_level(
    store: &Store,
    tx: &mut Tx<'_>,
    approver: &Approver,
    level: ConsentLevel,
    (account, identity, machine): (&str, &str, MachineUuid),
    now: Timestamp,
    rng: &Rng,
) -> Result<(), sqlx::Error> {
    let agent = approver.via.agent();
    let author = if agent.is_some() { Author::Agent } else { Author::Person };
    let identity = parsed("machines.user_cuid", identity).map_err(undecodable)?;
    let choice = Choice { account, identity: &identity, machine, level, author, agent };
    write_choice(store, tx, &choice, now, rng).await
}

/// Marks a code as approved.
async fn settle(
    tx: &mut Tx<'_>,
    code: &SecretHash,
    account: &str,
    approver: &Approver,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    const SETTLE: &str = "UPDATE device_codes
        SET state = 'claimed', account_id = $2, person_id = $3, settled_via = $4, settled_at = $5 WHERE device_code_hash = $1";
    query(SETTLE)
        .bind(code.as_bytes())
        .bind(account)
        .bind(approver.person.as_uuid())
        .bind(approver.via.as_str())
        .bind(now)
        .execute(tx)
        .await
        .map(drop)
}

/// The name of a tool's agent: that of the tool, and of its computer if that is short enough.
fn label_of(tool: Tool, computer: Option<&str>) -> String {
    let alone = || tool.as_str().to_owned();
    let Some(computer) = computer else { return alone() };
    let both: Result<Label, _> = format!("{} on {}", tool.as_str(), visible(computer)).parse();
    both.map_or_else(|_| alone(), |label| label.as_str().to_owned())
}

/// Lets a person without an account take over an account.
const OWN: &str = "UPDATE persons SET account_id = $2 WHERE id = $1 AND account_id IS NULL";

/// The account that a person without one takes over: the one that an operator provisioned for the identity, unless another person has it.
fn provisioned(linked: Option<String>, attached_to: Option<String>, owners: i64) -> Result<String, ApprovalRefusal> {
    match (linked, attached_to) {
        (Some(unowned), _) if owners == 0 => Ok(unowned),
        (_, Some(_)) => Err(ApprovalRefusal::Attach(AttachRefusal::MachineAlreadyClaimed)),
        (Some(_), None) => Err(ApprovalRefusal::Attach(AttachRefusal::CuidAlreadyClaimed)),
        (None, None) => Err(ApprovalRefusal::AccountRequired),
    }
}

/// The agent that asks with a code. The columns never change, so they are read before the code is locked.
async fn asking_agent(tx: &mut Tx<'_>, code: &SecretHash) -> Result<Option<(RegistrationId, Tool)>, sqlx::Error> {
    const AGENT: &str = "SELECT agent_registration, agent_tool FROM device_codes WHERE device_code_hash = $1";
    let row: Option<(Option<Uuid>, Option<String>)> =
        query(AGENT).bind(code.as_bytes()).fetch_optional(&mut *tx).await?;
    let Some((Some(agent), Some(tool))) = row else { return Ok(None) };
    let tool = parsed("device_codes.agent_tool", &tool).map_err(undecodable)?;
    Ok(Some((agent.into(), tool)))
}

/// Names an agent on the pages of its person.
async fn label_agent(tx: &mut Tx<'_>, agent: RegistrationId, label: &str) -> Result<(), sqlx::Error> {
    const LABEL: &str = "UPDATE registrations SET label = $2 WHERE id = $1";
    query(LABEL).bind(agent.as_uuid()).bind(label).execute(tx).await.map(drop)
}

/// Makes the key that the code asks for, if the approver grants one; returns whether there is one, `None` if the account has too many.
async fn grant_key(
    tx: &mut Tx<'_>,
    grant: Option<KeyGrant>,
    machine: MachineUuid,
    account: &str,
    row: &AttachedRow,
    now: Timestamp,
) -> Result<Option<bool>, sqlx::Error> {
    let (Some(grant), Some(hash), Some(scopes)) = (grant, &row.key_hash, &row.key_scopes) else {
        return Ok(Some(false));
    };
    let name = row.name.as_deref().unwrap_or("a computer");
    let new = ComputersKey { machine, account, name, hash, scopes };
    Ok(match add_key_of_computer(tx, grant, &new, now).await? {
        KeyCreate::TooMany => None,
        made => Some(made == KeyCreate::Created),
    })
}
