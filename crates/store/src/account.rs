//! Accounts, their owners, and linked identities (`docs/decisions/0002-accounts-and-computers.md`).

use domain::ids::{Email, MachineUuid, PersonId, UserAccountId, UserCuid};
use domain::usage::Plan;
use domain::{Rng, Timestamp};
use serde_json::{Value, json};

use crate::error::{Corrupt, StoreError};
use crate::operation::{During, Operation};
use crate::pool::{probe, query, scalar};
use crate::probes::rows::{AccountRow, IdentityRow, PersonRow};
use crate::row::{limit, parsed, parsed_opt, storable};
use crate::{Store, in_transaction, joined, probes};

/// Locks an account, so that concurrent transactions count its rows one after the other.
pub(crate) const LOCK_ACCOUNT: &str =
    "UPDATE accounts SET user_account_id = user_account_id WHERE user_account_id = $1";

/// An account with the name of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// `user_account_id`.
    pub id: UserAccountId,
    /// The paid plan.
    pub plan: Plan,
    /// Purchased balance, in US cents.
    pub balance_cents: i64,
    /// The name of the account, or of its owner.
    pub name: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// The owner; `None` while the account is only provisioned.
    pub owner: Option<(PersonId, Email)>,
}

crate::row! {
    struct ListedRow {
        account: AccountRow,
        closed_at: Option<Timestamp>,
    }
}

/// A person who can sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Id of the person.
    pub id: PersonId,
    /// Verified e-mail address.
    pub email: Email,
    /// Name, if it is known.
    pub name: Option<String>,
    /// The account that the person owns, at most one.
    pub account: Option<UserAccountId>,
}

/// An identity: the local user of one or more computers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `user_cuid`.
    pub user_cuid: UserCuid,
    /// The account that it is linked to.
    pub account: Option<UserAccountId>,
    /// Machine id of the chain on which the service reports its own changes for this identity.
    pub control_machine: Option<MachineUuid>,
    /// Time of the first request that named it.
    pub created_at: Timestamp,
}

/// Result of provisioning an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provision {
    /// The account was created.
    Created(UserAccountId),
    /// The identity is already linked to an account.
    IdentityLinked,
    /// The person already owns an account.
    PersonHasAccount,
}

