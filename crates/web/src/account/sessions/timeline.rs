//! The timeline of a session: its events, the time between them, and the events of subagents as branches.

use app::services::agent_sessions::TimelineEvent;
use chrono::DateTime;
use domain::registry::Tone;

use super::words::duration;

/// Gaps that are shown as waiting, in milliseconds.
const WAIT_MIN_MS: i64 = 1_000;
/// Maximum depth of branches; deeper ones are drawn at this depth.
const DEPTH_MAX: usize = 3;

/// A row, newest first.
pub struct TimelineLine {
    pub id: String,
    pub lane: String,
    pub text: String,
    /// The word of the tone, and whether it is bad.
    pub word: Option<(&'static str, bool)>,
    /// Time of day of the computer's clock.
    pub time: String,
    /// 0, or the depth of the subagent.
    pub depth: usize,
    /// The wait before this event, in words.
    pub waited: Option<String>,
}

/// The rows of a page of events, newest first. An agent continues after the answer to its request, so only the newest event of the
/// session, on the first page, can wait for a person.
pub fn rows(events: &[TimelineEvent], is_first_page: bool) -> Vec<TimelineLine> {
    let (mut depth, mut before): (usize, Option<&TimelineEvent>) = (0, None);
    let mut rows = Vec::with_capacity(events.len());
    // A branch starts with its older event.
    for (place, event) in events.iter().enumerate().rev() {
        let is_newest = is_first_page && place == 0;
        let activity = event.facts.activity.as_deref().unwrap_or_default();
        if activity == "subagent_ended" {
            depth = depth.saturating_sub(1);
        }
        rows.push(TimelineLine {
            id: event.event.event_id.to_string(),
            lane: event.event.lane.clone(),
            text: event.summary.text.clone(),
            word: match event.summary.tone {
                Tone::Waiting if !is_newest => None,
                tone => tone.word().map(|word| (word, tone != Tone::Waiting)),
            },
            time: time(event.event.ts_edge_ms),
            depth: depth.min(DEPTH_MAX),
            waited: before.and_then(|before| waited(before, event)),
        });
        if activity == "subagent_started" {
            depth += 1;
        }
        before = Some(event);
    }
    rows.reverse();
    rows
}

fn waited(before: &TimelineEvent, event: &TimelineEvent) -> Option<String> {
    let is_prompt = event.facts.activity.as_deref() == Some("prompt_submitted");
    let is_request = before.facts.activity.as_deref() == Some("permission_requested");
    let reason = match (is_prompt, is_request) {
        (true, _) => "for a prompt",
        (_, true) => "for a permission",
        _ => return None,
    };
    let gap = event.event.ts_edge_ms.saturating_sub(before.event.ts_edge_ms);
    (gap >= WAIT_MIN_MS).then(|| format!("Waited {} {reason}", duration(gap)))
}

/// The time of day in UTC; the day is in the header of the page.
fn time(ts_edge_ms: i64) -> String {
    DateTime::from_timestamp_millis(ts_edge_ms).map(|at| at.format("%H:%M:%S").to_string()).unwrap_or_default()
}
