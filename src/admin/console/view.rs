//! The content of a page: sections with facts and tables. One template renders all pages.

use app::App;
use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use domain::Timestamp;
use serde::de::DeserializeOwned;
use web::asset::versioned;
use web::{Moment, page};

use super::api::Refused;
use super::deeds::query;
use super::sessions::{ConsoleOperator, NextMessage};
use super::state::ConsoleState;

/// The pages of the navigation, with their paths.
const NAVIGATION: &[(&str, &str)] = &[
    ("Overview", "/"),
    ("Nodes", "/console/nodes"),
    ("Keys", "/console/keys"),
    ("Log", "/console/log"),
    ("Held", "/console/held"),
    ("Flow", "/console/flow"),
    ("Webhooks", "/console/webhooks"),
    ("Sessions", "/console/sessions"),
    ("Settings", "/console/settings"),
    ("Acts", "/console/acts"),
];

/// The frame of every page.
#[derive(Debug)]
pub struct ConsoleFrame {
    style: String,
    icon: String,
    operator: Option<Name>,
    navigation: Vec<NavigationLink>,
    paused: Vec<String>,
    flash: Option<NextMessage>,
}

#[derive(Debug)]
struct Name {
    name: String,
    role: &'static str,
}

#[derive(Debug)]
struct NavigationLink {
    label: &'static str,
    href: &'static str,
    is_here: bool,
}

impl ConsoleFrame {
    /// The frame of a page at `path`, for an operator. Each page lists the pauses.
    pub async fn of(state: &ConsoleState, operator: &ConsoleOperator, path: &str) -> Self {
        let pauses = state.app.store.service_pauses(state.app.clock.now()).await.unwrap_or_default();
        let link = |(label, href): &(&'static str, &'static str)| NavigationLink {
            label,
            href,
            is_here: *href != "/" && path.starts_with(href),
        };
        Self {
            operator: Some(Name { name: operator.name.clone(), role: operator.role.as_str() }),
            navigation: NAVIGATION.iter().map(link).collect(),
            paused: pauses.iter().map(ToString::to_string).collect(),
            flash: operator.flash.clone(),
            ..Self::plain()
        }
    }

    fn plain() -> Self {
        let (style, icon) = (versioned("style.css"), versioned("icon.svg"));
        Self { style, icon, operator: None, navigation: Vec::new(), paused: Vec::new(), flash: None }
    }
}

/// A page of sections.
#[derive(Debug, Template)]
#[template(path = "console.html")]
pub struct SectionPage {
    frame: ConsoleFrame,
    title: String,
    lead: String,
    links: Vec<Link>,
    sections: Vec<PageSection>,
}

impl SectionPage {
    /// A page without sections.
    pub fn new(frame: ConsoleFrame, title: impl Into<String>, lead: impl Into<String>) -> Self {
        Self { frame, title: title.into(), lead: lead.into(), links: Vec::new(), sections: Vec::new() }
    }

    /// Adds a link to the head of the page.
    #[must_use]
    pub fn link(mut self, link: Option<Link>) -> Self {
        self.links.extend(link);
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: PageSection) -> Self {
        self.sections.push(section);
        self
    }

    /// The response with this page.
    pub fn shown(&self) -> Response {
        page(StatusCode::OK, self)
    }
}

/// A link to a page or to a question.
#[derive(Debug, Clone)]
pub struct Link {
    /// Text of the link.
    pub label: String,
    /// Address of the link.
    pub href: String,
}

/// A question of the deed with these parameters, if the operator has the role; `back` is the page after it.
pub fn question(
    operator: &ConsoleOperator,
    label: &str,
    deed: &str,
    parameters: &[(&str, &str)],
    back: &str,
) -> Option<Link> {
    let needed = super::deeds::named(deed)?.role;
    if !operator.may_change || operator.role < needed {
        return None;
    }
    let back = [("back", back)];
    let parameters = [parameters, &back].concat();
    Some(Link { label: label.to_owned(), href: format!("/console/do/{deed}?{}", query(&parameters)) })
}

/// A part of a page.
#[derive(Debug, Default)]
pub struct PageSection {
    heading: String,
    lead: String,
    filters: Vec<FilterField>,
    facts: Vec<(String, TableCell)>,
    table: Option<Table>,
    text: Option<String>,
    links: Vec<Link>,
    next: Option<String>,
}

/// A field of the form that filters a table.
#[derive(Debug)]
pub struct FilterField {
    /// Name of the parameter.
    pub name: &'static str,
    /// Label of the field.
    pub label: &'static str,
    /// The present value.
    pub value: String,
    /// Possible values; a text field if there are none.
    pub choices: Vec<String>,
}

