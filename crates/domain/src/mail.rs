//! Texts of the mails that the service sends: plain text, short, with a way to undo the reported change.
//!
//! Agents and computers choose some of the words, such as the name of a computer. These words are neutralised first:
//! one line, no control or direction characters, bounded length. No mail contains a secret, except the sign-in code.

mod recorded;

pub use self::recorded::{MailNames, rule_matched, weekly_digest};
use crate::Timestamp;
use crate::act::ActReason;
use crate::confirm::ConfirmedVia;
use crate::consent::ConsentLevel;
use crate::foreign::visible;
use crate::ids::{Email, MachineUuid, RegistrationId, UserAccountId};
use crate::lane::Lane;
use crate::signin::{CODE_SECONDS, SignInCode};
use crate::tool::Tool;

/// Maximum length of a text that an agent or a computer chose, in characters.
const FOREIGN_CHARS_MAX: usize = 60;

/// A mail in plain text. `Debug` hides it: it is personal data, and may contain a code.
#[derive(Clone, PartialEq, Eq)]
pub struct OutgoingMail {
    /// Recipient.
    pub to: Email,
    /// Subject, on one line.
    pub subject: String,
    /// Body; every line ends with `
    /// `.
    pub text: String,
}

impl std::fmt::Debug for OutgoingMail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OutgoingMail(…)")
    }
}

/// The mail with a sign-in code. The code is at the start of the text and not in the subject, which lock screens show.
pub fn sign_in_code(to: Email, code: &SignInCode, base_url: &str) -> OutgoingMail {
    let (first, second) = code.expose().split_at(4);
    let text = format!(
        "Your code to sign in:\n\n    {first} {second}\n\nIt is valid for {minutes} minutes, for one sign-in, and only in the browser \
         that requested it at\n{base_url}/signin\n\nWe never ask for this code: enter it on that page only. If you did not request it,\n\
         ignore this mail; no one can sign in without the code.\n",
        minutes = CODE_SECONDS / 60,
    );
    OutgoingMail { to, subject: "Your code to sign in".into(), text }
}

/// An attached computer, for the notice to the account's owner.
#[derive(Debug, Clone)]
pub struct Attached<'a> {
    /// Id of the computer.
    pub machine: MachineUuid,
    /// Name that the computer gave itself.
    pub name: Option<&'a str>,
    /// IP address of the computer's request.
    pub address: Option<&'a str>,
    /// Account that the computer is attached to.
    pub account: &'a UserAccountId,
    /// Whether the computer also got a key of the knowledge API.
    pub has_key: bool,
    /// The agent that acts for the account since then, and its tool.
    pub agent: Option<(RegistrationId, Tool)>,
    /// The credential of the approval.
    pub via: ConfirmedVia,
    /// The level that the approval set for the computer.
    pub consent: Option<ConsentLevel>,
    /// Time of the approval.
    pub at: Timestamp,
}

/// The notice that a computer was attached to an account.
pub fn attached(to: Email, what: &Attached<'_>, base_url: &str) -> OutgoingMail {
    let name = foreign(what.name.unwrap_or_default());
    let name = if name.is_empty() { "without a name".to_owned() } else { format!("\"{name}\" (its own name)") };
    let agent = what.agent.map_or_else(String::new, |(agent, tool)| {
        format!("An agent on it was confirmed too and now acts for your account.\n\n    Tool:         {} (as the computer says)\n    Agent:        {agent}\n\n", tool.as_str())
    });
    let consent = what.consent.map_or_else(String::new, |level| format!("    Recorded:     {}\n", words(level)));
    let text = format!(
        "A computer was attached to your account.\n\n    Computer:     {name}\n    Id:           {machine}\n    Requested by: {address}\n    \
         Approved:     {via}\n{consent}    Account:      {account}\n    Time:         {when}\n\nIt can now record its activity in this account, as far as your consent allows.{key}\n\n\
         {agent}If this was not you, detach the computer{revoke}; its access ends immediately:\n{base_url}/account\n",
        machine = what.machine,
        via = confirmed(what.via),
        address = foreign(what.address.unwrap_or("an unknown address")),
        account = what.account,
        when = moment(what.at),
        agent = agent,
        revoke = if what.agent.is_some() { " and revoke the agent" } else { "" },
        key = if what.has_key { " It also has a key for your memory, which ends with it." } else { "" },
    );
    OutgoingMail { to, subject: "A computer was attached to your account".into(), text }
}

