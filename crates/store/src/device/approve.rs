//! The approval of a device code: reads the facts under locks, lets [`approve`] decide, and executes its plan.

use domain::claim::Claim;
use domain::consent::Author;
use domain::device::DeviceCode;
use domain::device::approval::{ApprovalFacts, ApprovalPlan, ApprovalRefusal, ApproverFacts, approve};
use domain::foreign::visible;
use domain::ids::{RegistrationId, UserAccountId};
use domain::label::Label;
use domain::secret::SecretHash;
use domain::tool::Tool;
use domain::{Rng, Timestamp};
use uuid::Uuid;

use super::{Agreed, Approval, Approver, AttachedDevice};
use crate::api_key::{ComputersKey, KeyCreate, add_key_of_computer, scopes_of_text, scopes_text};
use crate::change::Change;
use crate::claim::{claim_locked, lock_agent, lock_unclaimed};
use crate::consent::baseline::{Choice, lock_baseline, write_choice};
use crate::error::StoreError;
use crate::machine::{ATTACHED_BY, Attachment, attach_machine, lock_identity, lock_machine};
use crate::mail::{QueuedMail, insert_mail};
use crate::operation::{During, Operation};
use crate::pool::{Tx, query, scalar};
use crate::row::{parsed, parsed_opt, undecodable};
use crate::{Store, in_transaction};

