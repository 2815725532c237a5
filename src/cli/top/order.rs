//! The order of the rows.

use super::row::{Family, TopRow};

/// The number by which rows are sorted, largest first. Rows with the same number keep the order of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// Messages that wait or are being handled.
    Depth,
    /// Time since the last message was finished although others wait.
    Age,
    /// Messages a minute.
    Rate,
    /// Restarts, and crashes of keys.
    Crashes,
}

impl Order {
    /// The order after this one.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Depth => Self::Age,
            Self::Age => Self::Rate,
            Self::Rate => Self::Crashes,
            Self::Crashes => Self::Depth,
        }
    }

    /// The name, as `--sort` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Age => "age",
            Self::Rate => "rate",
            Self::Crashes => "crashes",
        }
    }

    fn number(self, row: &TopRow) -> u64 {
        match self {
            Self::Depth => row.queued,
            Self::Age => row.unmoved_ms.unwrap_or_default(),
            Self::Rate => row.times.map_or(0, |times| times.handled_per_minute),
            Self::Crashes => row.crashes,
        }
    }

    /// The rows that match a filter, in this order. The keys of a family follow it, and a family with a matching key is shown too.
    pub fn rows(self, families: &[Family], filter: &str) -> Vec<TopRow> {
        let filter = filter.to_lowercase();
        let is_shown = |row: &TopRow| filter.is_empty() || matches(row, &filter);
        let mut shown: Vec<(u64, &Family, Vec<&TopRow>)> = Vec::new();
        for family in families {
            let is_whole = is_shown(&family.actor);
            let mut keys: Vec<&TopRow> = family.keys.iter().filter(|key| is_whole || is_shown(key)).collect();
            keys.sort_by_key(|key| std::cmp::Reverse(self.number(key)));
            if is_whole || !keys.is_empty() {
                let of_keys = keys.first().map_or(0, |key| self.number(key));
                shown.push((self.number(&family.actor).max(of_keys), family, keys));
            }
        }
        shown.sort_by_key(|(number, ..)| std::cmp::Reverse(*number));
        shown.into_iter().flat_map(|(_, family, keys)| std::iter::once(&family.actor).chain(keys)).cloned().collect()
    }
}

fn matches(row: &TopRow, filter: &str) -> bool {
    let requests = row.entries.iter().filter_map(|entry| entry.request_id.as_deref());
    let texts = [row.name(), row.node.clone(), row.state.to_owned()].into_iter().chain(row.trouble.clone());
    texts.chain(requests.map(str::to_owned)).any(|text| text.to_lowercase().contains(filter))
}
