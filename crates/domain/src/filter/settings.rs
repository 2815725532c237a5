//! Content filter settings of an account, and changes of them.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer, Serialize};

/// Maximum length of a category, in characters.
pub const CATEGORY_CHARS_MAX: usize = 50;

/// Maximum length of the prompt, in characters.
pub const PROMPT_CHARS_MAX: usize = 750;

/// Maximum length of an included or excluded item, in characters.
pub const ITEM_CHARS_MAX: usize = 20;

/// Maximum number of elements in a list.
pub const ELEMENTS_MAX: usize = 100;

/// Valid content filter settings: trimmed, within the limits, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FilterSettings {
    /// Categories that the language model assigns to kept content.
    pub categories: Vec<String>,
    /// Instructions to the language model about wanted content.
    pub filter_prompt: Option<String>,
    /// Words and phrases; content must contain at least one, if there are any.
    pub include_items: Vec<String>,
    /// Words and phrases that content must not contain.
    pub exclude_items: Vec<String>,
    /// Whether the filter is active.
    #[serde(rename = "shouldLLMFilter")]
    pub should_llm_filter: bool,
}

/// Body of `PUT /v1/settings`. Replaces all settings: an absent member, `null` or `[]` clears.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FilterUpdate {
    /// See [`FilterSettings::categories`].
    #[serde(deserialize_with = "or_default")]
    pub categories: Vec<String>,
    /// See [`FilterSettings::filter_prompt`].
    pub filter_prompt: Option<String>,
    /// See [`FilterSettings::include_items`].
    #[serde(deserialize_with = "or_default")]
    pub include_items: Vec<String>,
    /// See [`FilterSettings::exclude_items`].
    #[serde(deserialize_with = "or_default")]
    pub exclude_items: Vec<String>,
    /// See [`FilterSettings::should_llm_filter`].
    #[serde(rename = "shouldLLMFilter", deserialize_with = "or_default")]
    pub should_llm_filter: bool,
}

/// Body of `PATCH /v1/settings`. An absent member keeps its setting; `null` or `[]` clears it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FilterChange {
    /// See [`FilterSettings::categories`].
    #[serde(deserialize_with = "given")]
    pub categories: Option<Vec<String>>,
    /// See [`FilterSettings::filter_prompt`].
    #[serde(deserialize_with = "given")]
    pub filter_prompt: Option<Option<String>>,
    /// See [`FilterSettings::include_items`].
    #[serde(deserialize_with = "given")]
    pub include_items: Option<Vec<String>>,
    /// See [`FilterSettings::exclude_items`].
    #[serde(deserialize_with = "given")]
    pub exclude_items: Option<Vec<String>>,
    /// See [`FilterSettings::should_llm_filter`].
    #[serde(rename = "shouldLLMFilter", deserialize_with = "given")]
    pub should_llm_filter: Option<bool>,
}

impl FilterChange {
    /// Applies the change to the settings `now`.
    pub fn of(self, now: FilterSettings) -> FilterUpdate {
        FilterUpdate {
            categories: self.categories.unwrap_or(now.categories),
            filter_prompt: self.filter_prompt.unwrap_or(now.filter_prompt),
            include_items: self.include_items.unwrap_or(now.include_items),
            exclude_items: self.exclude_items.unwrap_or(now.exclude_items),
            should_llm_filter: self.should_llm_filter.unwrap_or(now.should_llm_filter),
        }
    }
}

/// A violated rule of one setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FilterIssue {
    /// Path of the value, such as `categories[3]`.
    pub path: String,
    /// The violated rule.
    pub message: String,
}

impl TryFrom<FilterUpdate> for FilterSettings {
    type Error = Vec<FilterIssue>;