/// The notice that an operator created a session of the person.
pub fn signed_in_by_operator(
    to: Email,
    reason: Option<&ActReason>,
    at: Timestamp,
    until: Timestamp,
    base_url: &str,
) -> OutgoingMail {
    let text = format!(
        "An operator of this server signed in as you.\n\n    Reason:  {reason}\n    Time:    {when}\n    Until:   {until}\n\nUntil then the operator \
         sees your account as you do and can act in it.\nThe service has recorded it. You can end the session now:\n{base_url}/account/access\n\n\
         If you did not expect it, ask who runs this server.\n",
        reason = foreign(reason.map_or("none was given", ActReason::as_str)),
        when = moment(at),
        until = moment(until),
    );
    OutgoingMail { to, subject: "An operator signed in as you".into(), text }
}

/// The notice that an account was closed by its owner.
pub fn closed(to: Email, account: &UserAccountId, at: Timestamp, base_url: &str) -> OutgoingMail {
    let text = format!(
        "Your account was closed.\n\n    Account: {account}\n    Time:    {when}\n\nAll sign-ins, agents, API keys and computers of the account have \
         lost their access, and its\ndata is being deleted. Recorded events stay in the signed log of the service.\n\nYou may sign in \
         again with this address at any time: that is a new account.\n{base_url}\n\nIf this was not you, someone can read your mail or \
         used a browser in which you were signed in.\n",
        when = moment(at),
    );
    OutgoingMail { to, subject: "Your account was closed".into(), text }
}

/// Subject of the notice about a level that the person did not set.
pub const LEVEL_CHANGED: &str = "How much is recorded was changed";

/// A level that an agent or a computer set, for the notice to the account's owner.
#[derive(Debug, Clone, Copy)]
pub struct LevelChanged<'a> {
    /// Name of the agent or computer.
    pub author: &'a str,
    /// Name of the computer; `None` for all computers.
    pub computer: Option<&'a str>,
    /// The lane; `None` for all lanes.
    pub lane: Option<Lane>,
    /// The level of the same scope and side before.
    pub previous: Option<ConsentLevel>,
    /// The new level.
    pub level: ConsentLevel,
    /// The end of a pause, during which the level is `off`; `None` if the change has no end.
    pub until: Option<Timestamp>,
    /// Time of the change.
    pub at: Timestamp,
}

/// The notice that another party than the person changed a level.
pub fn level_changed(to: Email, what: &LevelChanged<'_>, base_url: &str) -> OutgoingMail {
    // A pause changes no recorded level, so the notice has no previous level.
    let change = if let Some(until) = what.until {
        format!("    Now:      nothing until {} (a pause)", moment(until))
    } else {
        let previous = what.previous.map_or("not set", words);
        format!("    Before:   {previous}\n    Now:      {}", words(what.level))
    };
    let text = format!(
        "{author} changed how much is recorded.\n\n    Computer: {computer}\n    Lane:     {lane}\n{change}\n    Time:     {when}\n\nFurther changes within a quarter of an hour are not mailed; all of them are on your activity page:\n\
         {base_url}/account/activity\n\nIf you did not want this, set the level again, or end the pause, and revoke the agent or detach the computer:\n\
         {base_url}/account/consent\n",
        author = foreign(what.author),
        computer = what.computer.map_or_else(|| "all computers".to_owned(), foreign),
        lane = what.lane.map_or("all lanes", Lane::as_str),
        when = moment(what.at),
    );
    OutgoingMail { to, subject: LEVEL_CHANGED.into(), text }
}

/// The name of a level, as on the pages.
fn words(level: ConsentLevel) -> &'static str {
    match level {
        ConsentLevel::Off => "nothing",
        ConsentLevel::MetadataOnly => "no content",
        ConsentLevel::Full => "everything",
    }
}

/// A claimed agent, for the notice to the account's owner.
#[derive(Debug, Clone)]
pub struct Claimed<'a> {
    /// Id of the agent.
    pub agent: RegistrationId,
    /// IP address of the registration.
    pub address: Option<&'a str>,
    /// Account that the agent acts for.
    pub account: &'a UserAccountId,
    /// The credential of the confirmation.
    pub via: ConfirmedVia,
    /// Time of the confirmation.
    pub at: Timestamp,
}

/// The notice that an agent acts for an account.
pub fn claimed(to: Email, what: &Claimed<'_>, base_url: &str) -> OutgoingMail {
    let text = format!(
        "An agent was confirmed for your account and now acts for it.\n\n    Agent:         {agent}\n    Registered by: {address}\n    \
         Confirmed:     {via}\n    Account:       {account}\n    Time:          {when}\n\nIf this was not you, revoke the agent; its \
         access ends immediately:\n{base_url}/account\n",
        agent = what.agent,
        via = confirmed(what.via),
        address = foreign(what.address.unwrap_or("an unknown address")),
        account = what.account,
        when = moment(what.at),
    );
    OutgoingMail { to, subject: "An agent acts for your account".into(), text }
}

/// The credential of a confirmation, in words.
fn confirmed(via: ConfirmedVia) -> String {
    match via {
        ConfirmedVia::Session => "in a browser where you are signed in".to_owned(),
        ConfirmedVia::Agent(agent) => {
            format!("by the agent {agent}, which acts for your account; revoking that agent also ends this")
        }
    }
}

