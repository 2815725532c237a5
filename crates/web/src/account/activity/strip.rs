//! The chart of the last 30 days: a bar for each day, stacked by lane, and the same numbers as a list.

use app::services::activity::browse::DAYS;
use domain::envelope::Lane;
use domain::usage::Day;
use statistics::log::DayCounts;

use super::filter::FilterQuery;

/// Dimensions of the chart: width of a day with its gap, width of a bar, height of the highest bar.
const STEP: u64 = 12;
const BAR: u64 = 9;
const HEIGHT: u64 = 72;

/// The chart with its list.
pub struct Strip {
    pub bars: Vec<Bar>,
    pub days: Vec<DayLine>,
    /// Names of the first and the last day.
    pub first: String,
    pub last: String,
    /// Summary of the chart in words.
    pub summary: String,
    /// Number of days that were not counted, because later days have too many events.
    pub uncounted: i64,
}

/// A day of the chart.
pub struct Bar {
    /// Whether the filter leaves the day out.
    pub is_out: bool,
    pub x: u64,
    pub title: String,
    pub address: String,
    pub parts: Vec<BarPart>,
}

/// A lane of a day.
pub struct BarPart {
    pub lane: &'static str,
    pub y: u64,
    pub height: u64,
}

/// A day of the list.
pub struct DayLine {
    pub name: String,
    pub address: String,
    pub words: String,
}

impl Strip {
    /// The last 30 days up to `today`; `None` if they have no events.
    pub fn of(counts: &DayCounts, today: Day, query: &FilterQuery, path: &str) -> Option<Self> {
        let first = Day::from(today.number() - DAYS + 1);
        let total = |day: Day| Lane::ALL.iter().filter_map(|lane| counts.events.get(&(day, *lane))).sum::<u64>();
        let filter = query.filter();
        let is_out = |day: Day| filter.first.is_some_and(|from| day < from) || filter.last.is_some_and(|to| day > to);
        let all: u64 = counts.events.values().sum();
        let chosen: u64 = counts.events.iter().filter(|((day, _), _)| !is_out(*day)).map(|(_, count)| count).sum();
        let highest =
            (first.number()..=today.number()).map(|day| total(Day::from(day))).max().filter(|most| *most > 0)?;
        let (mut bars, mut days) = (Vec::new(), Vec::new());
        for (place, number) in (0..).zip(first.number()..=today.number()) {
            let day = Day::from(number);
            let (name, words) = (day.begin().format("%-d %B").to_string(), in_words(counts, day));
            let address = format!("{path}{}", query.of_day(day));
            bars.push(Bar {
                is_out: is_out(day),
                x: place * STEP,
                title: format!("{name}: {words}"),
                address: address.clone(),
                parts: parts(counts, day, highest),
            });
            if total(day) > 0 {
                days.push(DayLine { name, address, words });
            }
        }
        days.reverse();
        let more = if counts.more.is_empty() { "" } else { " or more" };
        Some(Self {
            bars,
            summary: if filter.first.is_none() && filter.last.is_none() {
                format!(
                    "{}{more} in 30 days, on {}",
                    events(all),
                    if days.len() == 1 { "1 day".to_owned() } else { format!("{} days", days.len()) }
                )
            } else {
                format!("{}{more} on the chosen days, {all} in 30 days", events(chosen))
            },
            days,
            first: first.begin().format("%-d %b").to_string(),
            last: today.begin().format("%-d %b").to_string(),
            uncounted: counts.since.map_or(0, |since| since.number() - first.number()),
        })
    }

    /// Width of the chart.
    pub fn width(&self) -> u64 {
        STEP * self.bars.len() as u64 - (STEP - BAR)
    }
}

/// The parts of a bar from its bottom; each lane with events has a visible part.
fn parts(counts: &DayCounts, day: Day, highest: u64) -> Vec<BarPart> {
    let mut foot = HEIGHT;
    let mut parts = Vec::new();
    for lane in Lane::ALL {
        let Some(count) = counts.events.get(&(day, *lane)).filter(|count| **count > 0) else { continue };
        let height = (count.saturating_mul(HEIGHT) / highest).max(2).min(foot);
        foot -= height;
        parts.push(BarPart { lane: lane.as_str(), y: foot, height });
    }
    parts
}

fn in_words(counts: &DayCounts, day: Day) -> String {
    let lanes = Lane::ALL.iter().filter_map(|lane| Some((lane, counts.events.get(&(day, *lane))?)));
    let more = |lane: &Lane| if counts.more.contains(&(day, *lane)) { "+" } else { "" };
    let parts: Vec<String> =
        lanes.clone().map(|(lane, count)| format!("{count}{} {}", more(lane), lane.title())).collect();
    match parts.as_slice() {
        [] => "no events".to_owned(),
        _ => format!("{} ({})", events(lanes.map(|(_, count)| count).sum()), parts.join(", ")),
    }
}

fn events(count: u64) -> String {
    if count == 1 { "1 event".to_owned() } else { format!("{count} events") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_stacked_and_the_list_has_the_same_numbers() {
        let today = Day::from(20_000);
        let day = |days_ago: i64| Day::from(today.number() - days_ago);
        let mut counts = DayCounts::default();
        assert!(Strip::of(&counts, today, &FilterQuery::default(), "/a").is_none());
        counts.events.extend([((day(0), Lane::Memory), 1), ((day(0), Lane::Rsi), 10_000), ((day(29), Lane::Llm), 1)]);
        counts.more.push((day(0), Lane::Rsi));
        let strip = Strip::of(&counts, today, &FilterQuery::default(), "/a").unwrap();
        assert_eq!((strip.bars.len(), strip.width(), strip.uncounted), (30, 357, 0));
        assert_eq!(strip.summary, "10002 events or more in 30 days, on 2 days");
        let today_bar = strip.bars.last().unwrap();
        assert_eq!(today_bar.title, "4 October: 10001 events (1 Memory, 10000+ Self-review)");
        let shape: Vec<_> = today_bar.parts.iter().map(|part| (part.lane, part.y, part.height)).collect();
        assert_eq!(shape, [("memory", 70, 2), ("rsi", 0, 70)]);
        assert_eq!(strip.bars[0].parts[0].height, 2);
        assert_eq!(strip.days[0].address, "/a?from=2024%2D10%2D04&to=2024%2D10%2D04");
        let query: FilterQuery = serde_urlencoded::from_str("from=2024-10-01").unwrap();
        let strip = Strip::of(&counts, today, &query, "/a").unwrap();
        assert_eq!(strip.summary, "10001 events or more on the chosen days, 10002 in 30 days");
        assert_eq!(strip.bars.iter().filter(|bar| !bar.is_out).count(), 4);
        counts.since = Some(day(9));
        assert_eq!(Strip::of(&counts, today, &FilterQuery::default(), "/a").unwrap().uncounted, 20);
    }
}