    /// Trims, checks and removes duplicates. Returns every violated rule.
    fn try_from(update: FilterUpdate) -> Result<Self, Vec<FilterIssue>> {
        let mut issues = Vec::new();
        let settings = Self {
            categories: list("categories", update.categories, CATEGORY_CHARS_MAX, &mut issues),
            filter_prompt: update
                .filter_prompt
                .and_then(|prompt| element("filterPrompt".to_owned(), &prompt, PROMPT_CHARS_MAX, &mut issues)),
            include_items: list("includeItems", update.include_items, ITEM_CHARS_MAX, &mut issues),
            exclude_items: list("excludeItems", update.exclude_items, ITEM_CHARS_MAX, &mut issues),
            should_llm_filter: update.should_llm_filter,
        };
        if issues.is_empty() { Ok(settings) } else { Err(issues) }
    }
}

impl FilterSettings {
    /// Whether new content is filtered.
    pub fn is_active(&self) -> bool {
        self.should_llm_filter && !self.is_empty()
    }

    /// Warnings about settings without effect, for the account's users. `has_model` is whether the server has a
    /// language model.
    pub fn warnings(&self, has_model: bool) -> Vec<&'static str> {
        let inactive = !self.should_llm_filter && !self.is_empty();
        let nothing = self.should_llm_filter && self.is_empty();
        let without_model = self.should_llm_filter && !has_model;
        let all = [
            (inactive, "The filters are stored but inactive, because shouldLLMFilter is false."),
            (nothing, "shouldLLMFilter is true, but there is nothing to filter by: everything is kept."),
            (
                without_model && self.filter_prompt.is_some(),
                "filterPrompt is stored but inactive, because this server has no language model configured.",
            ),
            (
                without_model && !self.categories.is_empty(),
                "categories are stored but inactive, because this server has no language model configured.",
            ),
        ];
        all.into_iter().filter(|(applies, _)| *applies).map(|(_, warning)| warning).collect()
    }

    fn is_empty(&self) -> bool {
        self.categories.is_empty()
            && self.filter_prompt.is_none()
            && self.include_items.is_empty()
            && self.exclude_items.is_empty()
    }
}

fn list(name: &str, given: Vec<String>, chars_max: usize, issues: &mut Vec<FilterIssue>) -> Vec<String> {
    if given.len() > ELEMENTS_MAX {
        let message = format!("must have at most {ELEMENTS_MAX} elements");
        issues.push(FilterIssue { path: name.to_owned(), message });
        return Vec::new();
    }
    let mut unique = HashSet::new();
    let mut items = Vec::new();
    for (index, text) in given.into_iter().enumerate() {
        if let Some(text) = element(format!("{name}[{index}]"), &text, chars_max, issues)
            && unique.insert(text.clone())
        {
            items.push(text);
        }
    }
    items
}

fn element(path: String, text: &str, chars_max: usize, issues: &mut Vec<FilterIssue>) -> Option<String> {
    let text = text.trim();
    if (1..=chars_max).contains(&text.chars().count()) {
        return Some(text.to_owned());
    }
    issues.push(FilterIssue { path, message: format!("must have 1 to {chars_max} characters after trimming") });
    None
}

