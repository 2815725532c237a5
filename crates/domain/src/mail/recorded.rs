//! Mails about recorded events: the message of a rule, and the weekly digest. Neither contains content of an event.

use std::collections::HashMap;

use super::{OutgoingMail, foreign, moment};
use crate::Timestamp;
use crate::ids::{Email, MachineUuid};
use crate::registry::Tone;
use crate::rule::{EventRule, Novelty, RuleMessage, WeekDigest};

/// Number of listed new values of a property.
const LISTED_MAX: usize = 10;

/// The names of an account's computers.
pub type MailNames = HashMap<MachineUuid, String>;

/// The mail about events that match a rule. `every` is the shortest time between two mails of a rule, in words.
pub fn rule_matched(
    to: Email,
    rule: &EventRule,
    message: &RuleMessage,
    names: &MailNames,
    every: &str,
    base_url: &str,
) -> OutgoingMail {
    let name = foreign(rule.name.as_str());
    let RuleMessage { events, first_at, last, new } = message;
    let count = counted(*events, "event");
    let tone = last.tone.word().map_or_else(String::new, |word| format!(", {word}"));
    let new = new.as_ref().map_or_else(String::new, |new| {
        format!("    New {:9} {}\n", format!("{}:", new.novelty), shown(new.novelty, &new.value, names))
    });
    let text = format!(
        "{count} matched your rule \"{name}\" since {since}.\n\n    Newest:       {event_type}{tone}\n    Lane:         {lane}\n    \
         Agent:        {agent}\n    Computer:     {computer}\n    Received:     {received}\n{new}\nThe newest event:\n\
         {base_url}/account/activity/{event}\n\nThe next mail of this rule comes after {every} or later, and counts all matches until \
         then.\n\nChange or delete the rule:\n{base_url}/account/rules\n",
        since = moment(*first_at),
        event_type = foreign(&last.event_type),
        lane = last.lane.title(),
        agent = foreign(&last.agent),
        computer = computer(last.machine, names),
        received = moment(last.received_at),
        event = last.event_id,
    );
    OutgoingMail { to, subject: format!("{name}: {count}"), text }
}

/// The mail about a week. `held` is the number of events that are held since its start.
pub fn weekly_digest(
    to: Email,
    week: &WeekDigest,
    held: u64,
    until: Timestamp,
    names: &MailNames,
    base_url: &str,
) -> OutgoingMail {
    let period = format!("from {} to {}", moment(week.since), moment(until));
    let end = format!(
        "\n{base_url}/account/activity\n\nThis mail is sent on Mondays because you switched it on. Switch it off:\n{base_url}/account/rules\n"
    );
    if week.events == 0 && held == 0 {
        let text = format!(
            "Nothing was recorded {period}.\n\nIf your agents worked in this time, look whether their computers are still attached:\n\
             {base_url}/account\n\nThe next of these mails is sent after the next event.\n{end}"
        );
        return OutgoingMail { to, subject: "Your week: nothing was recorded".into(), text };
    }
    let failed = week.tones.get(Tone::Failed.as_str()).copied().unwrap_or_default();
    let count = counted(week.events, "event");
    let subject =
        if failed > 0 { format!("Your week: {count}, {failed} failed") } else { format!("Your week: {count}") };
    let tones = week.tones.iter().map(|(tone, count)| (tone.clone(), *count));
    let mut parts = vec![
        format!("{count} {} recorded {period}.\n", if week.events == 1 { "was" } else { "were" }),
        section("By lane", week.lanes.iter().map(|(lane, count)| (lane.title().to_owned(), *count))),
        section("By agent", week.agents.iter().map(|(agent, count)| (foreign(agent), *count))),
        section("By computer", week.computers.iter().map(|(machine, count)| (computer(*machine, names), *count))),
        section("To look at", tones.chain((held > 0).then(|| ("held".to_owned(), held)))),
    ];
    for (novelty, (values, count)) in &week.new {
        let listed = values.iter().take(LISTED_MAX).map(|value| shown(*novelty, value, names)).collect::<Vec<_>>();
        let rest = count.saturating_sub(listed.len() as u64);
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        parts.push(format!("\n{} for the first time: {}{rest}\n", plural(*novelty), listed.join(", ")));
    }
    parts.push(end);
    OutgoingMail { to, subject, text: parts.concat() }
}

