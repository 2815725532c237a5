//! The levels of an account as the cells of a matrix, and the changes that a form makes to them.

use std::collections::BTreeMap;
use std::fmt;

use app::services::consent::AccountPauses;
use app::services::consent::{AccountConsent, ConsentRecord};
use app::services::machines::Computer;
use domain::consent::{ConsentEdit, ConsentLevel, ConsentRule, computer_rule, person_rule};
use domain::envelope::Lane;
use domain::ids::{MachineUuid, UserCuid};

use crate::account::AccountOwner;
use crate::{PageError, Site};

/// The scope `all`, and the column for all lanes.
const ALL: &str = "all";

/// All lanes first, then each.
pub fn columns() -> impl Iterator<Item = Option<Lane>> {
    std::iter::once(None).chain(Lane::ALL.iter().copied().map(Some))
}

/// All computers, or one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowScope {
    /// All computers of all identities of the account.
    Everywhere,
    /// A computer with its identity.
    Machine(UserCuid, MachineUuid),
}

impl RowScope {
    /// The scope of a computer.
    pub fn of(computer: &Computer) -> Self {
        Self::Machine(computer.user_cuid.clone(), computer.machine_uuid)
    }

    fn machine(&self) -> Option<MachineUuid> {
        match self {
            Self::Everywhere => None,
            Self::Machine(_, machine) => Some(*machine),
        }
    }
}

impl fmt::Display for RowScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everywhere => f.write_str(ALL),
            Self::Machine(_, machine) => write!(f, "{machine}"),
        }
    }
}

/// One level of the matrix. As text it is the name of its field: `<scope>.<lane>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// All computers, or one computer.
    pub scope: RowScope,
    /// The column; `None` for all lanes.
    pub lane: Option<Lane>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.scope, self.lane.map_or(ALL, Lane::as_str))
    }
}

/// The person's choice in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellState {
    /// No choice: the cell follows the more general cells.
    Follows,
    /// The identities of the account have different choices.
    Mixed,
    /// The level that was chosen.
    Level(ConsentLevel),
}

impl CellState {
    /// Parses the value of a field; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::Follows),
            "mixed" => Some(Self::Mixed),
            level => level.parse().ok().map(Self::Level),
        }
    }

    /// The value of the field.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Follows => "",
            Self::Mixed => "mixed",
            Self::Level(level) => level.as_str(),
        }
    }

    fn level(self) -> Option<ConsentLevel> {
        match self {
            Self::Level(level) => Some(level),
            Self::Follows | Self::Mixed => None,
        }
    }
}

/// A change that a form makes to a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellChange {
    /// All computers, or one computer.
    pub scope: RowScope,
    /// One lane; `None` for all lanes.
    pub lane: Option<Lane>,
    /// The state from which the form was built.
    pub from: CellState,
    /// The state now.
    pub now: CellState,
    /// The submitted state.
    pub to: CellState,
}

impl CellChange {
    /// Whether the level was changed elsewhere since the form was built.
    pub fn is_conflict(&self) -> bool {
        self.now != self.from
    }

    /// Row and lane that change.
    pub fn cell(&self) -> Cell {
        Cell { scope: self.scope.clone(), lane: self.lane }
    }
}

/// A field of the form names no computer of the account.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownScope;

/// States by the names of their fields, as one text: `name=state` with spaces between. Cells without a choice are absent.
pub fn parse_base(text: &str) -> BTreeMap<String, CellState> {
    let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(name, state)| Some((name.to_owned(), CellState::parse(state)?))).collect()
}

/// The computers of an account and its levels.
#[derive(Debug)]
pub struct ConsentMatrix {
    /// The identities of the account.
    pub identities: Vec<UserCuid>,
    /// The attached computers, newest first.
    pub computers: Vec<Computer>,
    /// Recorded levels of the account.
    pub records: Vec<ConsentRecord>,
    /// Current pauses.
    pub pauses: AccountPauses,
}

impl ConsentMatrix {
    /// Reads the levels of an account.
    pub async fn load(site: &Site, owner: &AccountOwner) -> Result<Self, PageError> {
        let (computers, consent) =
            tokio::join!(site.machines.attached(&owner.account), site.consent.of_account(&owner.account));
        let page_error = PageError::of(site);
        let AccountConsent { identities, records, pauses } = consent.map_err(&page_error)?;
        Ok(Self { identities, computers: computers.map_err(&page_error)?, records, pauses })
    }

    /// The computer with this id.
    pub fn computer(&self, uuid: &str) -> Option<&Computer> {
        self.computers.iter().find(|computer| computer.machine_uuid.to_string() == uuid)
    }