/// Deserialises `null` as the default.
fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Deserialises a present member, with `null` as the default. An absent member stays `None`.
fn given<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    or_default(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings(body: Value) -> Result<FilterSettings, Vec<FilterIssue>> {
        serde_json::from_value::<FilterUpdate>(body).unwrap().try_into()
    }

    fn paths(body: Value) -> Vec<String> {
        settings(body).unwrap_err().into_iter().map(|issue| issue.path).collect()
    }

    #[test]
    fn a_change_is_trimmed_and_loses_its_duplicates() {
        let body = json!({
            "categories": [" news ", "news", "News"], "filterPrompt": "  about boats ",
            "includeItems": ["sail boat"], "excludeItems": [], "shouldLLMFilter": true,
        });
        let expected = FilterSettings {
            categories: vec!["news".into(), "News".into()],
            filter_prompt: Some("about boats".into()),
            include_items: vec!["sail boat".into()],
            exclude_items: vec![],
            should_llm_filter: true,
        };
        assert_eq!(settings(body), Ok(expected.clone()));
        let written = serde_json::to_value(&expected).unwrap();
        assert_eq!(written["shouldLLMFilter"], true);
        assert_eq!(written["filterPrompt"], "about boats");
        assert_eq!(serde_json::from_value::<FilterSettings>(written).unwrap(), expected);
    }

    #[test]
    fn null_an_empty_list_and_absence_clear() {
        let nulls = json!({
            "categories": null, "filterPrompt": null, "includeItems": null, "excludeItems": null, "shouldLLMFilter": null,
        });
        for body in [nulls, json!({"categories": []}), json!({})] {
            assert_eq!(settings(body), Ok(FilterSettings::default()));
        }
    }

    #[test]
    fn a_change_of_some_leaves_the_others() {
        let full = settings(json!({
            "categories": ["news"], "filterPrompt": "boats", "includeItems": ["a"], "excludeItems": ["b"], "shouldLLMFilter": true,
        }));
        let full = full.unwrap();
        let changed = |body: Value| {
            let change: FilterChange = serde_json::from_value(body).unwrap();
            FilterSettings::try_from(change.of(full.clone())).unwrap()
        };
        assert_eq!(changed(json!({})), full);
        let words = ["c".to_owned()].to_vec();
        assert_eq!(changed(json!({"includeItems": ["c"]})), FilterSettings { include_items: words, ..full.clone() });
        let nulls = json!({
            "categories": null, "filterPrompt": null, "includeItems": null, "excludeItems": null, "shouldLLMFilter": null,
        });
        assert_eq!(changed(nulls), FilterSettings::default());
        assert!(serde_json::from_str::<FilterChange>(r#"{"categories": [], "categories": []}"#).is_err());
    }

    #[test]
    fn bounds_count_characters_of_each_element_after_trimming() {
        for (name, most) in [("categories", 50), ("includeItems", 20), ("excludeItems", 20)] {
            assert!(settings(json!({name: [format!(" {} ", "é".repeat(most))]})).is_ok(), "{name}");
            assert_eq!(paths(json!({name: ["a", "é".repeat(most + 1)]})), [format!("{name}[1]")]);
            assert_eq!(paths(json!({name: ["", "a", " \t "]})), [format!("{name}[0]"), format!("{name}[2]")]);
        }
        assert!(settings(json!({"filterPrompt": "x".repeat(750)})).is_ok());
        for wrong in ["x".repeat(751), "  ".into()] {
            assert_eq!(paths(json!({"filterPrompt": wrong})), ["filterPrompt"]);
        }
    }

    #[test]
    fn a_list_has_at_most_a_hundred_elements_those_that_are_repeated_included() {
        let different = |count: u32| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        let repeated = |count| vec!["twice"; count];
        assert_eq!(settings(json!({"categories": different(100)})).unwrap().categories.len(), 100);
        assert_eq!(settings(json!({"categories": repeated(100)})).unwrap().categories, ["twice"]);
        assert_eq!(paths(json!({"categories": repeated(101)})), ["categories"]);
        assert_eq!(paths(json!({"categories": different(5000)})), ["categories"]);
    }

    #[test]
    fn warnings_name_settings_without_effect() {
        let stored = settings(json!({"filterPrompt": "boats", "categories": ["news"]})).unwrap();
        assert!(!stored.is_active());
        assert_eq!(stored.warnings(true).len(), 1);
        let active = FilterSettings { should_llm_filter: true, ..stored };
        assert!(active.is_active());
        assert_eq!(active.warnings(true), Vec::<&str>::new());
        assert_eq!(active.warnings(false).len(), 2);
        let empty = FilterSettings { should_llm_filter: true, ..FilterSettings::default() };
        assert!(!empty.is_active());
        assert_eq!(empty.warnings(true).len(), 1);
        assert_eq!(FilterSettings::default().warnings(false), Vec::<&str>::new());
    }
}