/// A title and its counts; empty without counts.
fn section(title: &str, rows: impl Iterator<Item = (String, u64)>) -> String {
    let rows: Vec<String> = rows.map(|(name, count)| format!("    {count:>7}  {name}\n")).collect();
    if rows.is_empty() { String::new() } else { format!("\n{title}\n{}", rows.concat()) }
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn plural(novelty: Novelty) -> &'static str {
    match novelty {
        Novelty::Tool => "Tools",
        Novelty::Project => "Projects",
        Novelty::Computer => "Computers",
    }
}

fn shown(novelty: Novelty, value: &str, names: &MailNames) -> String {
    match (novelty, value.parse()) {
        (Novelty::Computer, Ok(machine)) => computer(machine, names),
        _ => foreign(value),
    }
}

/// The name of a computer, or its id.
fn computer(machine: MachineUuid, names: &MailNames) -> String {
    let name = names.get(&machine).map(|name| foreign(name)).filter(|name| !name.is_empty());
    name.map_or_else(|| machine.to_string(), |name| format!("\"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use crate::lane::Lane;
    use crate::rule::{Observed, RuleCondition, RuleOutlets, RuleState, Sighting};

    const BASE: &str = "https://attache.example.com";

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_timestamp(1_767_225_600 + 60 * minutes, 0).unwrap()
    }

    fn event(minutes: i64) -> Observed {
        let rng = Rng::seeded(1);
        Observed {
            event_id: rng.uuid_v7(at(0)).into(),
            event_type: "skill.invoked".to_owned(),
            lane: Lane::Skill,
            agent: "claude-code".to_owned(),
            machine: rng.uuid_v7(at(0)).into(),
            tone: Tone::Failed,
            received_at: at(minutes),
        }
    }

    fn tool(name: &str) -> Sighting {
        Sighting { novelty: Novelty::Tool, value: name.to_owned() }
    }

    #[test]
    fn the_mail_of_a_rule_names_the_newest_event_and_the_way_to_the_rule() {
        let rule = EventRule {
            id: Rng::seeded(3).uuid_v7(at(0)).into(),
            account: "account1".parse().unwrap(),
            name: "New tools".parse().unwrap(),
            when: RuleCondition { first_time: Some(Novelty::Tool), ..RuleCondition::default() },
            outlets: RuleOutlets { mail: true, notify: false },
            created_at: at(0),
        };
        let mut state = RuleState::default();
        state.observe(&rule, &event(1), &[tool("Bash")]);
        state.observe(&rule, &event(2), &[tool("curl https://evil.example/")]);
        let message = state.take(at(3), chrono::TimeDelta::hours(1)).unwrap();
        let names = MailNames::from([(event(0).machine, "laptop\nBcc: x".to_owned())]);
        let mail = rule_matched("ada@example.com".parse().unwrap(), &rule, &message, &names, "1h", BASE);
        assert_eq!(mail.subject, "New tools: 2 events");
        let id = event(0).event_id.to_string();
        for part in [
            "2 events matched your rule \"New tools\" since 2026-01-01 00:01 UTC.",
            "skill.invoked, failed\n",
            "Tools\n",
            "claude-code",
            "\"laptop Bcc: x\"\n",
            "New tool:     curl https:/ /evil.example/\n",
            &format!("{BASE}/account/activity/{id}\n"),
            &format!("{BASE}/account/rules\n"),
        ] {
            assert!(mail.text.contains(part), "{part} in {}", mail.text);
        }
    }

    #[test]
    fn the_digest_counts_names_what_is_new_and_says_how_to_end_it() {
        let mut week = WeekDigest::starting(at(0));
        for number in 0..30 {
            week.observe(&event(number), &[tool(&format!("tool-{number}"))]);
        }
        let to = || "ada@example.com".parse().unwrap();
        let mail = weekly_digest(to(), &week, 2, at(60), &MailNames::new(), BASE);
        assert_eq!(mail.subject, "Your week: 30 events, 30 failed");
        for part in [
            "30 events were recorded from 2026-01-01 00:00 UTC to 2026-01-01 01:00 UTC.\n",
            "         30  Tools\n",
            "         30  claude-code\n",
            "         30  failed\n          2  held\n",
            "Tools for the first time: tool-0, tool-1, ",
            "tool-9 and 20 more\n",
            "Switch it off:\nhttps://attache.example.com/account/rules\n",
        ] {
            assert!(mail.text.contains(part), "{part} in {}", mail.text);
        }
        let quiet = weekly_digest(to(), &WeekDigest::starting(at(0)), 0, at(60), &MailNames::new(), BASE);
        assert!(quiet.text.starts_with("Nothing was recorded from ") && quiet.text.contains("/account/rules\n"));
    }
}