impl Store {
    /// Attaches the computer of a pending code to the account of the approver; with `agreed.key`, the key that it asks for becomes valid
    /// and replaces its earlier keys; with `agreed.agent`, the agent that asks with it is claimed for the account. Exactly one of
    /// any number of calls approves, and none after a denial. With `agreed.consent`, that level becomes the approver's. `notice` writes the
    /// mail about it, stored with the approval or not at all. An agent that was revoked before approves nothing: to it the code is
    /// consumed.
    pub async fn device_approve(
        &self,
        code: &DeviceCode,
        approver: &Approver,
        agreed: Agreed,
        notice: impl FnOnce(&AttachedDevice) -> QueuedMail + Send,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<Approval, StoreError> {
        let request = Request { code, approver, agreed: &agreed, now };
        in_transaction!(
            &self.pool,
            |tx| {
                let agent = if agreed.agent.is_some() { asking_agent(tx, &code.code).await? } else { None };
                let plan = match approve(&read_facts(tx, request, agent).await?) {
                    Ok(plan) => plan,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                self.execute(tx, request, &plan, rng).await?;
                let Some((asked, has_key)) = settle(tx, request, &plan.account).await? else {
                    return Ok(Err(ApprovalRefusal::TooManyKeys));
                };
                let AskedRow { name, ip_address, .. } = asked;
                if let Some((agent, tool)) = agent {
                    self.claim_asking(tx, agent, &label_of(tool, name.as_deref()), request, &plan).await?;
                }
                let (machine, ApprovalPlan { account, owner, .. }) = (code.machine, plan);
                let attached = AttachedDevice { machine, name, ip_address, account, owner, has_key, agent };
                insert_mail(tx, &notice(&attached), now).await?;
                self.announce(tx, &Change::Device(code.code)).await?;
                Ok(Ok(attached.account))
            },
            commit if Result::is_ok
        )
        .during(Operation::ApproveDeviceCode)
        .await
    }

    /// Attaches the computer as planned, and writes the level that the approver chose for it. The mail about the attachment says it.
    async fn execute(
        &self,
        tx: &mut Tx<'_>,
        Request { code, approver, agreed, now }: Request<'_>,
        plan: &ApprovalPlan,
        rng: &Rng,
    ) -> Result<(), sqlx::Error> {
        const TAKE_OVER: &str = "UPDATE persons SET account_id = $2 WHERE id = $1 AND account_id IS NULL";
        let (machine, agent) = (code.machine, approver.via.agent());
        let ApprovalPlan { account, identity, links, .. } = plan;
        if plan.takes_over {
            lock_baseline(tx, account.as_str()).await?;
            query(TAKE_OVER).bind(approver.person.as_uuid()).bind(account.as_str()).execute(&mut *tx).await?;
        }
        attach_machine(self, tx, Attachment { machine, identity, account, links: *links }, now, rng).await?;
        if plan.is_of_approver {
            let agent = agent.map(|agent| agent.as_uuid());
            query(ATTACHED_BY).bind(machine.as_uuid()).bind(agent).execute(&mut *tx).await?;
        }
        if let Some(level) = agreed.consent {
            let author = if agent.is_some() { Author::Agent } else { Author::Person };
            let choice = Choice { account: account.as_str(), identity, machine, level, author, agent };
            write_choice(self, tx, &choice, now, rng).await?;
        }
        Ok(())
    }

    /// Claims the agent that asks with the computer, and names it.
    async fn claim_asking(
        &self,
        tx: &mut Tx<'_>,
        agent: RegistrationId,
        label: &str,
        Request { approver, agreed, now, .. }: Request<'_>,
        plan: &ApprovalPlan,
    ) -> Result<(), sqlx::Error> {
        const LABEL: &str = "UPDATE registrations SET label = $2 WHERE id = $1";
        let (account, email) = (plan.account.clone(), plan.owner.clone());
        let claim = Claim { account, person: approver.person, email, rights: agreed.agent, at: now };
        claim_locked(tx, agent, &claim, approver.via, now).await?;
        query(LABEL).bind(agent.as_uuid()).bind(label).execute(&mut *tx).await?;
        self.announce_registration(tx, agent.as_uuid()).await
    }
}

/// An approval as the caller requests it.
#[derive(Clone, Copy)]
struct Request<'a> {
    code: &'a DeviceCode,
    approver: &'a Approver,
    agreed: &'a Agreed,
    now: Timestamp,
}

/// Reads the rows that decide about an approval. Lock order: agents, person, account (if a level is chosen), computer, code, identity. An
/// identity that is linked, and an account that is taken over, is locked after them: nothing else locks that identity after that account.
async fn read_facts(
    tx: &mut Tx<'_>,
    Request { code, approver, agreed, now }: Request<'_>,
    agent: Option<(RegistrationId, Tool)>,
) -> Result<ApprovalFacts, sqlx::Error> {
    const PERSON: &str = "UPDATE persons SET id = id WHERE id = $1 RETURNING account_id, email";
    const CODE: &str = "UPDATE device_codes SET changed_at = $2
        WHERE device_code_hash = $1 AND state = 'pending' AND expires_at > $2 RETURNING user_cuid";
    let is_revoked = match approver.via.agent() {
        Some(agent) => !lock_agent(tx, agent).await?,
        None => false,
    };
    let is_agent_gone = match agent {
        Some((agent, _)) => !lock_unclaimed(tx, agent, now).await?,
        None => false,
    };
    let mut person = None;
    if !is_revoked {
        let (account, email): (Option<String>, String) =
            query(PERSON).bind(approver.person.as_uuid()).fetch_one(&mut *tx).await?;
        if let (Some(_), Some(account)) = (agreed.consent, &account) {
            lock_baseline(tx, account).await?;
        }
        let account = parsed_opt("persons.account_id", account.as_deref()).map_err(undecodable)?;
        let email = parsed("persons.email", &email).map_err(undecodable)?;
        person = Some(ApproverFacts { account, email, by_agent: approver.via.agent().is_some() });
    }
    let machine = lock_machine(tx, code.machine).await?;
    let requested_for: Option<String> =
        scalar(CODE).bind(code.code.as_bytes()).bind(now).fetch_optional(&mut *tx).await?;
    let requested_for = parsed_opt("device_codes.user_cuid", requested_for.as_deref()).map_err(undecodable)?;
    let computer = match machine {
        Some((identity, account)) => Some(lock_identity(tx, identity, account, code.machine).await?),
        None => None,
    };
    Ok(ApprovalFacts { approver: person, requested_for, computer, is_agent_gone })
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

crate::row! {
    struct AskedRow {
        name: Option<String>,
        ip_address: Option<String>,
        key_hash: Option<Vec<u8>>,
        key_scopes: Option<String>,
    }
}

/// Marks a code as approved, and adds the key that its computer asks for, if the approver grants one. Returns what the computer sent with
/// the code, and whether it has a new key; `None` if the account has too many.
async fn settle(
    tx: &mut Tx<'_>,
    Request { code, approver, agreed, now }: Request<'_>,
    account: &UserAccountId,
) -> Result<Option<(AskedRow, bool)>, sqlx::Error> {
    const SETTLE: &str = "UPDATE device_codes
        SET state = 'claimed', account_id = $2, person_id = $3, settled_via = $4, settled_at = $5
        WHERE device_code_hash = $1";
    const ASKED: &str = "SELECT m.name, d.ip_address, d.key_hash, d.key_scopes
        FROM device_codes d JOIN machines m ON m.machine_uuid = d.machine_uuid WHERE d.device_code_hash = $1";
    query(SETTLE)
        .bind(code.code.as_bytes())
        .bind(account.as_str())
        .bind(approver.person.as_uuid())
        .bind(approver.via.as_str())
        .bind(now)
        .execute(&mut *tx)
        .await?;
    let asked: AskedRow = query(ASKED).bind(code.code.as_bytes()).fetch_one(&mut *tx).await?;
    let (Some(grant), Some(hash), Some(scopes)) = (agreed.key, &asked.key_hash, &asked.key_scopes) else {
        return Ok(Some((asked, false)));
    };
    let requested = scopes_of_text("device_codes.key_scopes", scopes).map_err(undecodable)?;
    let scopes = &scopes_text(&grant.consent.of(&requested));
    if scopes.is_empty() {
        return Ok(Some((asked, false)));
    }
    let name = asked.name.as_deref().unwrap_or("a computer");
    let new = ComputersKey { machine: code.machine, account: account.as_str(), name, hash, scopes };
    let outcome = add_key_of_computer(tx, grant, &new, now).await?;
    Ok(if outcome == KeyCreate::TooMany { None } else { Some((asked, outcome == KeyCreate::Created)) })
}

/// Label of a tool's agent: "<tool> on <computer>", or "<tool>" if that is too long.
fn label_of(tool: Tool, computer: Option<&str>) -> String {
    let alone = || tool.as_str().to_owned();
    let Some(computer) = computer else { return alone() };
    let both: Result<Label, _> = format!("{} on {}", tool.as_str(), visible(computer)).parse();
    both.map_or_else(|_| alone(), |label| label.as_str().to_owned())
}