    /// The name of a row.
    pub fn name_of(&self, scope: &RowScope) -> String {
        let computer =
            scope.machine().and_then(|machine| self.computers.iter().find(|one| one.machine_uuid == machine));
        computer.map_or_else(|| "All computers".to_owned(), name)
    }

    fn cell(&self, field: &str) -> Option<Cell> {
        let (scope, lane) = field.split_once('.')?;
        let scope = if scope == ALL { RowScope::Everywhere } else { RowScope::of(self.computer(scope)?) };
        let lane = if lane == ALL { None } else { Some(lane.parse().ok()?) };
        Some(Cell { scope, lane })
    }

    /// The changes of a form that was built from `base`. A cell that already has the submitted state is not changed.
    pub fn changes(
        &self,
        base: &BTreeMap<String, CellState>,
        submitted: &BTreeMap<String, CellState>,
    ) -> Result<Vec<CellChange>, UnknownScope> {
        let mut changes = Vec::new();
        for (field, to) in submitted {
            let from = base.get(field).copied().unwrap_or(CellState::Follows);
            if from == *to || *to == CellState::Mixed {
                continue;
            }
            let cell = self.cell(field).ok_or(UnknownScope)?;
            let now = self.state(&cell);
            if now != *to {
                changes.push(CellChange { scope: cell.scope, lane: cell.lane, from, now, to: *to });
            }
        }
        let added = self.kept(&changes);
        changes.extend(added);
        Ok(changes)
    }

    /// Levels that keep single lanes of a computer as the form showed them, if the computer gets a level for all lanes that is less strict
    /// than the lane's level for all computers: the most specific level applies.
    fn kept(&self, changes: &[CellChange]) -> Vec<CellChange> {
        let to = |scope: &RowScope, lane: Option<Lane>| {
            let chosen = changes.iter().find(|change| change.scope == *scope && change.lane == lane);
            chosen.map_or_else(|| self.state(&Cell { scope: scope.clone(), lane }), |change| change.to)
        };
        let mut added = Vec::new();
        for change in changes.iter().filter(|change| change.scope != RowScope::Everywhere && change.lane.is_none()) {
            let Some(level) = change.to.level().filter(|_| change.now == CellState::Follows) else { continue };
            for lane in Lane::ALL.iter().copied().map(Some) {
                let general = to(&RowScope::Everywhere, lane).level().filter(|general| *general < level);
                if let (CellState::Follows, Some(general)) = (to(&change.scope, lane), general) {
                    let (scope, now) = (change.scope.clone(), CellState::Follows);
                    added.push(CellChange { scope, lane, from: now, now, to: CellState::Level(general) });
                }
            }
        }
        added
    }

    /// The edits of records that make these changes.
    pub fn edits(&self, changes: &[CellChange]) -> Vec<ConsentEdit> {
        let edit = |change: &CellChange, identity: &UserCuid| ConsentEdit {
            identity: identity.clone(),
            machine: change.scope.machine(),
            lane: change.lane,
            before: self.own(identity, change.scope.machine(), change.lane),
            after: change.to.level(),
        };
        let edits = changes.iter().flat_map(|change| {
            self.identities_of(&change.scope).into_iter().map(move |identity| edit(change, identity))
        });
        edits.filter(|edit| edit.before != edit.after).collect()
    }

    fn identities_of<'m>(&'m self, scope: &'m RowScope) -> Vec<&'m UserCuid> {
        match scope {
            RowScope::Everywhere => self.identities.iter().collect(),
            RowScope::Machine(identity, _) => vec![identity],
        }
    }

    /// The person's choice in a cell.
    pub fn state(&self, cell: &Cell) -> CellState {
        let identities = self.identities_of(&cell.scope);
        let mut own = identities.iter().map(|identity| self.own(identity, cell.scope.machine(), cell.lane));
        let Some(first) = own.next() else { return CellState::Follows };
        if own.any(|other| other != first) {
            return CellState::Mixed;
        }
        first.map_or(CellState::Follows, CellState::Level)
    }

    /// The person's record of an identity for exactly this scope.
    fn own(&self, identity: &UserCuid, machine: Option<MachineUuid>, lane: Option<Lane>) -> Option<ConsentLevel> {
        let same = |rule: &&ConsentRule| rule.machine == machine && rule.lane == lane && rule.set_by.is_for_person();
        self.rules_of(identity).find(same).map(|rule| rule.level)
    }

