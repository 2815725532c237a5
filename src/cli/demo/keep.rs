//! The month of a team that `attache demo --keep` leaves behind: the computer of the tour sends it as a computer does that was offline.

use chrono::{Datelike as _, TimeDelta};
use client::Client;
use domain::Timestamp;
use domain::consent::ConsentLevel;
use domain::tool::Tool;
use domain::usage::Day;
use wire::consent::ConsentRequest;

use super::month::{COMPUTERS, MonthEvent, events};
use commands::connection::{ProfileConnection, failed};
use commands::event::draft::{EventDraft, Line};
use commands::event::report::ReportFormat;
use commands::event::sender::EventSender;
use commands::failure::Failure;

/// Sends the month up to now; returns the number of events. With the person of the computer, the events have content.
pub async fn leave_month(connection: &ProfileConnection, person: Option<&Client>) -> Result<usize, Failure> {
    let level = match person {
        Some(person) => {
            let machine_uuid = Some(connection.machine()?.machine_uuid);
            let reason = Some("the events of the demo".to_owned());
            let request = ConsentRequest { level: ConsentLevel::Full, reason, machine_uuid, lane: None };
            person.consent_set(&request).await.map_err(failed)?;
            ConsentLevel::Full
        }
        None => ConsentLevel::MetadataOnly,
    };
    let now = connection.clock().now();
    let begin = begin(now);
    let month: Vec<MonthEvent> = events().into_iter().filter(|event| begin + event.at <= now).collect();
    for (computer, (_, agent)) in COMPUTERS.into_iter().enumerate() {
        let tool: Tool = agent.parse().map_err(Failure::caused)?;
        let of_agent = month.iter().filter(|event| event.computer == computer);
        let lines: Vec<Line> = (1..)
            .zip(of_agent)
            .map(|(number, event)| Line { number, draft: draft(event, begin, level, tool) })
            .collect();
        EventSender::new(connection, agent, ReportFormat::Silent)?.all(&lines).await?;
    }
    Ok(month.len())
}

/// A Monday, so that the month ends this week.
fn begin(now: Timestamp) -> Timestamp {
    let latest = Day::of(now - TimeDelta::days(23));
    Day::from(latest.number() - i64::from(latest.begin().weekday().num_days_from_monday())).begin()
}

fn draft(event: &MonthEvent, begin: Timestamp, level: ConsentLevel, tool: Tool) -> EventDraft {
    EventDraft {
        ts_edge_ms: Some((begin + event.at).timestamp_millis()),
        lane: Some(event.lane),
        consent_level: Some(level),
        project_id: Some(event.project.to_owned()),
        session_uuid: Some(hooks::session(tool, &format!("demo {}", event.session))),
        ..EventDraft::new(event.event_type, event.payload(level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_month_begins_on_a_monday_and_ends_in_this_week() {
        for number in 20_000..20_007 {
            let now = Day::from(number).begin() + TimeDelta::hours(12);
            let begin = begin(now);
            assert_eq!(begin.weekday(), chrono::Weekday::Mon);
            assert!((TimeDelta::days(23)..TimeDelta::days(30)).contains(&(now - begin)), "{now}");
        }
    }
}
