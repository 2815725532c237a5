//! Settings: spaces, the rules for new content with the rejected content, and API keys.

use api::HttpState;
use app::services::knowledge::filters::FiledVerdict;
use app::services::knowledge::{Filters, Spaces};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use domain::filter::{
    CATEGORY_CHARS_MAX, FilterIssue, FilterSettings, FilterUpdate, ITEM_CHARS_MAX, PROMPT_CHARS_MAX, VerdictBy,
};
use serde::Deserialize;

use super::row::SpaceRow;
use super::{TAB, capitalised};
use crate::account::AccountOwner;
use crate::{Moment, PageError, PageForm, PageLayout, PageResult, Site, page};

/// Maximum number of listed verdicts.
const VERDICTS_LISTED: usize = 50;
/// Fields that only a language model reads.
const MODEL_FIELDS: [&str; 2] = ["prompt", "categories"];

/// The state of this page.
#[derive(Debug, Clone)]
pub struct SettingsPages {
    site: Site,
    spaces: Spaces,
    filters: Filters,
}

impl FromRef<HttpState> for SettingsPages {
    fn from_ref(state: &HttpState) -> Self {
        Self { site: Site::from_ref(state), spaces: FromRef::from_ref(state), filters: FromRef::from_ref(state) }
    }
}

/// The input in the form for a new space.
#[derive(Debug, Default)]
pub(super) struct SpaceDraft {
    pub name: String,
    pub fault: Option<String>,
}

#[derive(Template)]
#[template(path = "knowledge/settings.html")]
struct SettingsPage {
    frame: PageLayout,
    tab: &'static str,
    view: &'static str,
    rag_url: String,
    spaces: Vec<SpaceRow>,
    default_space: String,
    new_space: SpaceDraft,
    is_on: bool,
    fields: Vec<Field>,
    /// Fields without effect, because the server has no language model; sent as they are.
    hidden: Vec<Field>,
    warnings: Vec<String>,
    verdicts: Vec<VerdictRow>,
    is_faulty: bool,
}

struct Field {
    name: &'static str,
    label: &'static str,
    hint: String,
    rows: usize,
    value: String,
    faults: Vec<String>,
}

struct VerdictRow {
    subject: String,
    is_kept: bool,
    reason: String,
    by: &'static str,
    at: Moment,
}

/// The form. Lists have one element a line; unticked boxes are absent.
#[derive(Debug, Default, Deserialize)]
pub struct SettingsForm {
    on: Option<String>,
    exclude: String,
    include: String,
    prompt: String,
    categories: String,
}

/// `GET /knowledge/settings`
pub async fn show(State(pages): State<SettingsPages>, owner: AccountOwner) -> PageResult {
    pages.stored(&owner, StatusCode::OK, SpaceDraft::default()).await
}

/// `POST /knowledge/settings`: replaces the rules.
pub async fn save(
    State(pages): State<SettingsPages>,
    owner: AccountOwner,
    PageForm(form): PageForm<SettingsForm>,
) -> PageResult {
    let site = &pages.site;
    let update = form.update();
    if let Err(issues) = FilterSettings::try_from(update.clone()) {
        let status = StatusCode::BAD_REQUEST;
        return pages.draw(&owner, status, &form, &issues, Vec::new(), SpaceDraft::default()).await;
    }
    pages.filters.replace(&owner.access(), update).await.map_err(PageError::of(site))?;
    Ok(site.to("/knowledge/settings", "Saved. The filter applies to content that is added from now on."))
}

impl SettingsForm {
    fn update(&self) -> FilterUpdate {
        let list = |text: &str| elements(text).map(str::to_owned).collect();
        FilterUpdate {
            categories: list(&self.categories),
            filter_prompt: Some(self.prompt.trim()).filter(|prompt| !prompt.is_empty()).map(str::to_owned),
            include_items: list(&self.include),
            exclude_items: list(&self.exclude),
            should_llm_filter: self.on.is_some(),
        }
    }
}

