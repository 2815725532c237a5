//! The mail about a level that an agent or computer set, stored in the transaction of the level.

use std::fmt;

use chrono::TimeDelta;
use domain::Timestamp;
use domain::consent::{Author, ConsentLevel, ConsentRule};
use domain::ids::{Email, RegistrationId};
use domain::mail::LEVEL_CHANGED;

use crate::mail::{QueuedMail, insert_mail};
use crate::pool::{Tx, query, scalar};
use crate::row::{parsed, undecodable};

/// Minimum time between two such mails to an account, so that an agent or a computer cannot fill the mailbox.
const PAUSE: TimeDelta = TimeDelta::minutes(15);

/// Creates the mail.
type NewMail<'a> = &'a (dyn Fn(&OthersLevel) -> QueuedMail + Send + Sync);

/// Author of a level, in addition to the side that the rule names.
#[derive(Clone, Copy, Default)]
pub struct LevelAuthor<'a> {
    /// The agent, if an agent sets the level.
    pub agent: Option<RegistrationId>,
    /// The agent's reason.
    pub reason: Option<&'a str>,
    /// Creates the mail to the owner of the account; `None` if the person sets the level.
    pub notice: Option<NewMail<'a>>,
}

impl fmt::Debug for LevelAuthor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LevelAuthor").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// A level that an agent or a computer set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OthersLevel {
    /// The e-mail address of the account's owner.
    pub owner: Email,
    /// Name of the agent or computer.
    pub author: String,
    /// Name of the computer; `None` for all computers.
    pub computer: Option<String>,
    /// The previous level.
    pub previous: Option<ConsentLevel>,
}

/// Queues the mail, unless the account has no owner or got such a mail within [`PAUSE`].
pub(super) async fn queue(
    tx: &mut Tx<'_>,
    account: &str,
    (rule, agent, previous): (&ConsentRule, Option<RegistrationId>, Option<ConsentLevel>),
    mail: NewMail<'_>,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    const OWNER: &str = "SELECT email FROM persons WHERE account_id = $1";
    const LATELY: &str = "SELECT COUNT(*) FROM mails WHERE recipient = $1 AND subject = $2 AND created_at > $3";
    const COMPUTER: &str = "SELECT name FROM machines WHERE machine_uuid = $1";
    const AGENT: &str = "SELECT label FROM registrations WHERE id = $1";
    let owner: Option<String> = scalar(OWNER).bind(account).fetch_optional(&mut *tx).await?;
    let Some(owner) = owner else { return Ok(()) };
    let lately = scalar(LATELY).bind(&owner).bind(LEVEL_CHANGED).bind(now - PAUSE);
    let lately: i64 = lately.fetch_one(&mut *tx).await?;
    if lately > 0 {
        return Ok(());
    }
    let computer = match rule.machine {
        Some(machine) => {
            let row: Option<(Option<String>,)> =
                query(COMPUTER).bind(machine.as_uuid()).fetch_optional(&mut *tx).await?;
            Some(row.and_then(|(name,)| name).unwrap_or_else(|| format!("the computer {machine}")))
        }
        None => None,
    };
    let author = match (agent, rule.set_by) {
        (Some(agent), _) => {
            let row: Option<(Option<String>,)> = query(AGENT).bind(agent.as_uuid()).fetch_optional(&mut *tx).await?;
            row.and_then(|(label,)| label).unwrap_or_else(|| format!("The agent {agent}"))
        }
        (None, Author::Computer) => computer.clone().unwrap_or_else(|| "A computer".to_owned()),
        (None, Author::Agent | Author::Person) => "An agent".to_owned(),
    };
    let owner = parsed("persons.email", &owner).map_err(undecodable)?;
    insert_mail(tx, &mail(&OthersLevel { owner, author, computer, previous }), now).await
}
