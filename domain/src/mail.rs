//! The letters that the service writes to people: plain text, short, and with a way to undo what they tell of.
//!
//! Agents and computers choose some of the words in them (the name of a computer, say). Such words are made harmless first: one
//! line, nothing that steers a terminal or the direction of writing, and not long. No letter carries a secret, except the sign-in
//! code to whom it belongs.

use crate::Timestamp;
use crate::confirm::ConfirmedVia;
use crate::foreign::visible;
use crate::ids::{Email, MachineUuid, RegistrationId, UserAccountId};
use crate::signin::{CODE_SECONDS, SignInCode};

/// Characters of a word that an agent or a computer chose.
const FOREIGN_CHARS_MAX: usize = 60;

/// A mail in plain text. `Debug` shows nothing of it: it is personal, and may hold a code.
#[derive(Clone, PartialEq, Eq)]
pub struct OutgoingMail {
    /// To whom.
    pub to: Email,
    /// One line.
    pub subject: String,
    /// Lines that end with `\n`.
    pub text: String,
}

impl std::fmt::Debug for OutgoingMail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OutgoingMail(…)")
    }
}

/// The code with which a person signs in. It is the first thing in the text and not in the subject, which locked screens show.
pub fn sign_in_code(to: Email, code: &SignInCode, base_url: &str) -> OutgoingMail {
    let (first, second) = code.expose().split_at(4);
    let text = format!(
        "Your code to sign in:\n\n    {first} {second}\n\nIt works for {minutes} minutes, once, and only in the browser that asked for \
         it at\n{base_url}/signin\n\nNobody will ever ask you for this code: type it on that page and nowhere else. If you did not ask for \
         it,\nyou need do nothing; without the code nobody gets in.\n",
        minutes = CODE_SECONDS / 60,
    );
    OutgoingMail { to, subject: "Your code to sign in".into(), text }
}

/// A computer that was attached to an account.
#[derive(Debug, Clone)]
pub struct Attached<'a> {
    /// The computer.
    pub machine: MachineUuid,
    /// Its name, as it calls itself.
    pub name: Option<&'a str>,
    /// The address from which the computer asked.
    pub address: Option<&'a str>,
    /// The account that it is attached to.
    pub account: &'a UserAccountId,
    /// When.
    pub at: Timestamp,
}

/// Tells the owner of an account that a computer was attached to it.
pub fn attached(to: Email, what: &Attached<'_>, base_url: &str) -> OutgoingMail {
    let name = foreign(what.name.unwrap_or_default());
    let name = if name.is_empty() { "without a name".to_owned() } else { format!("that calls itself \"{name}\"") };
    let text = format!(
        "A computer was attached to your account.\n\n    Computer:  {name}\n    Number:    {machine}\n    Asked from: {address}\n    \
         Account:   {account}\n    When:      {when}\n\nIt may now send what happens on it to this account, as far as your consent allows.\n\n\
         Was it you? Then all is well. If not, detach the computer; its access ends at once:\n{base_url}/account\n",
        machine = what.machine,
        address = foreign(what.address.unwrap_or("an unknown address")),
        account = what.account,
        when = moment(what.at),
    );
    OutgoingMail { to, subject: "A computer was attached to your account".into(), text }
}

/// An agent that was claimed.
#[derive(Debug, Clone)]
pub struct Claimed<'a> {
    /// The agent.
    pub agent: RegistrationId,
    /// The address that the agent registered from.
    pub address: Option<&'a str>,
    /// The account that it acts for.
    pub account: &'a UserAccountId,
    /// With which credential it was confirmed.
    pub via: ConfirmedVia,
    /// When.
    pub at: Timestamp,
}

/// Tells the owner of an account that an agent acts for it now.
pub fn claimed(to: Email, what: &Claimed<'_>, base_url: &str) -> OutgoingMail {
    let via = match what.via {
        ConfirmedVia::Session => "in a browser where you are signed in".to_owned(),
        ConfirmedVia::Agent(agent) => {
            format!("by the agent {agent}, which already acts for you; revoking that one ends both")
        }
    };
    let text = format!(
        "An agent was confirmed for your account and acts for it from now on.\n\n    Agent:      {agent}\n    Registered: from {address}\n    \
         Confirmed:  {via}\n    Account:    {account}\n    When:       {when}\n\nWas it you? Then all is well. If not, revoke the agent; its \
         access ends at once:\n{base_url}/account\n",
        agent = what.agent,
        address = foreign(what.address.unwrap_or("an unknown address")),
        account = what.account,
        when = moment(what.at),
    );
    OutgoingMail { to, subject: "An agent acts for your account".into(), text }
}

/// A moment for people, in UTC.
fn moment(at: Timestamp) -> String {
    at.format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Words that a stranger chose, as one short line of visible characters.
fn foreign(text: &str) -> String {
    // A link that a stranger chose must not be clickable in a letter of ours.
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
        attached(to(), &Attached { machine, name: Some(name), address: Some("192.0.2.1"), account: &account, at }, BASE)
    }

    #[test]
    fn the_code_stands_in_the_text_and_not_in_the_subject() {
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
    fn what_a_computer_calls_itself_stays_one_short_harmless_line() {
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