impl Store {
    /// Creates an account for an identity without an owner, for a person, or for both.
    #[boxed]
    pub async fn account_provision(
        &self,
        user_cuid: Option<&UserCuid>,
        email: Option<&Email>,
        name: Option<&str>,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<Provision, StoreError> {
        let account = new_account(rng)?;
        let person = rng.uuid_v7(now);
        let name = name.map(storable);
        in_transaction!(
            &self.pool,
            |tx| {
                query("INSERT INTO accounts (user_account_id, name, created_at) VALUES ($1, $2, $3)")
                    .bind(account.as_str())
                    .bind(name.as_deref())
                    .bind(now)
                    .execute(&mut *tx)
                    .await?;
                if let Some(user_cuid) = user_cuid {
                    query(IDENTITY_ADD).bind(user_cuid.as_str()).bind(now).execute(&mut *tx).await?;
                    let linked = query(IDENTITY_LINK)
                        .bind(user_cuid.as_str())
                        .bind(account.as_str())
                        .execute(&mut *tx)
                        .await?;
                    if linked == 0 {
                        return Ok(Provision::IdentityLinked);
                    }
                }
                if let Some(email) = email {
                    let row: PersonRow = query(PERSON_FIND_OR_ADD)
                        .bind(person)
                        .bind(email.as_str())
                        .bind(now)
                        .fetch_one(&mut *tx)
                        .await?;
                    if row.account_id.is_some() {
                        return Ok(Provision::PersonHasAccount);
                    }
                    query(PERSON_OWN).bind(row.id).bind(account.as_str()).execute(&mut *tx).await?;
                }
                self.record_change(tx, (Value::Null, json!({ "user_account_id": account })), now).await?;
                Ok(Provision::Created(account.clone()))
            },
            commit if |outcome| matches!(outcome, Provision::Created(_))
        )
        .during(Operation::ProvisionAccount)
        .await
    }

    /// Finds or creates the person with a verified e-mail address. With `create_account`, a person without an account gets one.
    /// Concurrent sign-ins create one person and one account.
    #[boxed]
    pub async fn person_sign_in(
        &self,
        email: &Email,
        create_account: bool,
        now: Timestamp,
        rng: &Rng,
    ) -> Result<Person, StoreError> {
        let (person, account) = (rng.uuid_v7(now), new_account(rng)?);
        let row = in_transaction!(&self.pool, |tx| {
            // The update locks the row, so that concurrent transactions do not give this person a second account.
            let mut person_row: PersonRow =
                query(PERSON_FIND_OR_ADD).bind(person).bind(email.as_str()).bind(now).fetch_one(&mut *tx).await?;
            if person_row.account_id.is_none() && create_account {
                query("INSERT INTO accounts (user_account_id, created_at) VALUES ($1, $2)")
                    .bind(account.as_str())
                    .bind(now)
                    .execute(&mut *tx)
                    .await?;
                query(PERSON_OWN).bind(person_row.id).bind(account.as_str()).execute(&mut *tx).await?;
                self.record_change(tx, (Value::Null, json!({ "user_account_id": account })), now).await?;
                person_row.account_id = Some(account.as_str().to_owned());
            }
            Ok(person_row)
        })
        .during(Operation::SignPersonIn)
        .await?;
        Ok(row.try_into()?)
    }

    /// An account with its owner, read through an index on the caller's thread.
    #[boxed]
    pub async fn account_by_id(&self, account: &UserAccountId) -> Result<Option<Account>, StoreError> {
        let row = probe(probes::ACCOUNT).bind(account.as_str()).fetch_optional(&self.pool);
        let row = row.during(Operation::ReadAccount).await?;
        Ok(row.map(Account::try_from).transpose()?)
    }

    /// Accounts for operators, newest first, each with the time at which it was closed: all, or one.
    #[boxed]
    pub async fn accounts(
        &self,
        account: Option<&UserAccountId>,
        rows_max: usize,
    ) -> Result<Vec<(Account, Option<Timestamp>)>, StoreError> {
        const LISTED: &str = "SELECT a.user_account_id, a.plan, a.balance_cents, COALESCE(a.name, p.name) AS name,
                a.created_at, p.id AS person_id, p.email, c.closed_at
            FROM accounts a LEFT JOIN persons p ON p.account_id = a.user_account_id
                LEFT JOIN account_closings c ON c.account_id = a.user_account_id";
        const ALL: &str = joined!(LISTED, " ORDER BY a.created_at DESC, a.user_account_id LIMIT $1");
        const ONE: &str = joined!(LISTED, " WHERE a.user_account_id = $2 LIMIT $1");
        let rows = match account {
            None => query(ALL).bind(limit(rows_max)),
            Some(account) => query(ONE).bind(limit(rows_max)).bind(account.as_str()),
        };
        let rows: Vec<ListedRow> = rows.fetch_all(&self.pool).during(Operation::ListAccounts).await?;
        Ok(rows.into_iter().map(|row| Ok((row.account.try_into()?, row.closed_at))).collect::<Result<_, Corrupt>>()?)
    }

    /// Sets the plan of an account; `false` if there is no such account.
    #[boxed]
    pub async fn account_plan_set(
        &self,
        account: &UserAccountId,
        plan: Plan,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        const LOCK: &str = "UPDATE accounts SET plan = plan WHERE user_account_id = $1 RETURNING plan";
        const SQL: &str = "UPDATE accounts SET plan = $2 WHERE user_account_id = $1";
        in_transaction!(
            &self.pool,
            |tx| {
                let previous: Option<String> =
                    scalar(LOCK).bind(account.as_str()).fetch_optional(&mut *tx).await?;
                let Some(previous) = previous else { return Ok(false) };
                query(SQL).bind(account.as_str()).bind(plan.as_str()).execute(&mut *tx).await?;
                let change = (json!({ "plan": previous }), json!({ "plan": plan.as_str() }));
                self.record_change(tx, change, now).await?;
                Ok(true)
            },
            commit if |done| *done
        )
        .during(Operation::SetPlan)
        .await
    }

    /// People for operators, newest first.
    #[boxed]
    pub async fn persons(&self, rows_max: usize) -> Result<Vec<Person>, StoreError> {
        const SQL: &str = "SELECT id, email, name, account_id FROM persons ORDER BY id DESC LIMIT $1";
        let rows: Vec<PersonRow> =
            query(SQL).bind(limit(rows_max)).fetch_all(&self.pool).during(Operation::ListPeople).await?;
        Ok(rows.into_iter().map(Person::try_from).collect::<Result<_, _>>()?)
    }

    /// The account of the person with an e-mail address, for operators; `None` before the first sign-in.
    #[boxed]
    pub async fn account_by_email(&self, email: &Email) -> Result<Option<UserAccountId>, StoreError> {
        const SQL: &str = "SELECT account_id FROM persons WHERE email = $1 AND account_id IS NOT NULL";
        let account: Option<String> =
            scalar(SQL).bind(email.as_str()).fetch_optional(&self.pool).during(Operation::FindAccountByAddress).await?;
        Ok(parsed_opt("persons.account_id", account.as_deref())?)
    }

    /// A person by id.
    #[boxed]
    pub async fn person_by_id(&self, person: PersonId) -> Result<Option<Person>, StoreError> {
        let row = probe(probes::PERSON).bind(person.as_uuid()).fetch_optional(&self.pool);
        let row = row.during(Operation::ReadPerson).await?;
        Ok(row.map(Person::try_from).transpose()?)
    }

    /// The identities that are linked to an account, sorted by text.
    #[boxed]
    pub async fn identities_of_account(&self, account: &UserAccountId) -> Result<Vec<UserCuid>, StoreError> {
        let rows = probe(probes::IDENTITIES).bind(account.as_str()).fetch_all(&self.pool);
        let mut rows = rows.during(Operation::ListIdentitiesOfAccount).await?;
        rows.sort_unstable_by(|left, right| left.user_cuid.cmp(&right.user_cuid));
        Ok(rows.iter().map(|row| parsed("identities.user_cuid", &row.user_cuid)).collect::<Result<_, _>>()?)
    }

    /// An identity by its `user_cuid`.
    #[boxed]
    pub async fn identity(&self, user_cuid: &UserCuid) -> Result<Option<Identity>, StoreError> {
        let row = probe(probes::IDENTITY).bind(user_cuid.as_str()).fetch_optional(&self.pool);
        let row = row.during(Operation::ReadIdentity).await?;
        Ok(row.map(Identity::try_from).transpose()?)
    }
}

/// Inserts an identity unless it exists.
pub(crate) const IDENTITY_ADD: &str =
    "INSERT INTO identities (user_cuid, created_at) VALUES ($1, $2) ON CONFLICT (user_cuid) DO NOTHING";

const IDENTITY_LINK: &str = "UPDATE identities SET account_id = $2 WHERE user_cuid = $1 AND account_id IS NULL";

const PERSON_FIND_OR_ADD: &str = "INSERT INTO persons (id, email, created_at) VALUES ($1, $2, $3)
    ON CONFLICT (email) DO UPDATE SET email = excluded.email RETURNING id, email, name, account_id";

const PERSON_OWN: &str = "UPDATE persons SET account_id = $2 WHERE id = $1 AND account_id IS NULL";

fn new_account(rng: &Rng) -> Result<UserAccountId, Corrupt> {
    parsed("accounts.user_account_id", &rng.cuid2())
}

impl TryFrom<AccountRow> for Account {
    type Error = Corrupt;

