//! A small chart of the last days: a bar for each day, rendered by the server, without a script.

use std::fmt;
use std::fmt::Write as _;

use askama::FastWritable;
use askama::filters::HtmlSafe;

/// Width of a day and of the gap after it.
const DAY: usize = 5;
/// Width of a bar.
const BAR: usize = 4;
/// Height of the picture above its ground line.
const HEIGHT: u64 = 24;

/// Counts of consecutive days, the oldest first. Written as an `<svg>` element with a text for readers that do not see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayStrip {
    days: Vec<u64>,
    text: String,
}

impl DayStrip {
    /// `noun` is the plural noun of the counted objects.
    pub fn new(days: Vec<u64>, noun: &str) -> Self {
        let sum: u64 = days.iter().sum();
        let text = format!("{sum} {noun} in {} days", days.len());
        Self { days, text }
    }

    /// Sum of all days.
    pub fn sum(&self) -> u64 {
        self.days.iter().sum()
    }
}

impl fmt::Display for DayStrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, ground) = (self.days.len() * DAY, HEIGHT + 1);
        let most = self.days.iter().copied().max().unwrap_or(0).max(1);
        let mut bars = String::new();
        for (day, count) in self.days.iter().enumerate().filter(|(_, count)| **count > 0) {
            // One event stays visible next to ten thousand.
            let height = (count.saturating_mul(HEIGHT) / most).max(2);
            write!(bars, r#"<rect x="{}" y="{}" width="{BAR}" height="{height}"/>"#, day * DAY, HEIGHT - height)?;
        }
        write!(
            f,
            r#"<svg class="strip" viewBox="0 0 {width} {}" preserveAspectRatio="none" role="img" aria-label="{}"><line x1="0" x2="{width}" y1="{ground}" y2="{ground}"/>{bars}</svg>"#,
            ground + 1,
            self.text
        )
    }
}

impl FastWritable for DayStrip {
    fn write_into(&self, dest: &mut dyn fmt::Write, _: &dyn askama::Values) -> askama::Result<()> {
        Ok(write!(dest, "{self}")?)
    }
}

/// The strip only contains numbers and constant words, which need no escaping.
impl HtmlSafe for DayStrip {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_with_one_event_is_visible_beside_a_busy_one() {
        let strip = DayStrip::new(vec![0, 1, 10_000], "memory events");
        let drawn = strip.to_string();
        assert_eq!(drawn.matches("<rect").count(), 2);
        assert!(drawn.contains(r#"y="22" width="4" height="2""#), "{drawn}");
        assert!(drawn.contains(r#"y="0" width="4" height="24""#), "{drawn}");
        assert!(drawn.contains("10001 memory events in 3 days"));
        assert_eq!(DayStrip::new(Vec::new(), "events").sum(), 0);
    }
}
