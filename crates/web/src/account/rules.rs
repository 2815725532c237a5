//! Rules about recorded events, and the weekly digest.

use std::collections::BTreeMap;
use std::str::FromStr;

use api::HttpState;
use api::named::Named;
use app::services::activity::browse::Activity;
use app::services::feeds::Feeds;
use app::services::rules::{EventRules, NewRule, RuleRefusal, StoredRule};
use app::services::webhooks::Webhooks;
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use domain::lane::Lane;
use domain::registry::Tone;
use domain::rule::{InvalidRule, Novelty, RuleCondition, RuleOutlets};

use super::AccountOwner;
use super::undo::{ConfirmForm, gone};
use crate::{Moment, PageError, PageForm, PageLayout, PageResult, Site, page};

const PATH: &str = "/account/rules";

/// The tones that a person may choose; every other event is plain.
const TONES: [Tone; 4] = [Tone::Failed, Tone::Blocked, Tone::Waiting, Tone::Alert];

/// The state of this page.
#[derive(Debug, Clone)]
pub struct RulePages {
    site: Site,
    rules: EventRules,
    activity: Activity,
    has_notifications: bool,
}

impl FromRef<HttpState> for RulePages {
    fn from_ref(state: &HttpState) -> Self {
        let (webhooks, feeds): (Webhooks, Feeds) = (FromRef::from_ref(state), FromRef::from_ref(state));
        Self {
            site: Site::from_ref(state),
            rules: FromRef::from_ref(state),
            activity: FromRef::from_ref(state),
            has_notifications: webhooks.are_on() || feeds.are_on(),
        }
    }
}

#[derive(Template)]
#[template(path = "account/rules.html")]
struct RulesPage<'p> {
    frame: PageLayout,
    tab: &'static str,
    /// Whether this server has the recorded events.
    are_possible: bool,
    rows: Vec<RuleView>,
    /// Time of the next digest, if it is on.
    digest: Option<Moment>,
    types: &'p [String],
    lanes: Vec<Choice>,
    tones: Vec<Choice>,
    novelties: Vec<Choice>,
    form: RuleForm,
    fault: Option<String>,
    has_notifications: bool,
    is_full: bool,
    every: String,
}

struct RuleView {
    id: String,
    name: String,
    /// The conditions in words.
    when: String,
    /// The outlets in words.
    outlets: &'static str,
    last: Option<Moment>,
    waiting: u64,
}

struct Choice {
    value: &'static str,
    words: &'static str,
    is_chosen: bool,
}

/// The fields of a sent form.
#[derive(Default)]
struct RuleForm(BTreeMap<String, String>);

impl RuleForm {
    fn field(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |text| text.trim())
    }

    fn is_ticked(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The tick of an outlet: in an empty form, all are ticked.
    fn is_on(&self, name: &str) -> bool {
        self.0.is_empty() || self.is_ticked(name)
    }

    /// A field that may be empty; its fault names it as the form does.
    fn parsed<T: FromStr<Err: std::fmt::Display>>(&self, name: &str, title: &str) -> Result<Option<T>, String> {
        match self.field(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|error| format!("{title}: {error}.")),
        }
    }

    fn rule(&self) -> Result<NewRule, String> {
        let name = self.parsed("name", "Name")?.ok_or("Give the rule a name.")?;
        let when = RuleCondition {
            event_type: self.parsed("event_type", "Type")?,
            lane: self.parsed("lane", "Lane")?,
            tone: self.parsed("tone", "Result")?,
            first_time: self.parsed("first_time", "For the first time")?,
            // One event is the same as no number.
            at_least: self.parsed("at_least", "Events within an hour")?.filter(|count| *count != 1),
        };
        let outlets = RuleOutlets { mail: self.is_ticked("mail"), notify: self.is_ticked("notify") };
        Ok(NewRule { name, when, outlets })
    }
}

fn tone_words(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Failed => "failed",
        Tone::Blocked => "was blocked",
        Tone::Waiting => "waits for a person",
        Tone::Alert => "a finding to look at",
    }
}

fn novelty_words(novelty: Novelty) -> &'static str {
    match novelty {
        Novelty::Tool => "a tool",
        Novelty::Project => "a project",
        Novelty::Computer => "a computer",
    }
}