    fn try_from(row: AccountRow) -> Result<Self, Corrupt> {
        let email = parsed_opt("persons.email", row.email.as_deref())?;
        Ok(Self {
            id: parsed("accounts.user_account_id", &row.user_account_id)?,
            plan: parsed("accounts.plan", &row.plan)?,
            balance_cents: row.balance_cents,
            name: row.name,
            created_at: row.created_at,
            owner: row.person_id.map(PersonId::from).zip(email),
        })
    }
}

impl TryFrom<PersonRow> for Person {
    type Error = Corrupt;

    fn try_from(row: PersonRow) -> Result<Self, Corrupt> {
        Ok(Self {
            id: row.id.into(),
            email: parsed("persons.email", &row.email)?,
            name: row.name,
            account: parsed_opt("persons.account_id", row.account_id.as_deref())?,
        })
    }
}

impl TryFrom<IdentityRow> for Identity {
    type Error = Corrupt;

    fn try_from(row: IdentityRow) -> Result<Self, Corrupt> {
        Ok(Self {
            user_cuid: parsed("identities.user_cuid", &row.user_cuid)?,
            account: parsed_opt("identities.account_id", row.account_id.as_deref())?,
            control_machine: row.control_machine_uuid.map(MachineUuid::from),
            created_at: row.created_at,
        })
    }
}
