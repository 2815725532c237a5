//! Recorded events with filters, a chart of the last days and the state of their proofs, and held events with the next step.
//!
//! | module | content |
//! |---|---|
//! | [`event`] | the page of one event, with its proof |
//! | [`export`](mod@export) | the filtered events as a file |
//! | [`news`] | the number of events that arrived since a page was shown |

mod change;
pub(crate) mod computers;
pub mod event;
pub mod export;
mod filter;
pub(crate) mod held;
pub mod news;
pub(crate) mod rows;
mod strip;

use app::services::activity::browse::{Activity, PageOf};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use domain::registry::Tone;
use domain::usage::Day;

use self::computers::{ComputerChoice, Computers};
use self::filter::{Chip, FilterQuery, LaneChip};
use self::held::HeldGroup;
use self::rows::{DayGroup, ProofState};
use self::strip::Strip;
use super::AccountOwner;
use crate::{Moment, PageError, PageLayout, PageQuery, PageResult, Site, page};

/// Path of the page, below the base URL.
const PATH: &str = "/account/activity";
/// Maximum number of held events on the page.
const HELD_MAX: usize = 50;

#[derive(Template)]
#[template(path = "account/activity.html")]
#[expect(clippy::struct_excessive_bools, reason = "each is a condition of the template")]
struct ActivityPage {
    frame: PageLayout,
    tab: &'static str,
    query: FilterQuery,
    computers: Vec<ComputerChoice>,
    agents: Vec<(String, bool)>,
    types: Vec<(String, bool)>,
    lanes: Vec<LaneChip>,
    chips: Vec<Chip>,
    is_filtered: bool,
    is_first: bool,
    is_embedded: bool,
    strip: Option<Strip>,
    /// The most frequent sentences, each with its number and the page of its events.
    frequent: Vec<(String, String, String)>,
    results: Vec<(&'static str, bool)>,
    /// `None` if the statistics service does not respond, or its response cannot be parsed.
    days: Option<Vec<DayGroup>>,
    /// Id of the newest event of the page, for the request for newer ones.
    newest: String,
    next: Option<String>,
    /// Number of events with a payload that was too long to search.
    unread: u32,
    /// The event at which the search for a filter without an index stopped.
    stopped: Option<Stopped>,
    export_max: u32,
    held: Vec<HeldGroup>,
    held_count: usize,
    more_held: bool,
    keys: Vec<String>,
}

/// The tones that a person filters by.
const RESULTS: [Tone; 4] = [Tone::Failed, Tone::Blocked, Tone::Waiting, Tone::Alert];

struct Stopped {
    events: u32,
    at: Moment,
}

/// `GET /account/activity`
pub async fn show(
    State(site): State<Site>,
    State(activity): State<Activity>,
    owner: AccountOwner,
    PageQuery(query): PageQuery<FilterQuery>,
) -> PageResult {
    let now = site.ports.clock.now();
    let page_error = PageError::of(&site);
    let scope = activity.scope(&owner.account).await.map_err(&page_error)?;
    let computers = Computers::of(&site, &owner.account, &scope).await?;
    let filter = query.filter();
    let page_events = activity.settings().page_events;
    let (found, counts, held, keys) = tokio::join!(
        activity.search(&scope, &filter, &computers, PageOf::new(query.cursor(), page_events)),
        activity.days(&scope, &filter, &computers),
        activity.held(&owner.account, HELD_MAX),
        activity.keys(),
    );
    let (held, more_held) = held.map_err(&page_error)?;
    let held_count = held.len();
    let held = held::groups(&activity, &scope, held, &computers, now).await.map_err(PageError::of(&site))?;
    let frame = PageLayout::new(&site, Some(&owner.visitor));
    let path = format!("{}{PATH}", frame.root);
    let counts = counts.unwrap_or_else(|error| {
        tracing::warn!(error = domain::reasons(&error), "the events of the last days could not be counted");
        None
    });
    let found = found
        .inspect_err(|error| tracing::warn!(error = domain::reasons(error), "recorded events could not be read"))
        .ok();
    let (mut newest, mut next, mut stopped, mut days, mut unread) = (String::new(), None, None, None, 0);
    if let Some(found) = found {
        unread = found.unread;
        next = found.next.map(|cursor| format!("{path}{}", query.at(&cursor)));
        stopped = found.stopped_at.map(|at| Stopped { events: found.searched, at: Moment::new(at, now) });
        let entries: Vec<_> = found.entries.into_iter().map(|(entry, _)| entry).collect();
        newest = entries.first().map(|entry| entry.event_id.clone()).unwrap_or_default();
        days = Some(rows::grouped(rows::rows(&activity, &scope, entries, &computers, now).await, now));
    }
    let choices = activity.choices();
    let option = |name: &str, chosen: &Option<String>| (name.to_owned(), chosen.as_deref() == Some(name));
    Ok(page(
        StatusCode::OK,
        &ActivityPage {
            tab: "activity",
            computers: computers.choices(filter.machine),
            agents: choices.agents.iter().map(|name| option(name, &filter.agent)).collect(),
            types: choices.types.iter().map(|name| option(name, &filter.event_type)).collect(),
            lanes: query.lanes(&path),
            chips: query.chips(&computers, &path),
            is_filtered: !filter.is_empty(),
            is_first: query.cursor().is_none(),
            is_embedded: activity.is_embedded(),
            frequent: counts.as_ref().map(|counts| frequent(&counts.frequent, &query, &path)).unwrap_or_default(),
            strip: counts.and_then(|counts| Strip::of(&counts.days, Day::of(now), &query, &path)),
            results: RESULTS.iter().map(|tone| (tone.as_str(), filter.tone == Some(*tone))).collect(),
            days,
            newest,
            next,
            stopped,
            unread,
            export_max: activity.settings().export_events_max,
            held,
            held_count,
            more_held,
            keys,
            query,
            frame,
        },
    ))
}

/// Sentences that occur more than once, as lines of the page.
fn frequent(sentences: &[(String, u64)], query: &FilterQuery, path: &str) -> Vec<(String, String, String)> {
    let line = |(text, events): &(String, u64)| {
        (text.clone(), domain::thousands(*events), format!("{path}{}", query.of_text(text)))
    };
    sentences.iter().filter(|(_, events)| *events > 1).map(line).collect()
}
