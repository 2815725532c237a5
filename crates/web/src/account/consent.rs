//! The person's consent levels by lane: the levels for all computers, and the exceptions of single computers. If a computer set a level
//! itself, the page shows it next to the person's level.
//!
//! The page is one form. It contains the levels that it was built from, so only the fields that a person changed are written, and a level
//! that another request changed in the meantime is reported instead of overwritten. A sealed cookie contains the inverse of the last save,
//! for undo.

mod matrix;
mod undo;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cookie::{Cookie, Cookies};
use api::named::Named;
use app::services::consent::{Consent, Edited};
use app::services::machines::Computer;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use domain::consent::{Author, ConsentLevel};
use domain::envelope::Lane;
use domain::ids::{MachineUuid, UserAccountId};

use self::matrix::{Cell, CellChange, CellState, ConsentMatrix, RowScope, columns};
use self::undo::SaveUndo;
use super::AccountOwner;
use super::pause::PauseView;
use super::undo::gone;
use crate::{PageError, PageErrorTexts, PageForm, PageLayout, PageResult, Site, flash, page};

const PATH: &str = "/account/consent";
/// Maximum number of computers with fields on this page. Further computers have separate pages, so that the page stays small.
const INLINE_MAX: usize = 12;
/// Attempts of a save if consent records change during it.
const ATTEMPTS: usize = 3;

#[derive(Template)]
#[template(path = "account/consent.html")]
struct ConsentPage {
    frame: PageLayout,
    tab: &'static str,
    /// Name of the page's computer; `None` on the page of all computers.
    only: Option<String>,
    /// The levels that the form was built from.
    base: String,
    /// Path after saving.
    back: String,
    /// Levels for all computers of the account.
    general: Option<Row>,
    /// Computers with fields; computers with exceptions come first.
    rows: Vec<Row>,
    /// Computers with separate pages.
    others: Vec<Other>,
    /// Levels that changed elsewhere since the form was built.
    conflicts: Vec<String>,
    undo: Option<UndoForm>,
    default_level: &'static str,
    has_computers: bool,
    /// Whether the person has not chosen a level for all computers and lanes.
    is_unchosen: bool,
    pause: PauseView,
}

struct Row {
    scope: String,
    name: String,
    /// The exceptions in words; empty if the computer follows the general levels.
    exceptions: Vec<String>,
    /// Whether a level for all lanes applies.
    is_chosen: bool,
    open: bool,
    cells: Vec<Field>,
}

struct Other {
    uuid: String,
    name: String,
    exceptions: usize,
    /// Whether a level for all lanes applies.
    is_chosen: bool,
}

struct Field {
    name: String,
    lane: &'static str,
    label: String,
    choices: Vec<Choice>,
    /// State in the base, for the script that counts changes.
    was: &'static str,
    is_own: bool,
    /// The level that the computer set for itself, which is effective if the person's level is higher.
    by_computer: Option<&'static str>,
}

struct Choice {
    value: &'static str,
    words: String,
    chosen: bool,
}