/// Rows with the same columns.
#[derive(Debug)]
struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Row>,
    empty: &'static str,
    /// Name and label of the deeds for ticked rows.
    ticks: Vec<(&'static str, &'static str)>,
    back: String,
}

impl Table {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
    fn column(&self, index: &usize) -> Option<&str> {
        self.columns.get(*index).copied()
    }
}

/// A row of a table. Its first cell is its heading.
#[derive(Debug, Default)]
pub struct Row {
    cells: Vec<TableCell>,
    links: Vec<Link>,
    tick: Option<String>,
}

/// A cell of a table, or the value of a fact.
#[derive(Debug, Clone, Default)]
pub struct TableCell {
    text: String,
    href: Option<String>,
    class: &'static str,
    moment: Option<Moment>,
}

impl PageSection {
    /// Its id in the page: the heading in lower case.
    fn anchor(&self) -> String {
        self.heading.to_lowercase().replace(' ', "-")
    }

    /// A section with a heading.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// Adds a sentence below the heading.
    #[must_use]
    pub fn lead(self, lead: impl Into<String>) -> Self {
        Self { lead: lead.into(), ..self }
    }

    /// Adds the form that filters.
    #[must_use]
    pub fn filters(self, filters: Vec<FilterField>) -> Self {
        Self { filters, ..self }
    }

    /// Adds a name with its value.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<TableCell>) -> Self {
        self.facts.push((name.into(), value.into()));
        self
    }

    /// Adds a table; `empty` is the sentence in place of one without rows.
    #[must_use]
    pub fn table(self, columns: &[&'static str], rows: Vec<Row>, empty: &'static str) -> Self {
        let table = Table { columns: columns.to_vec(), rows, empty, ticks: Vec::new(), back: String::new() };
        Self { table: Some(table), ..self }
    }

    /// Lets rows be ticked, for these deeds.
    #[must_use]
    pub fn ticks(mut self, deeds: &[(&'static str, &'static str)], back: &str) -> Self {
        if let Some(table) = &mut self.table {
            (table.ticks, table.back) = (deeds.to_vec(), back.to_owned());
        }
        self
    }

    /// Adds text as it is.
    #[must_use]
    pub fn text(self, text: String) -> Self {
        Self { text: Some(text), ..self }
    }

    /// Adds a link below the content.
    #[must_use]
    pub fn link(mut self, link: Option<Link>) -> Self {
        self.links.extend(link);
        self
    }

    /// Adds the address of the next page.
    #[must_use]
    pub fn next(self, next: Option<String>) -> Self {
        Self { next, ..self }
    }
}

impl Row {
    /// A row with these cells.
    pub fn new(cells: impl IntoIterator<Item = TableCell>) -> Self {
        Self { cells: cells.into_iter().collect(), ..Self::default() }
    }

    /// Adds a link at its end.
    #[must_use]
    pub fn link(mut self, link: Option<Link>) -> Self {
        self.links.extend(link);
        self
    }

    /// Lets it be ticked, with this value.
    #[must_use]
    pub fn tick(self, value: impl Into<String>) -> Self {
        Self { tick: Some(value.into()), ..self }
    }
}

impl TableCell {
    /// Text in the font of ids.
    pub fn mono(text: impl Into<String>) -> Self {
        Self { text: text.into(), class: "mono", ..Self::default() }
    }

    /// A text that leads to a page.
    #[must_use]
    pub fn to(self, href: impl Into<String>) -> Self {
        Self { href: Some(href.into()), ..self }
    }

    /// A state, with the class of its badge.
    pub fn badge(text: impl Into<String>, class: &'static str) -> Self {
        Self { text: text.into(), class, ..Self::default() }
    }

    /// A number, muted if it is 0.
    pub fn number(number: u64) -> Self {
        let class = if number == 0 { "number muted" } else { "number" };
        Self { text: crate::admin::words::grouped(number), class, ..Self::default() }
    }