    /// The level of a cell without its own choice: the strictest of the identities' levels. `None` if no level applies.
    pub fn inherited(&self, cell: &Cell) -> Option<ConsentLevel> {
        let machine = cell.scope.machine();
        let of = |identity: &&UserCuid| {
            let others = self.rules_of(identity).filter(|rule| rule.machine != machine || rule.lane != cell.lane);
            person_rule(others, machine, cell.lane).map(|rule| rule.level)
        };
        self.identities_of(&cell.scope).iter().filter_map(of).min()
    }

    /// Whether a level of the person for all lanes applies to a row. Otherwise only levels of single lanes are enforced.
    pub fn is_chosen(&self, scope: &RowScope) -> bool {
        let cell = Cell { scope: scope.clone(), lane: None };
        self.state(&cell) != CellState::Follows || self.inherited(&cell).is_some()
    }

    /// The levels that are set for this scope itself.
    pub fn exceptions(&self, scope: &RowScope) -> Vec<(Option<Lane>, ConsentLevel)> {
        let own = columns().map(|lane| (lane, self.state(&Cell { scope: scope.clone(), lane }).level()));
        own.filter_map(|(lane, level)| Some((lane, level?))).collect()
    }

    /// The level that a computer set for itself, where it differs from the person's choice.
    pub fn by_computer(&self, cell: &Cell) -> Option<ConsentLevel> {
        let RowScope::Machine(identity, machine) = &cell.scope else { return None };
        let own = computer_rule(self.rules_of(identity), Some(*machine), cell.lane)?.level;
        let chosen = person_rule(self.rules_of(identity), Some(*machine), cell.lane).map(|rule| rule.level);
        chosen.is_none_or(|chosen| own < chosen).then_some(own)
    }

    /// The choices of all cells, for [`parse_base`].
    pub fn base(&self) -> String {
        let scopes = std::iter::once(RowScope::Everywhere).chain(self.computers.iter().map(RowScope::of));
        let cells = scopes.flat_map(|scope| columns().map(move |lane| Cell { scope: scope.clone(), lane }));
        let chosen = cells.map(|cell| (self.state(&cell), cell)).filter(|(state, _)| *state != CellState::Follows);
        chosen.map(|(state, cell)| format!("{cell}={}", state.as_str())).collect::<Vec<_>>().join(" ")
    }

    fn rules_of<'m>(&'m self, identity: &'m UserCuid) -> impl Iterator<Item = &'m ConsentRule> {
        self.records.iter().filter(move |record| record.user_cuid == *identity).map(|record| &record.rule)
    }
}

/// The name of a computer. Without a name, the end of its id: the start is a time, and similar for computers of one day.
pub fn name(computer: &Computer) -> String {
    computer.shown_name().map_or_else(
        || {
            let uuid = computer.machine_uuid.to_string();
            format!("Computer …{}", &uuid[uuid.len() - 8..])
        },
        str::to_owned,
    )
}

#[cfg(test)]
mod tests {
    use domain::consent::Author;
    use domain::{Rng, Timestamp};

    use super::*;

    fn matrix() -> (ConsentMatrix, RowScope) {
        let (rng, now) = (Rng::seeded(1), Timestamp::UNIX_EPOCH);
        let identities: Vec<UserCuid> = (0..2).map(|_| rng.cuid2().parse().unwrap()).collect();
        let computer = Computer {
            machine_uuid: rng.uuid_v7(now).into(),
            user_cuid: identities[0].clone(),
            name: None,
            account: None,
            first_seen_at: now,
            last_seen_at: now,
            attached_at: None,
            attached_by: None,
            has_secret: true,
            label: None,
        };
        let scope = RowScope::of(&computer);
        let pauses = AccountPauses::default();
        (ConsentMatrix { identities, computers: vec![computer], records: Vec::new(), pauses }, scope)
    }

    fn put(
        matrix: &mut ConsentMatrix,
        identity: usize,
        machine: Option<MachineUuid>,
        lane: Option<Lane>,
        level: ConsentLevel,
    ) {
        let rule = ConsentRule { machine, lane, level, set_by: Author::Person };
        matrix.records.push(ConsentRecord { user_cuid: matrix.identities[identity].clone(), rule });
    }

    fn fields(pairs: &[(&Cell, CellState)]) -> BTreeMap<String, CellState> {
        pairs.iter().map(|(cell, state)| (cell.to_string(), *state)).collect()
    }

