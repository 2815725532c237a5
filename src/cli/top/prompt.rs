//! The states of the lower panel: a filter, a choice, a reason, a confirmation.

use domain::act::ActReason;

use super::act::{Act, NodeName};

/// The object that keys affect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Prompt {
    /// Keys select rows and act on them.
    #[default]
    None,
    /// The filter of the rows.
    Filter,
    /// The list of keys.
    Help,
    /// One of several acts.
    Choice(Choice),
    /// The reason of an act.
    Reason(ReasonInput),
    /// Whether a reload with these changes is carried out.
    Confirm(Reload),
    /// The answer to an act is awaited.
    Waiting(String),
}

/// A list of acts, one of which is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Heading above the lines.
    pub title: String,
    /// Each act with the words of its line.
    pub options: Vec<(String, Act)>,
    /// Place of the selected one.
    pub selected: usize,
}

/// An input line for the reason of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonInput {
    /// The act that waits for its reason.
    pub act: Act,
    /// The text so far.
    pub text: String,
    /// Why the text is no reason, once it was entered.
    pub mistake: Option<String>,
}

/// A reload that is shown before it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// The node that reads its configuration.
    pub node: NodeName,
    /// The changes, one a line.
    pub changes: String,
    /// The reason of the act.
    pub reason: ActReason,
}

impl Choice {
    /// Moves the selection by this number of lines.
    pub fn moved(&mut self, by: isize) {
        self.selected = self.selected.saturating_add_signed(by).min(self.options.len().saturating_sub(1));
    }

    /// The selected act.
    pub fn act(&self) -> Option<&Act> {
        self.options.get(self.selected).map(|(_, act)| act)
    }
}

impl ReasonInput {
    /// Without a text.
    pub fn of(act: Act) -> Self {
        Self { act, text: String::new(), mistake: None }
    }

    /// The reason, or the mistake of the text, which the input keeps.
    pub fn entered(&mut self) -> Option<ActReason> {
        match self.text.parse() {
            Ok(reason) => Some(reason),
            Err(error) => {
                let error: domain::act::InvalidReason = error;
                self.mistake = Some(error.to_string());
                None
            }
        }
    }
}