/// Formats a time for people, in UTC.
fn moment(at: Timestamp) -> String {
    at.format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Shortens text from a third party to one line of visible characters.
fn foreign(text: &str) -> String {
    // Breaks links, so that mail programs do not make them clickable.
    let line = visible(text).split_whitespace().collect::<Vec<_>>().join(" ").replace("://", ":/ /").replace('"', "'");
    if line.chars().count() <= FOREIGN_CHARS_MAX {
        line
    } else {
        line.chars().take(FOREIGN_CHARS_MAX - 1).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    const BASE: &str = "https://attache.example.com";

    fn to() -> Email {
        "ada@example.com".parse().unwrap()
    }

    fn attached_as(name: &str) -> OutgoingMail {
        let account = "account1".parse().unwrap();
        let machine = Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH).into();
        let at = Timestamp::UNIX_EPOCH;
        let (name, address) = (Some(name), Some("192.0.2.1"));
        attached(
            to(),
            &Attached {
                machine,
                name,
                address,
                account: &account,
                has_key: false,
                agent: None,
                via: ConfirmedVia::Session,
                consent: None,
                at,
            },
            BASE,
        )
    }

    #[test]
    fn the_code_is_in_the_text_and_not_in_the_subject() {
        let code = "12345678".parse().unwrap();
        let mail = sign_in_code(to(), &code, BASE);
        assert!(mail.text.contains("1234 5678") && mail.text.contains("10 minutes"), "{}", mail.text);
        assert!(mail.text.contains("https://attache.example.com/signin"), "{}", mail.text);
        assert!(!mail.subject.contains("1234"));
        assert_eq!(format!("{mail:?}"), "OutgoingMail(…)");
    }

    #[test]
    fn a_notice_says_what_when_from_where_and_how_to_undo_it() {
        let mail = attached_as("Ada's laptop");
        let parts =
            ["Ada's laptop", "192.0.2.1", "account1", "1970-01-01 00:00 UTC", "https://attache.example.com/account\n"];
        for part in parts {
            assert!(mail.text.contains(part), "{part} in {}", mail.text);
        }
        let agent = Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH).into();
        let account = "account1".parse().unwrap();
        let what =
            Claimed { agent, address: None, account: &account, via: ConfirmedVia::Session, at: Timestamp::UNIX_EPOCH };
        let mail = claimed(to(), &what, BASE);
        let parts =
            [&agent.to_string(), "a browser", "unknown address", "account1", "https://attache.example.com/account\n"];
        for part in parts {
            assert!(mail.text.contains(part), "{part} in {}", mail.text);
        }
    }

    #[test]
    fn the_notice_of_a_joined_approval_names_the_agent_and_how_to_end_it() {
        let (rng, account) = (Rng::seeded(2), "account1".parse().unwrap());
        let (machine, agent) = (rng.uuid_v7(Timestamp::UNIX_EPOCH).into(), rng.uuid_v7(Timestamp::UNIX_EPOCH).into());
        let (agent, at) = (Some((agent, Tool::ClaudeCode)), Timestamp::UNIX_EPOCH);
        let what = Attached {
            machine,
            name: None,
            address: None,
            account: &account,
            has_key: true,
            agent,
            via: ConfirmedVia::Session,
            consent: Some(ConsentLevel::MetadataOnly),
            at,
        };
        let mail = attached(to(), &what, BASE);
        let agent_id = agent.unwrap().0.to_string();
        for part in
            ["claude-code", &agent_id, "revoke the agent", "a key for your memory", "Recorded:     no content\n"]
        {
            assert!(mail.text.contains(part), "{part} in {}", mail.text);
        }
        assert!(!attached_as("laptop").text.contains("agent"));
    }

    #[test]
    fn the_name_of_a_computer_stays_one_short_harmless_line() {
        let lines = attached_as("laptop").text.lines().count();
        for name in [
            "a\nBcc: all@example.com",
            "a\r\n\r\nSend your code to",
            "a\u{2028}b\u{85}c",
            "\u{202e}evil\u{200b}",
            "\u{1b}[31m",
        ] {
            let mail = attached_as(name);
            assert_eq!(mail.text.lines().count(), lines, "{name:?}");
            assert!(
                !mail.text.contains(|c: char| c != '\n' && (c.is_control() || "\u{202e}\u{200b}\u{2028}".contains(c)))
            );
        }
        let mail = attached_as(&"x".repeat(1000));
        assert!(mail.text.contains(&format!("{}…", "x".repeat(59))) && !mail.text.contains(&"x".repeat(60)));
        assert!(!attached_as("see https://evil.example").text.contains("https://evil"));
        assert!(attached_as(" \n ").text.contains("without a name"));
    }
}