struct UndoForm {
    base: String,
    fields: Vec<(String, &'static str)>,
}

/// The submitted fields of a form, by name.
type Submitted = BTreeMap<String, CellState>;

/// `GET /account/consent`
pub async fn show(
    State(site): State<Site>,
    State(consent): State<Consent>,
    State(cookies): State<Arc<Cookies>>,
    owner: AccountOwner,
    headers: HeaderMap,
) -> PageResult {
    let matrix = ConsentMatrix::load(&site, &owner).await?;
    let undo = cookies.read(Cookie::Undo, &headers).and_then(|value| SaveUndo::open(value.expose(), &owner.account));
    let undo = undo.filter(|undo| undo.fits(&matrix));
    let view = View { site: &site, owner: &owner, consent: &consent, only: None };
    Ok(view.draw(StatusCode::OK, &matrix, &Submitted::new(), Vec::new(), undo))
}

/// `GET /account/consent/{machine_uuid}`: the exceptions of one computer.
pub async fn show_computer(
    State(site): State<Site>,
    State(consent): State<Consent>,
    owner: AccountOwner,
    Named(machine_uuid): Named,
) -> PageResult {
    let matrix = ConsentMatrix::load(&site, &owner).await?;
    let computer = matrix.computer(&machine_uuid).cloned().ok_or_else(|| gone(&site, &owner.visitor))?;
    let view = View { site: &site, owner: &owner, consent: &consent, only: Some(computer) };
    Ok(view.draw(StatusCode::OK, &matrix, &Submitted::new(), Vec::new(), None))
}

/// `POST /account/consent`: `base`, and a field `<scope>.<lane>` for each level.
pub async fn save(
    State(site): State<Site>,
    State(consent): State<Consent>,
    State(cookies): State<Arc<Cookies>>,
    owner: AccountOwner,
    PageForm(form): PageForm<BTreeMap<String, String>>,
) -> PageResult {
    let base = matrix::parse_base(form.get("base").map_or("", String::as_str));
    let mut submitted = Submitted::new();
    for (name, value) in form.iter().filter(|(name, _)| name.contains('.')) {
        let state = CellState::parse(value).ok_or_else(|| unreadable(&site, &owner))?;
        submitted.insert(name.clone(), state);
    }
    for _ in 0..ATTEMPTS {
        let matrix = ConsentMatrix::load(&site, &owner).await?;
        let changes = matrix.changes(&base, &submitted).map_err(|_| not_attached(&site, &owner))?;
        let conflicts: Vec<String> =
            changes.iter().filter(|change| change.is_conflict()).map(|change| conflict(&matrix, change)).collect();
        if !conflicts.is_empty() {
            let only = form.get("computer").and_then(|uuid| matrix.computer(uuid)).cloned();
            let view = View { site: &site, owner: &owner, consent: &consent, only };
            return Ok(view.draw(StatusCode::CONFLICT, &matrix, &submitted, conflicts, None));
        }
        let edits = matrix.edits(&changes);
        let outcome = consent.edit(edits, Author::Person).await.map_err(PageError::of(&site))?;
        let Edited::Written(written) = outcome else { continue };
        let mut response = back(&site, form.get("computer").filter(|uuid| matrix.computer(uuid).is_some()));
        match SaveUndo::of(&changes).seal(&owner.account) {
            Some(undo) if written.records > 0 => cookies.set(Cookie::Undo, &mut response, &undo),
            _ => cookies.clear(Cookie::Undo, &mut response),
        }
        flash::set(&mut response, said(changes.len(), written.is_forwarded));
        return Ok(response);
    }
    Err(PageError::shown(
        &site,
        Some(&owner.visitor),
        StatusCode::CONFLICT,
        PageErrorTexts {
            title: "Your levels are being changed elsewhere",
            text: "Another page or an agent changes them at this moment. Nothing was changed by you.",
            next: "Open the page again and check the levels.",
            link: PATH.into(),
            label: "To consent",
        },
    ))
}

/// The message after a save.
fn said(changes: usize, is_forwarded: bool) -> String {
    let count = match changes {
        0 => return "No levels were changed.".to_owned(),
        1 => "Saved: 1 level changed".to_owned(),
        more => format!("Saved: {more} levels changed"),
    };
    if is_forwarded {
        format!("{count}, effective from the next event on.")
    } else {
        format!("{count} and effective. The change is recorded as soon as the statistics service is available again.")
    }
}

fn back(site: &Site, computer: Option<&String>) -> Response {
    let root = site.urls.root_path();
    let path = computer.map_or_else(|| PATH.to_owned(), |uuid| format!("{PATH}/{uuid}"));
    Redirect::to(&format!("{root}{path}")).into_response()
}

/// A conflicting change in words.
fn conflict(matrix: &ConsentMatrix, change: &CellChange) -> String {
    let name = matrix.name_of(&change.scope);
    let lane = change.lane.map_or("all lanes", Lane::title);
    format!("{name}, {lane}: now “{}”, you chose “{}”", state_words(change.now), state_words(change.to))
}

fn state_words(state: CellState) -> &'static str {
    match state {
        CellState::Follows => "follows",
        CellState::Mixed => "differs",
        CellState::Level(level) => words(level),
    }
}

/// Renders the page of all computers or of one.
struct View<'v> {
    site: &'v Site,
    owner: &'v AccountOwner,
    consent: &'v Consent,
    only: Option<Computer>,
}

