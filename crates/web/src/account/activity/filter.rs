//! The filters of the activity page: parameters of its address, fields, and chips.

use app::services::activity::browse::ActivityFilter;
use domain::envelope::Lane;
use domain::registry::Tone;
use domain::usage::Day;
use serde::Deserialize;

use super::computers::Computers;
use crate::visitor::quoted;

/// Maximum number of characters of a text or name in the URL; longer ones are truncated.
const TEXT_MAX: usize = 200;

/// `?computer&agent&type&lane&result&from&to&text&cursor`; an empty or unknown value is no restriction.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct FilterQuery {
    computer: String,
    agent: String,
    #[serde(rename = "type")]
    event_type: String,
    lane: String,
    result: String,
    from: String,
    to: String,
    text: String,
    cursor: String,
}

/// An active filter, with the URL of the page without it.
pub struct Chip {
    pub name: &'static str,
    pub value: String,
    pub without: String,
}

/// A lane, with the URL of the page of only this lane.
pub struct LaneChip {
    pub name: &'static str,
    pub title: &'static str,
    pub meaning: &'static str,
    pub is_on: bool,
    pub address: String,
}

impl FilterQuery {
    /// The filter that the parameters describe.
    pub fn filter(&self) -> ActivityFilter {
        let some = |text: &str| Some(cut(text)).filter(|text| !text.is_empty());
        ActivityFilter {
            machine: self.computer.parse().ok(),
            agent: some(&self.agent),
            event_type: some(&self.event_type),
            lane: self.lane.parse().ok(),
            first: self.from.parse().ok(),
            last: self.to.parse().ok(),
            text: some(self.text.trim()),
            tone: self.result.parse().ok().filter(|tone| *tone != Tone::Plain),
        }
    }

    /// The start of the page.
    pub fn cursor(&self) -> Option<&str> {
        Some(self.cursor.as_str()).filter(|cursor| !cursor.is_empty())
    }

    /// Values of the fields of the form.
    pub fn from(&self) -> String {
        self.filter().first.map(|day| day.to_string()).unwrap_or_default()
    }

    /// The last day, as the value of its field.
    pub fn to(&self) -> String {
        self.filter().last.map(|day| day.to_string()).unwrap_or_default()
    }

    /// The text, as the value of its field.
    pub fn text(&self) -> String {
        cut(self.text.trim())
    }

    /// The parameters without the cursor, with the prefix `?`; empty without parameters.
    pub fn parameters(&self) -> String {
        self.with(&[])
    }

    /// The parameters of the next page.
    pub fn at(&self, cursor: &str) -> String {
        self.with(&[("cursor", cursor)])
    }

    /// The parameters of an export in a format.
    pub fn export(&self, format: &str) -> String {
        let parameters = self.parameters();
        format!("{parameters}{}format={format}", if parameters.is_empty() { '?' } else { '&' })
    }

    /// The parameters of the page of the events with this text.
    pub fn of_text(&self, text: &str) -> String {
        self.with(&[("text", text)])
    }

    /// The parameters of the page of one day.
    pub fn of_day(&self, of: Day) -> String {
        let day = of.to_string();
        self.with(&[("from", &day), ("to", &day)])
    }

    /// The parameters with these replacements and without the cursor; empty values are left out.
    fn with(&self, replaced: &[(&str, &str)]) -> String {
        let own = [
            ("computer", self.computer.as_str()),
            ("agent", &self.agent),
            ("type", &self.event_type),
            ("lane", &self.lane),
            ("result", &self.result),
            ("from", &self.from),
            ("to", &self.to),
            ("text", self.text.trim()),
            ("cursor", ""),
        ];
        let mut parameters = String::new();
        for (name, value) in own {
            let value = replaced.iter().find(|(given, _)| *given == name).map_or(value, |(_, value)| *value);
            if !value.is_empty() {
                parameters.push(if parameters.is_empty() { '?' } else { '&' });
                parameters.push_str(name);
                parameters.push('=');
                parameters.push_str(&quoted(&cut_to(value, 1024)).to_string());
            }
        }
        parameters
    }

    /// The active filters except the lane, which has separate chips.
    pub fn chips(&self, computers: &Computers, path: &str) -> Vec<Chip> {
        let filter = self.filter();
        let without = |names: &[(&str, &str)]| format!("{path}{}", self.with(names));
        let mut chips = Vec::new();
        let mut add = |name, value: Option<String>, names: &[(&str, &str)]| {
            chips.extend(value.map(|value| Chip { name, value, without: without(names) }));
        };
        add("Computer", filter.machine.map(|machine| computers.name(machine).to_owned()), &[("computer", "")]);
        add("Agent", filter.agent, &[("agent", "")]);
        add("Type", filter.event_type, &[("type", "")]);
        let days = match (filter.first, filter.last) {
            (None, None) => None,
            (Some(first), Some(last)) if first == last => Some(first.to_string()),
            (Some(first), Some(last)) => Some(format!("{first} to {last}")),
            (Some(first), None) => Some(format!("from {first}")),
            (None, Some(last)) => Some(format!("up to {last}")),
        };
        add("Days", days, &[("from", ""), ("to", "")]);
        add("Result", filter.tone.map(|tone| tone.as_str().to_owned()), &[("result", "")]);
        add("Text", filter.text, &[("text", "")]);
        chips
    }

    /// The lanes as links. The filter's lane is on, and its link removes the filter.
    pub fn lanes(&self, path: &str) -> Vec<LaneChip> {
        let chosen = self.lane.parse::<Lane>().ok();
        let chip = |lane: &Lane| {
            let is_on = chosen == Some(*lane);
            let name = lane.as_str();
            LaneChip {
                name,
                title: lane.title(),
                meaning: lane.meaning(),
                is_on,
                address: format!("{path}{}", self.with(&[("lane", if is_on { "" } else { name })])),
            }
        };
        Lane::ALL.iter().map(chip).collect()
    }
}

fn cut(text: &str) -> String {
    cut_to(text, TEXT_MAX)
}

fn cut_to(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> FilterQuery {
        serde_urlencoded::from_str(text).unwrap()
    }

    #[test]
    fn what_cannot_be_read_restricts_nothing() {
        for text in ["", "computer=x&lane=dream&from=yesterday&to=2026-02-30&text=+&agent=&type=", "other=1"] {
            assert!(query(text).filter().is_empty(), "{text}");
        }
        let filter = query("lane=llm&from=2026-01-01&to=2026-01-31&text=+a+&type=llm.failed").filter();
        assert_eq!((filter.lane, filter.text.as_deref()), (Some(Lane::Llm), Some("a")));
        assert_eq!(
            (filter.first.map(|day| day.to_string()), filter.last.map(|day| day.to_string())),
            (Some("2026-01-01".into()), Some("2026-01-31".into()))
        );
    }

    #[test]
    fn addresses_keep_the_other_filters_and_drop_the_cursor() {
        let query = query("lane=llm&text=a%26b&cursor=xyz");
        assert_eq!(query.parameters(), "?lane=llm&text=a%26b");
        assert_eq!(query.at("n~1"), "?lane=llm&text=a%26b&cursor=n%7E1");
        assert_eq!(query.of_day(Day::from(20_000)), "?lane=llm&from=2024%2D10%2D04&to=2024%2D10%2D04&text=a%26b");
        let lanes = query.lanes("/a");
        let address = |name: &str| lanes.iter().find(|lane| lane.name == name).unwrap().address.clone();
        assert_eq!((address("llm"), address("rsi")), ("/a?text=a%26b".into(), "/a?lane=rsi&text=a%26b".into()));
    }
}