/// The conditions of a rule in words.
fn in_words(when: &RuleCondition) -> String {
    let RuleCondition { event_type, lane, tone, first_time, at_least } = when;
    let parts = [
        event_type.as_ref().map(|pattern| format!("type {}", pattern.as_str())),
        lane.map(|lane| format!("lane {}", lane.title())),
        tone.map(|tone| tone_words(tone).to_owned()),
        first_time.map(|novelty| format!("{} for the first time", novelty_words(novelty))),
        at_least.map(|count| format!("at least {count} within an hour")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn outlet_words(outlets: RuleOutlets) -> &'static str {
    match (outlets.mail, outlets.notify) {
        (true, true) => "mail, webhooks and feed",
        (true, false) => "mail",
        (false, _) => "webhooks and feed",
    }
}

/// The words for a refusal that the person can correct in the form.
fn mendable(refusal: &RuleRefusal) -> Option<String> {
    let words = match refusal {
        RuleRefusal::Invalid(InvalidRule::NoCondition) => "Choose a type, a lane, a result or something new.",
        RuleRefusal::Invalid(InvalidRule::NoOutlet) => "Choose where the messages go.",
        RuleRefusal::Invalid(InvalidRule::AtLeast) => "The number of events must be from 1 to 100,000.",
        RuleRefusal::TooMany => "You have the maximum number of rules. Delete one first.",
        RuleRefusal::External | RuleRefusal::NotFound | RuleRefusal::Infra(_) => return None,
    };
    Some(words.to_owned())
}

impl RulePages {
    fn refused(&self, owner: &AccountOwner, refusal: RuleRefusal) -> PageError {
        match refusal {
            RuleRefusal::NotFound => gone(&self.site, &owner.visitor),
            refusal => PageError::of(&self.site)(refusal),
        }
    }

    async fn draw(&self, owner: &AccountOwner, form: RuleForm, fault: Option<String>) -> PageResult {
        let listed = self.rules.list(&owner.account).await;
        let (rows, digest) = listed.map_err(|refusal| self.refused(owner, refusal))?;
        let now = self.site.ports.clock.now();
        let row = |StoredRule { rule, state }: &StoredRule| RuleView {
            id: rule.id.to_string(),
            name: rule.name.as_str().to_owned(),
            when: in_words(&rule.when),
            outlets: outlet_words(rule.outlets),
            last: state.sent_at().map(|at| Moment::new(at, now)),
            waiting: state.waiting(),
        };
        let choice =
            |name: &str, value: &'static str, words| Choice { value, words, is_chosen: form.field(name) == value };
        let settings = self.rules.settings();
        let is_full = rows.len() >= usize::try_from(settings.per_account_max).unwrap_or(usize::MAX);
        let status = if fault.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        Ok(page(
            status,
            &RulesPage {
                frame: PageLayout::new(&self.site, Some(&owner.visitor)),
                tab: "access",
                are_possible: self.rules.are_possible(),
                rows: rows.iter().map(row).collect(),
                digest: digest.map(|at| Moment::new(at, now)),
                types: &self.activity.choices().types,
                lanes: Lane::ALL.iter().map(|lane| choice("lane", lane.as_str(), lane.title())).collect(),
                tones: TONES.iter().map(|tone| choice("tone", tone.as_str(), tone_words(*tone))).collect(),
                novelties: Novelty::ALL
                    .iter()
                    .map(|novelty| choice("first_time", novelty.as_str(), novelty_words(*novelty)))
                    .collect(),
                form,
                fault,
                has_notifications: self.has_notifications,
                is_full,
                every: humantime_serde::re::humantime::format_duration(settings.message_every).to_string(),
            },
        ))
    }
}

/// `GET /account/rules`
pub async fn show(State(pages): State<RulePages>, owner: AccountOwner) -> PageResult {
    pages.draw(&owner, RuleForm::default(), None).await
}

/// `POST /account/rules`: adds a rule.
pub async fn create(
    State(pages): State<RulePages>,
    owner: AccountOwner,
    PageForm(form): PageForm<BTreeMap<String, String>>,
) -> PageResult {
    let form = RuleForm(form);
    let new = match form.rule() {
        Ok(new) => new,
        Err(fault) => return pages.draw(&owner, form, Some(fault)).await,
    };
    match pages.rules.create(owner.account.clone(), new).await {
        Ok(_) => Ok(pages.site.to(PATH, "The rule is added. It matches events from now on.")),
        Err(refusal) => match mendable(&refusal) {
            Some(fault) => pages.draw(&owner, form, Some(fault)).await,
            None => Err(pages.refused(&owner, refusal)),
        },
    }
}

/// `POST /account/rules/{id}/delete`: deletes a rule.
pub async fn delete(
    State(pages): State<RulePages>,
    owner: AccountOwner,
    Named(id): Named,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let id = id.parse().map_err(|_| gone(&pages.site, &owner.visitor))?;
    let deleted = pages.rules.delete(id, owner.account.clone()).await;
    deleted.map_err(|refusal| pages.refused(&owner, refusal))?;
    Ok(pages.site.to(PATH, "The rule is deleted."))
}

/// `POST /account/rules/digest`: switches the weekly digest on or off.
pub async fn set_digest(
    State(pages): State<RulePages>,
    owner: AccountOwner,
    PageForm(form): PageForm<BTreeMap<String, String>>,
) -> PageResult {
    let is_on = RuleForm(form).field("digest") == "on";
    let set = pages.rules.set_digest(owner.account.clone(), is_on).await;
    set.map_err(|refusal| pages.refused(&owner, refusal))?;
    Ok(pages.site.to(PATH, if is_on { "The weekly digest is on." } else { "The weekly digest is off." }))
}