impl View<'_> {
    fn draw(
        &self,
        status: StatusCode,
        matrix: &ConsentMatrix,
        submitted: &Submitted,
        conflicts: Vec<String>,
        undo: Option<SaveUndo>,
    ) -> Response {
        let mut computers: Vec<&Computer> = match &self.only {
            Some(computer) => vec![computer],
            None => matrix.computers.iter().collect(),
        };
        computers.sort_by_key(|computer| matrix.exceptions(&RowScope::of(computer)).is_empty());
        let (inline, others) = computers.split_at(computers.len().min(INLINE_MAX));
        let frame = PageLayout::new(self.site, Some(&self.owner.visitor));
        let other = |computer: &&Computer| Other {
            uuid: computer.machine_uuid.to_string(),
            name: matrix::name(computer),
            exceptions: matrix.exceptions(&RowScope::of(computer)).len(),
            is_chosen: matrix.is_chosen(&RowScope::of(computer)),
        };
        let general = self.only.is_none().then(|| self.row(matrix, &RowScope::Everywhere, submitted));
        let rows: Vec<Row> =
            inline.iter().map(|computer| self.row(matrix, &RowScope::of(computer), submitted)).collect();
        page(
            status,
            &ConsentPage {
                tab: "consent",
                only: self.only.as_ref().map(matrix::name),
                base: matrix.base(),
                back: self.only.as_ref().map(|computer| computer.machine_uuid.to_string()).unwrap_or_default(),
                general,
                rows,
                others: others.iter().map(other).collect(),
                conflicts,
                undo: undo.map(|undo| UndoForm { base: undo.base(), fields: undo.fields() }),
                default_level: words(self.consent.default_level()),
                has_computers: !matrix.computers.is_empty(),
                pause: PauseView::new(&matrix.pauses, &matrix.computers, self.site.ports.clock.now()),
                is_unchosen: self.only.is_none() && !matrix.is_chosen(&RowScope::Everywhere),
                frame,
            },
        )
    }

    fn row(&self, matrix: &ConsentMatrix, scope: &RowScope, submitted: &Submitted) -> Row {
        let name = matrix.name_of(scope);
        let exceptions = matrix.exceptions(scope);
        let cells: Vec<Field> =
            columns().map(|lane| field(matrix, &name, &Cell { scope: scope.clone(), lane }, submitted)).collect();
        let is_changed =
            cells.iter().any(|cell| submitted.get(&cell.name).is_some_and(|state| state.as_str() != cell.was));
        Row {
            open: self.only.is_some() || is_changed || !exceptions.is_empty(),
            exceptions: exceptions
                .into_iter()
                .map(|(lane, level)| format!("{}: {}", lane.map_or("all lanes", Lane::title), words(level)))
                .collect(),
            is_chosen: matrix.is_chosen(scope),
            scope: scope.to_string(),
            name,
            cells,
        }
    }
}

fn field(matrix: &ConsentMatrix, name: &str, cell: &Cell, submitted: &Submitted) -> Field {
    let was = matrix.state(cell);
    let field = cell.to_string();
    let displayed_state = submitted.get(&field).copied().unwrap_or(was);
    let follows = match (&cell.scope, cell.lane) {
        (RowScope::Everywhere, None) => "Not chosen".to_owned(),
        _ => match matrix.inherited(cell) {
            Some(level) => format!("Follows: {}", words(level)),
            None => "Follows: not chosen".to_owned(),
        },
    };
    let mut choices = vec![Choice { value: "", words: follows, chosen: displayed_state == CellState::Follows }];
    if was == CellState::Mixed {
        choices.push(Choice {
            value: "mixed",
            words: "Differs".to_owned(),
            chosen: displayed_state == CellState::Mixed,
        });
    }
    for level in [ConsentLevel::Off, ConsentLevel::MetadataOnly, ConsentLevel::Full] {
        let chosen = displayed_state == CellState::Level(level);
        choices.push(Choice { value: level.as_str(), words: words(level).to_owned(), chosen });
    }
    Field {
        lane: cell.lane.map_or("All lanes", Lane::title),
        label: format!("{name}, {}", cell.lane.map_or("all lanes", Lane::title)),
        choices,
        was: was.as_str(),
        is_own: was != CellState::Follows,
        by_computer: matrix.by_computer(cell).map(words),
        name: field,
    }
}

/// The person's level for a computer and all lanes; `None` if the person chose none, so that no level is enforced.
pub(crate) async fn chosen_level(
    site: &Site,
    account: &UserAccountId,
    machine: MachineUuid,
) -> Result<Option<ConsentLevel>, PageError> {
    site.consent.chosen(account, machine).await.map_err(PageError::of(site))
}

/// A level in words.
pub(crate) fn words(level: ConsentLevel) -> &'static str {
    match level {
        ConsentLevel::Off => "Nothing",
        ConsentLevel::MetadataOnly => "No content",
        ConsentLevel::Full => "Everything",
    }
}

fn not_attached(site: &Site, owner: &AccountOwner) -> PageError {
    PageError::shown(
        site,
        Some(&owner.visitor),
        StatusCode::NOT_FOUND,
        PageErrorTexts {
            title: "This computer is not attached to your account",
            text: "It was detached, or it never belonged to your account. Nothing was changed.",
            next: "The consent page lists your computers.",
            link: PATH.into(),
            label: "To consent",
        },
    )
}

fn unreadable(site: &Site, owner: &AccountOwner) -> PageError {
    PageError::shown(
        site,
        Some(&owner.visitor),
        StatusCode::BAD_REQUEST,
        PageErrorTexts {
            title: "The form has an unknown level",
            text: "Nothing was changed.",
            next: "Open the page again and choose the levels there.",
            link: PATH.into(),
            label: "To consent",
        },
    )
}