    #[test]
    fn only_changed_fields_are_written_and_others_keep_what_changed_elsewhere() {
        let (mut matrix, scope) = matrix();
        let machine = scope.machine();
        put(&mut matrix, 0, machine, Some(Lane::Llm), ConsentLevel::Off);
        let base = parse_base(&matrix.base());
        let [llm, rsi] = [Lane::Llm, Lane::Rsi].map(|lane| Cell { scope: scope.clone(), lane: Some(lane) });
        // Elsewhere the exception ends; the form still contains it, unchanged, and changes another lane.
        matrix.records.clear();
        let form = fields(&[(&llm, CellState::Level(ConsentLevel::Off)), (&rsi, CellState::Level(ConsentLevel::Full))]);
        let changes = matrix.changes(&base, &form).unwrap();
        assert_eq!(changes.len(), 1);
        assert!(!changes[0].is_conflict());
        let edits = matrix.edits(&changes);
        assert_eq!((edits.len(), edits[0].lane, edits[0].after), (1, Some(Lane::Rsi), Some(ConsentLevel::Full)));
        // A field that was changed here and elsewhere is a conflict, unless both changes are the same.
        let form = fields(&[(&llm, CellState::Level(ConsentLevel::Full))]);
        assert!(matrix.changes(&base, &form).unwrap()[0].is_conflict());
        assert_eq!(matrix.changes(&base, &fields(&[(&llm, CellState::Follows)])).unwrap(), []);
    }

    #[test]
    fn a_stricter_lane_of_all_computers_stays_when_a_computer_gets_a_level_for_all_lanes() {
        let (mut matrix, scope) = matrix();
        for identity in [0, 1] {
            put(&mut matrix, identity, None, None, ConsentLevel::Full);
            put(&mut matrix, identity, None, Some(Lane::Llm), ConsentLevel::Off);
        }
        let base = parse_base(&matrix.base());
        let all = Cell { scope: scope.clone(), lane: None };
        let form = fields(&[(&all, CellState::Level(ConsentLevel::MetadataOnly))]);
        let edits = matrix.edits(&matrix.changes(&base, &form).unwrap());
        let written: Vec<_> = edits.iter().map(|edit| (edit.lane, edit.after)).collect();
        assert_eq!(written, [(None, Some(ConsentLevel::MetadataOnly)), (Some(Lane::Llm), Some(ConsentLevel::Off))]);
        // Unless the form chose a level for that lane.
        let llm = Cell { scope, lane: Some(Lane::Llm) };
        let level = CellState::Level(ConsentLevel::MetadataOnly);
        assert_eq!(matrix.changes(&base, &fields(&[(&all, level), (&llm, level)])).unwrap().len(), 2);
    }

    #[test]
    fn a_level_of_all_computers_is_written_for_each_identity_that_differs() {
        let (mut matrix, _) = matrix();
        let cell = Cell { scope: RowScope::Everywhere, lane: None };
        put(&mut matrix, 0, None, None, ConsentLevel::Off);
        assert_eq!(matrix.state(&cell), CellState::Mixed);
        let base = parse_base(&matrix.base());
        assert_eq!(matrix.changes(&base, &fields(&[(&cell, CellState::Mixed)])).unwrap(), []);
        let changes = matrix.changes(&base, &fields(&[(&cell, CellState::Level(ConsentLevel::Off))])).unwrap();
        let edits = matrix.edits(&changes);
        assert_eq!((edits.len(), &edits[0].identity, edits[0].before), (1, &matrix.identities[1], None));
    }

    #[test]
    fn a_cell_without_a_choice_shows_the_level_that_it_follows() {
        let (mut matrix, scope) = matrix();
        let machine = scope.machine();
        let cell = Cell { scope: scope.clone(), lane: Some(Lane::Llm) };
        assert_eq!(matrix.inherited(&cell), None);
        put(&mut matrix, 0, None, None, ConsentLevel::Off);
        put(&mut matrix, 0, machine, Some(Lane::Llm), ConsentLevel::Full);
        assert_eq!(
            (matrix.inherited(&cell), matrix.state(&cell)),
            (Some(ConsentLevel::Off), CellState::Level(ConsentLevel::Full))
        );
        put(&mut matrix, 0, machine, None, ConsentLevel::MetadataOnly);
        assert_eq!(matrix.inherited(&cell), Some(ConsentLevel::MetadataOnly));
        assert_eq!(matrix.exceptions(&scope).len(), 2);
        let foreign = BTreeMap::from([(format!("{}.llm", uuid::Uuid::nil()), CellState::Level(ConsentLevel::Off))]);
        assert_eq!(matrix.changes(&BTreeMap::new(), &foreign), Err(UnknownScope));
    }
}
