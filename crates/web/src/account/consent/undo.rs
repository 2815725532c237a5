//! The inverse of the last save, in a sealed cookie.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use domain::ids::UserAccountId;

use super::matrix::{CellChange, CellState, ConsentMatrix};

/// Maximum number of changes that can be undone: browsers keep cookies of 4096 bytes.
const CHANGES_MAX: usize = 24;

/// The states before and after a save, by the names of the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveUndo(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    field: String,
    before: CellState,
    after: CellState,
}

impl SaveUndo {
    /// The inverse of these changes.
    pub fn of(changes: &[CellChange]) -> Self {
        let step =
            |change: &CellChange| Step { field: change.cell().to_string(), before: change.now, after: change.to };
        Self(changes.iter().map(step).collect())
    }

    /// The value of the cookie; `None` without changes or with more than `CHANGES_MAX`. A cell of identities with different levels has no
    /// inverse.
    pub fn seal(&self, account: &UserAccountId) -> Option<String> {
        let is_undoable =
            (1..=CHANGES_MAX).contains(&self.0.len()) && self.0.iter().all(|step| step.before != CellState::Mixed);
        let step = |step: &Step| format!("{}={}={}", step.field, step.before.as_str(), step.after.as_str());
        let text = self.0.iter().map(step).collect::<Vec<_>>().join(" ");
        is_undoable.then(|| BASE64_URL_SAFE_NO_PAD.encode(format!("{account} {text}")))
    }

    /// The content of a cookie, if this account made the save.
    pub fn open(value: &str, account: &UserAccountId) -> Option<Self> {
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(value).ok()?).ok()?;
        let step = |part: &str| {
            let (field, states) = part.split_once('=')?;
            let (before, after) = states.split_once('=')?;
            Some(Step { field: field.to_owned(), before: CellState::parse(before)?, after: CellState::parse(after)? })
        };
        let (saved_by, steps) = text.split_once(' ')?;
        if saved_by != account.as_str() {
            return None;
        }
        steps.split(' ').map(step).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Whether the levels have not changed since the save.
    pub fn fits(&self, matrix: &ConsentMatrix) -> bool {
        let after: BTreeMap<String, CellState> = self.pairs(|step| step.after).collect();
        let before: BTreeMap<String, CellState> = self.pairs(|step| step.before).collect();
        let changes = matrix.changes(&after, &before);
        changes.is_ok_and(|changes| changes.len() == self.0.len() && changes.iter().all(|change| !change.is_conflict()))
    }

    /// The base of the undo form.
    pub fn base(&self) -> String {
        let pairs = self.0.iter().map(|step| format!("{}={}", step.field, step.after.as_str()));
        pairs.collect::<Vec<_>>().join(" ")
    }

    /// The fields of the undo form.
    pub fn fields(&self) -> Vec<(String, &'static str)> {
        self.0.iter().map(|step| (step.field.clone(), step.before.as_str())).collect()
    }

    fn pairs(&self, state: impl Fn(&Step) -> CellState) -> impl Iterator<Item = (String, CellState)> {
        self.0.iter().map(move |step| (step.field.clone(), state(step)))
    }
}

#[cfg(test)]
mod tests {
    use domain::consent::ConsentLevel;

    use super::*;

    #[test]
    fn an_inverse_is_read_as_it_was_written() {
        let step = |field: &str, before, after| Step { field: field.into(), before, after };
        let undo = SaveUndo(vec![
            step("all.all", CellState::Follows, CellState::Level(ConsentLevel::Off)),
            step("all.llm", CellState::Level(ConsentLevel::Full), CellState::Follows),
        ]);
        let [ada, bob]: [UserAccountId; 2] = ["account1", "account2"].map(|id| id.parse().unwrap());
        let sealed = undo.seal(&ada).unwrap();
        assert_eq!(SaveUndo::open(&sealed, &ada), Some(undo.clone()));
        assert_eq!(SaveUndo::open(&sealed, &bob), None);
        assert_eq!(undo.base(), "all.all=off all.llm=");
        assert_eq!(undo.fields(), [("all.all".to_owned(), ""), ("all.llm".to_owned(), "full")]);
        assert_eq!(SaveUndo(Vec::new()).seal(&ada), None);
        assert_eq!(SaveUndo(vec![step("all.all", CellState::Mixed, CellState::Follows)]).seal(&ada), None);
        assert_eq!(SaveUndo::open("!", &ada), None);
    }
}