    /// A time in RFC 3339, seen from now; a dash for none.
    pub fn moment(at: Option<&str>, now: Timestamp) -> Self {
        let Some(at) = at else { return Self::from("–") };
        let moment = chrono::DateTime::parse_from_rfc3339(at).ok().map(|at| Moment::new(at.to_utc(), now));
        Self { text: at.to_owned(), moment, ..Self::default() }
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<Option<&str>> for TableCell {
    fn from(text: Option<&str>) -> Self {
        Self::from(text.unwrap_or("–"))
    }
}

/// The page of the sign-in.
#[derive(Debug, Template)]
#[template(path = "console_signin.html")]
pub struct SignInPage {
    frame: ConsoleFrame,
    next: String,
    error: Option<&'static str>,
    has_tokens: bool,
    /// Names and labels of the providers at which operators sign in.
    providers: Vec<(String, String)>,
}

impl SignInPage {
    /// The sign-in that leads to the page `next`.
    pub fn new(app: &App, next: &str, error: Option<&'static str>) -> Self {
        let settings = app.live.get();
        let has_tokens = settings.admin.has_tokens();
        let offered = settings.admin.providers();
        let own = settings.signin.oidc.iter().filter(|provider| offered.contains(provider.name.as_str()));
        let providers = own.map(|provider| (provider.name.clone(), provider.label.clone())).collect();
        Self { frame: ConsoleFrame::plain(), next: next.to_owned(), error, has_tokens, providers }
    }

    /// The response with this page.
    pub fn shown(&self, status: StatusCode) -> Response {
        page(status, self)
    }
}

/// A page that leads on by itself.
#[derive(Debug, Template)]
#[template(path = "console_onward.html")]
pub struct OnwardPage {
    frame: ConsoleFrame,
    href: String,
    text: &'static str,
}

impl OnwardPage {
    /// A page that leads to this address.
    pub fn new(href: String, text: &'static str) -> Self {
        Self { frame: ConsoleFrame::plain(), href, text }
    }

    /// The response with this page.
    pub fn shown(&self) -> Response {
        page(StatusCode::OK, self)
    }
}

/// A question before a change.
#[derive(Debug, Template)]
#[template(path = "console_question.html")]
pub struct QuestionPage {
    /// The frame of the page.
    pub frame: ConsoleFrame,
    /// The question, which names the object.
    pub title: String,
    /// The effect of the change, in sentences.
    pub effect: String,
    /// The present state, a line each.
    pub preview: Vec<String>,
    /// Why it was refused.
    pub errors: Vec<String>,
    /// Values that the form repeats.
    pub hidden: Vec<(String, String)>,
    /// Fields of the form, without the reason.
    pub fields: Vec<QuestionField>,
    /// The reason so far.
    pub reason: String,
    /// The label of the button; `None` if the change is not possible.
    pub button: Option<String>,
    /// Whether the form can be sent for a preview.
    pub has_preview: bool,
    /// Address of the form.
    pub action: String,
    /// The page to which it returns.
    pub back: String,
    /// Secret of the session.
    pub csrf: String,
    /// Key of the change: a form that is sent twice changes one time.
    pub once: String,
}

/// A field of a question.
#[derive(Debug)]
pub struct QuestionField {
    /// Name of the parameter.
    pub name: &'static str,
    /// Label of the field.
    pub label: &'static str,
    /// A sentence about its values.
    pub hint: &'static str,
    /// The present value.
    pub value: String,
    /// Possible values; a text field if there are none.
    pub choices: Vec<String>,
    /// Whether it is a box to tick.
    pub is_tick: bool,
}

/// The query of a page.
#[derive(Debug)]
pub struct ConsoleQuery<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for ConsoleQuery<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Trouble> {
        api::query::read(parts).map(Self).map_err(|_| Trouble::unreadable())
    }
}

/// A page in place of one that cannot be shown.
#[derive(Debug)]
pub struct Trouble {
    status: StatusCode,
    lines: Vec<String>,
}

impl Trouble {
    /// A status with a sentence.
    pub fn new(status: StatusCode, text: &str) -> Self {
        Self { status, lines: vec![text.to_owned()] }
    }

    /// 404 with a sentence.
    pub fn not_found(text: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 400 for a form or an address that cannot be read.
    pub fn unreadable() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "The form or the address cannot be read. Nothing was changed.")
    }

    /// 403 for a form of another page.
    pub fn foreign() -> Self {
        let text = "Another page sent this form, or the browser hides its origin. Nothing was changed.";
        Self::new(StatusCode::FORBIDDEN, text)
    }
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Self {
        Self { status: refused.status, lines: refused.lines() }
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let title = if self.status == StatusCode::NOT_FOUND { "Not found" } else { "It did not work" };
        let mut view = SectionPage::new(ConsoleFrame::plain(), title, "");
        for line in self.lines {
            view = view.section(PageSection::default().lead(line));
        }
        let back = Link { label: "To the console".to_owned(), href: "/console/nodes".to_owned() };
        page(self.status, &view.link(Some(back)))
    }
}
