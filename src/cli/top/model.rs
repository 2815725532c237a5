//! The state of the view: the last snapshot, the rows of it, the selection and the prompt.

use std::collections::VecDeque;

use domain::act::ActReason;
use supervision::root::Node;
use wire::ops::NodeEntry;

use super::order::Order;
use super::prompt::{Prompt, Reload};
use super::row::{self, Family, RowId, TopRow};
use super::send::ActAnswer;
use super::snapshot::Snapshot;
use crate::cli::tap::TapSamples;
use commands::failure::Failure;

/// Lines of sampled events that are kept.
const SAMPLES_MAX: usize = 200;

/// The state of the view.
#[derive(Debug)]
pub struct TopModel {
    /// The last snapshot; `None` before the first one.
    pub snapshot: Option<Snapshot>,
    /// Why the last reading failed; `None` if it succeeded.
    pub fault: Option<String>,
    /// The number by which rows are sorted.
    pub order: Order,
    /// Text that the rows contain; empty for all rows.
    pub filter: String,
    /// The state of the lower panel.
    pub prompt: Prompt,
    /// Whether the selected row is shown with all its data.
    pub has_detail: bool,
    /// Lines of the detail above the first one that is shown.
    pub detail_from: usize,
    /// The answer to the last act, until the next key.
    pub notice: Option<Notice>,
    /// The newest sampled events, a line each; `None` while they are not shown.
    pub samples: Option<VecDeque<String>>,
    families: Vec<Family>,
    rows: Vec<TopRow>,
    selected: usize,
}

/// A text about the last key or act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The text, of one line or several.
    pub text: String,
    /// Whether it is a refusal or a failure.
    pub is_bad: bool,
}

impl TopModel {
    /// A state before the first reading.
    pub fn new(order: Order) -> Self {
        Self {
            snapshot: None,
            fault: None,
            order,
            filter: String::new(),
            prompt: Prompt::None,
            has_detail: false,
            detail_from: 0,
            notice: None,
            samples: None,
            families: Vec::new(),
            rows: Vec::new(),
            selected: 0,
        }
    }

    /// Takes the result of a reading. After a failure the last snapshot remains.
    pub fn read(&mut self, result: Result<Snapshot, Failure>) {
        match result {
            Ok(snapshot) => {
                self.families = row::families(&snapshot);
                (self.snapshot, self.fault) = (Some(snapshot), None);
                self.arrange();
            }
            Err(failure) => self.fault = Some(failure.reason().lines().next().unwrap_or_default().to_owned()),
        }
    }

    /// Takes a sampled event.
    pub fn sampled(&mut self, line: String) {
        if let Some(samples) = &mut self.samples {
            samples.push_back(line);
            if samples.len() > SAMPLES_MAX {
                samples.pop_front();
            }
        }
    }

    /// Takes the answer to an act that had this reason. Returns the samples of a tap.
    pub fn answered(&mut self, answer: Result<ActAnswer, Failure>, reason: ActReason) -> Option<TapSamples> {
        self.prompt = Prompt::None;
        match answer {
            Ok(ActAnswer::Tap(samples)) => {
                self.samples = Some(VecDeque::new());
                return Some(samples);
            }
            Ok(ActAnswer::Done(text)) => self.notice = Some(Notice { text, is_bad: false }),
            Ok(ActAnswer::Preview(node, changes)) => self.prompt = Prompt::Confirm(Reload { node, changes, reason }),
            Err(failure) => self.refuse(failure.reason()),
        }
        None
    }

    /// Shows why something is not done.
    pub fn refuse(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), is_bad: true });
    }

    /// Computes the rows again; the selection stays on its row.
    pub fn arrange(&mut self) {
        let id = self.selected_row().map(|row| row.id.clone());
        self.rows = self.order.rows(&self.families, &self.filter);
        let place = id.and_then(|id: RowId| self.rows.iter().position(|row| row.id == id));
        self.selected = place.unwrap_or(self.selected).min(self.rows.len().saturating_sub(1));
    }

    /// The rows that match the filter, in their order.
    pub fn rows(&self) -> &[TopRow] {
        &self.rows
    }

    /// Number of actors without the rows of keys, whether they match the filter or not.
    pub fn actors(&self) -> usize {
        self.families.len()
    }

    /// Place of the selected row.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The selected row; `None` if there are no rows.
    pub fn selected_row(&self) -> Option<&TopRow> {
        self.rows.get(self.selected)
    }

    /// The actor of the selected row.
    pub fn selected_actor(&self) -> Option<&Node> {
        let RowId { node, actor, .. } = &self.selected_row()?.id;
        self.snapshot.as_ref()?.actor(*node, actor)
    }

    /// The keys of the selected row, if it is a family.
    pub fn selected_keys(&self) -> &[TopRow] {
        let id = self.selected_row().map(|row| &row.id);
        let family = self.families.iter().find(|family| Some(&family.actor.id) == id);
        family.map(|family| family.keys.as_slice()).unwrap_or_default()
    }

    /// The node of the selected row in the table of nodes.
    pub fn selected_node(&self) -> Option<&NodeEntry> {
        self.snapshot.as_ref()?.entry(self.selected_row()?.id.node)
    }

    /// Moves the selection by this number of rows.
    pub fn move_by(&mut self, by: isize) {
        self.selected = self.selected.saturating_add_signed(by).min(self.rows.len().saturating_sub(1));
        self.detail_from = 0;
    }
}
