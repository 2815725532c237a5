//! The levels for all computers of an account. Each identity of the account has separate, equal records: they are written together, and a
//! newly linked identity gets copies (`docs/decisions/0014-consent.md`).

use domain::consent::{Author, ConsentLevel, ConsentRule, chosen_rules};
use domain::envelope::Lane;
use domain::ids::{MachineUuid, RegistrationId, UserCuid};
use domain::{Rng, Timestamp};

use super::pause::report_lasting_pause;
use super::{LevelAuthor, Report, level_of, lock_chain, rules_of, set_levels, write_level, write_report};
use crate::Store;
use crate::pool::{Tx, query, scalar};
use crate::row::{parsed, parsed_opt, undecodable};

/// Locks an account's levels for all computers, for the time in which an identity is linked. Lock order: account, identities.
pub(crate) async fn lock_baseline(tx: &mut Tx<'_>, account: &str) -> Result<(), sqlx::Error> {
    const SQL: &str = "UPDATE accounts SET plan = plan WHERE user_account_id = $1";
    query(SQL).bind(account).execute(tx).await.map(drop)
}

/// The account that an identity is linked to.
pub(super) async fn account_of(tx: &mut Tx<'_>, user_cuid: &UserCuid) -> Result<Option<String>, sqlx::Error> {
    const SQL: &str = "SELECT account_id FROM identities WHERE user_cuid = $1";
    let account: Option<Option<String>> = scalar(SQL).bind(user_cuid.as_str()).fetch_optional(tx).await?;
    Ok(account.flatten())
}

/// The identities of an account, in the order in which they are locked.
pub(super) async fn identities_of(tx: &mut Tx<'_>, account: &str) -> Result<Vec<UserCuid>, sqlx::Error> {
    const SQL: &str = "SELECT user_cuid FROM identities WHERE account_id = $1 ORDER BY user_cuid";
    let rows: Vec<String> = scalar(SQL).bind(account).fetch_all(tx).await?;
    let mut identities: Vec<UserCuid> =
        rows.iter().map(|text| parsed("identities.user_cuid", text)).collect::<Result<_, _>>().map_err(undecodable)?;
    identities.sort_unstable_by(|left, right| left.as_str().cmp(right.as_str()));
    Ok(identities)
}

/// Whether all identities of an account have this level for all computers and `lane`.
pub(super) async fn is_common(
    tx: &mut Tx<'_>,
    account: &str,
    lane: Option<Lane>,
    level: Option<ConsentLevel>,
) -> Result<bool, sqlx::Error> {
    const SQL: &str = "SELECT COUNT(*) FROM identities i WHERE i.account_id = $1
        AND COALESCE((SELECT c.level FROM consent_levels c WHERE c.user_cuid = i.user_cuid AND c.machine_uuid IS NULL
            AND c.lane IS NOT DISTINCT FROM $2 AND c.set_by <> 'computer'), '') <> $3";
    let others: i64 = scalar(SQL)
        .bind(account)
        .bind(lane.map(Lane::as_str))
        .bind(level.map_or("", ConsentLevel::as_str))
        .fetch_one(tx)
        .await?;
    Ok(others == 0)
}

/// Copies the account's levels for all computers to a newly linked identity, in the caller's transaction: for all lanes and for each lane
/// the newest level, with its author.
pub(crate) async fn inherit_baseline(
    store: &Store,
    tx: &mut Tx<'_>,
    user_cuid: &UserCuid,
    account: &str,
    now: Timestamp,
    rng: &Rng,
) -> Result<(), sqlx::Error> {
    lock_baseline(tx, account).await?;
    for rule in newest(tx, user_cuid, account).await? {
        let Some(chain) = lock_chain(tx, user_cuid, now, rng).await? else { return Ok(()) };
        let previous = level_of(tx, user_cuid, &rule).await?;
        if write_level(tx, user_cuid, &rule, previous.is_some(), None, now).await? {
            // The level of the account did not change, so the owner is not notified.
            let report =
                Report { rule, previous, inherited: true, agent: None, reason: None, is_news: false, pause: None };
            write_report(store, tx, chain, user_cuid, report, now, rng).await?;
        }
    }
    report_lasting_pause(store, tx, user_cuid, account, now, rng).await
}

/// A level that a person chooses while they attach a computer.
pub(crate) struct Choice<'a> {
    pub(crate) account: &'a str,
    pub(crate) identity: &'a UserCuid,
    pub(crate) machine: MachineUuid,
    pub(crate) level: ConsentLevel,
    pub(crate) author: Author,
    /// The approving agent, if any.
    pub(crate) agent: Option<RegistrationId>,
}

/// Writes the records of a choice ([`chosen_rules`]). The account is locked and the identity is linked to it.
pub(crate) async fn write_choice(
    store: &Store,
    tx: &mut Tx<'_>,
    choice: &Choice<'_>,
    now: Timestamp,
    rng: &Rng,
) -> Result<(), sqlx::Error> {
    let rules = rules_of(tx, choice.identity).await?;
    for rule in chosen_rules(&rules, choice.machine, choice.level, choice.author) {
        let identities = match rule.machine {
            Some(_) => vec![choice.identity.clone()],
            None => identities_of(tx, choice.account).await?,
        };
        let author = LevelAuthor { agent: choice.agent, ..LevelAuthor::default() };
        set_levels(store, tx, &identities, &rule, &author, now, rng).await?;
    }
    Ok(())
}

/// The newest levels for all computers among the other identities of an account, the general one first.
async fn newest(tx: &mut Tx<'_>, user_cuid: &UserCuid, account: &str) -> Result<Vec<ConsentRule>, sqlx::Error> {
    const SQL: &str = "SELECT c.lane, c.level, c.set_by
        FROM identities i JOIN consent_levels c ON c.user_cuid = i.user_cuid
        WHERE i.account_id = $1 AND i.user_cuid <> $2 AND c.machine_uuid IS NULL AND c.set_by <> 'computer'
        ORDER BY COALESCE(c.lane, ''), c.changed_at DESC, c.user_cuid";
    let rows: Vec<(Option<String>, String, String)> =
        query(SQL).bind(account).bind(user_cuid.as_str()).fetch_all(tx).await?;
    let mut rules: Vec<ConsentRule> = Vec::new();
    for (lane, level, author) in rows {
        let lane: Option<Lane> = parsed_opt("consent_levels.lane", lane.as_deref()).map_err(undecodable)?;
        if rules.last().is_some_and(|newer| newer.lane == lane) {
            continue;
        }
        let level: ConsentLevel = parsed("consent_levels.level", &level).map_err(undecodable)?;
        let set_by: Author = parsed("consent_levels.set_by", &author).map_err(undecodable)?;
        rules.push(ConsentRule { machine: None, lane, level, set_by });
    }
    Ok(rules)
}