fn elements(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

impl SettingsPages {
    /// The state that every page uses.
    pub(super) fn site(&self) -> &Site {
        &self.site
    }

    /// The page with the fault of a new space.
    pub(super) async fn refused(&self, owner: &AccountOwner, draft: SpaceDraft) -> PageResult {
        self.stored(owner, StatusCode::BAD_REQUEST, draft).await
    }

    /// The page with the stored rules.
    async fn stored(&self, owner: &AccountOwner, status: StatusCode, draft: SpaceDraft) -> PageResult {
        let settings = self.filters.find(&owner.account).await.map_err(PageError::of(&self.site))?;
        let warnings = self.filters.warnings(&settings).into_iter().map(in_words).collect();
        let form = SettingsForm {
            on: settings.should_llm_filter.then(String::new),
            exclude: settings.exclude_items.join("\n"),
            include: settings.include_items.join("\n"),
            prompt: settings.filter_prompt.unwrap_or_default(),
            categories: settings.categories.join("\n"),
        };
        self.draw(owner, status, &form, &[], warnings, draft).await
    }

    async fn draw(
        &self,
        owner: &AccountOwner,
        status: StatusCode,
        form: &SettingsForm,
        issues: &[FilterIssue],
        warnings: Vec<String>,
        new_space: SpaceDraft,
    ) -> PageResult {
        let site = &self.site;
        let (now, failed) = (site.ports.clock.now(), PageError::of(site));
        let (verdicts, spaces) =
            tokio::join!(self.filters.verdicts(&owner.account, VERDICTS_LISTED), self.spaces.list(&owner.account),);
        let verdict = |filed: FiledVerdict| VerdictRow {
            subject: filed.subject,
            is_kept: filed.verdict.keep,
            reason: capitalised(&filed.verdict.reason),
            by: match filed.verdict.by {
                VerdictBy::Llm => "decided by the language model",
                VerdictBy::Rules => "decided by your words",
                VerdictBy::Unfiltered => "not decided",
            },
            at: Moment::new(filed.created_at, now),
        };
        let (spaces, default_space) = SpaceRow::all(spaces.map_err(&failed)?, owner);
        let (fields, hidden) = fields(form, issues, self.filters.has_language_model());
        Ok(page(
            status,
            &SettingsPage {
                frame: PageLayout::new(site, Some(&owner.visitor)),
                tab: TAB,
                view: "settings",
                rag_url: site.urls.rag.clone(),
                spaces,
                default_space,
                new_space,
                is_on: form.on.is_some(),
                fields,
                hidden,
                warnings,
                verdicts: verdicts.map_err(&failed)?.into_iter().map(verdict).collect(),
                is_faulty: !issues.is_empty(),
            },
        ))
    }
}

/// The fields that have an effect, or a fault or a value of earlier, and the others.
fn fields(form: &SettingsForm, issues: &[FilterIssue], has_model: bool) -> (Vec<Field>, Vec<Field>) {
    let model = if has_model { "" } else { " Without effect here: this server has no language model." };
    let field = |name, path: &str, label, hint: String, rows, value: &str| Field {
        name,
        label,
        hint,
        rows,
        value: value.to_owned(),
        faults: issues.iter().filter_map(|issue| fault(issue, path, value)).collect(),
    };
    let word = format!("One word or phrase per line, each of at most {ITEM_CHARS_MAX} characters.");
    let fields = [
        field(
            "exclude",
            "excludeItems",
            "Reject items that mention",
            format!("{word} Content with one of them is left out."),
            3,
            &form.exclude,
        ),
        field(
            "include",
            "includeItems",
            "Keep only items that mention",
            format!("{word} Content without any of them is left out; empty means no such rule."),
            3,
            &form.include,
        ),
        field(
            "prompt",
            "filterPrompt",
            "Description of the content to keep",
            format!("A language model reads this and decides. At most {PROMPT_CHARS_MAX} characters.{model}"),
            3,
            &form.prompt,
        ),
        field(
            "categories",
            "categories",
            "Categories",
            format!(
                "One per line, each of at most {CATEGORY_CHARS_MAX} characters. A language model sorts stored content into them.{model}"
            ),
            3,
            &form.categories,
        ),
    ];
    let is_shown = |field: &Field| {
        has_model || !MODEL_FIELDS.contains(&field.name) || !field.value.is_empty() || !field.faults.is_empty()
    };
    fields.into_iter().partition(is_shown)
}

/// The fault in a field. It quotes the element instead of its line number.
fn fault(issue: &FilterIssue, field: &str, value: &str) -> Option<String> {
    let place = issue.path.strip_prefix(field)?;
    let rule = issue.message.strip_suffix(" after trimming").unwrap_or(&issue.message);
    let nth = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).and_then(|nth| nth.parse().ok());
    match nth.and_then(|nth| elements(value).nth(nth)) {
        Some(element) => Some(format!("“{element}” {rule}.")),
        None => Some(capitalised(&format!("this {rule}"))),
    }
}

/// A warning of the API, in the words of the page.
fn in_words(warning: &str) -> String {
    warning
        .replace("because shouldLLMFilter is false", "because the filter is switched off")
        .replace("shouldLLMFilter is true", "The filter is switched on")
        .replace("filterPrompt is stored", "Your own words are stored")
        .replace("categories are stored", "Your categories are stored")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_shown_beside_their_fields() {
        let form = SettingsForm {
            exclude: "fine\n\n far too long for one word ".into(),
            prompt: "x".repeat(751),
            ..SettingsForm::default()
        };
        let issues = FilterSettings::try_from(form.update()).unwrap_err();
        let (fields, hidden) = fields(&form, &issues, false);
        let names = |fields: &[Field]| fields.iter().map(|field| field.name).collect::<Vec<_>>();
        // Without a language model its fields are shown only with a value.
        assert_eq!((names(&fields), names(&hidden)), (vec!["exclude", "include", "prompt"], vec!["categories"]));
        assert_eq!(fields[0].faults, ["“far too long for one word” must have 1 to 20 characters."]);
        assert_eq!(fields[2].faults, ["This must have 1 to 750 characters."]);
        assert!(fields[1].faults.is_empty());
    }

    #[test]
    fn warnings_name_the_labels_of_the_page() {
        let settings =
            FilterSettings { filter_prompt: Some("x".into()), categories: vec!["y".into()], ..Default::default() };
        let empty = FilterSettings { should_llm_filter: true, ..Default::default() };
        let on = FilterSettings { should_llm_filter: true, ..settings.clone() };
        for warning in [settings, empty, on].iter().flat_map(|settings| settings.warnings(false)) {
            let text = in_words(warning);
            assert!(!["shouldLLMFilter", "filterPrompt"].iter().any(|name| text.contains(name)), "{text}");
        }
    }
}
