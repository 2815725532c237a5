//! The sentence that lists show for an event, made from its payload by the templates of its type.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::template::Template;
use super::value::Members;

/// Maximum number of characters of a summary.
const TEXT_CHARS_MAX: usize = 200;
/// Maximum number of characters of a type's name in a summary.
const NAME_CHARS_MAX: usize = 64;

/// One event in a sentence, without control and direction characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The sentence, without a full stop; never empty. It does not repeat the word of the tone.
    pub text: String,
    /// How the work went.
    pub tone: Tone,
}

/// How the work that an event reports went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Tone {
    /// Nothing of note.
    #[default]
    Plain,
    /// The work failed.
    Failed,
    /// The work was prevented.
    Blocked,
    /// The work waits for a person.
    Waiting,
    /// A finding that a person should look at.
    Alert,
}

impl Tone {
    /// The name in responses and registry files.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The word for people; `None` if there is nothing to say.
    pub fn word(self) -> Option<&'static str> {
        (self != Self::Plain).then(|| self.as_str())
    }
}

impl Summary {
    /// The sentence with the word of its tone: `Ran Bash · 0.4 s · failed`.
    pub fn sentence(&self) -> String {
        match self.tone.word() {
            Some(word) => format!("{} · {word}", self.text),
            None => self.text.clone(),
        }
    }
}

/// The names that a reader has for the parties in a payload.
pub trait SummaryNames {
    /// The name of a value of a member, such as a computer's by its `machine_uuid`; `None` if it has none.
    fn name_of(&self, member: &str, value: &str) -> Option<String>;
}

/// No names: ids are replaced by what they identify.
#[derive(Debug, Clone, Copy)]
pub struct NoNames;

impl SummaryNames for NoNames {
    fn name_of(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// `summary` in a registry file.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum SummaryEntry {
    One(String),
    Several(Vec<VariantEntry>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantEntry {
    #[serde(default)]
    when: BTreeMap<String, Value>,
    text: String,
    #[serde(default)]
    tone: Tone,
}

impl SummaryEntry {
    pub(super) fn parsed(self) -> Result<Summaries, String> {
        let variants = match self {
            Self::One(text) => vec![VariantEntry { when: BTreeMap::new(), text, tone: Tone::Plain }],
            Self::Several(variants) => variants,
        };
        let parsed = |VariantEntry { when, text, tone }: VariantEntry| {
            Template::parse(&text)
                .map(|template| Variant { when, template, tone })
                .map_err(|fault| format!("{fault} in {text:?}"))
        };
        variants.into_iter().map(parsed).collect::<Result<_, _>>().map(Summaries)
    }
}

/// The templates of a type. The first one that applies is used; without one, the name of the type.
#[derive(Debug, Default)]
pub(super) struct Summaries(Vec<Variant>);

#[derive(Debug)]
struct Variant {
    when: BTreeMap<String, Value>,
    template: Template,
    tone: Tone,
}

impl Summaries {
    pub(super) const NONE: &'static Self = &Self(Vec::new());

    pub(super) fn of(&self, event_type: &str, members: &Members<'_>) -> Summary {
        // Hooks report a prompt with the type of a model call, because every server knows that type.
        let prompt = members.is("activity", &Value::from("prompt_submitted")).then(|| Summary {
            text: match members.text("prompt") {
                Some(prompt) => format!("Prompt · {prompt}"),
                None => "Prompt".to_owned(),
            },
            tone: Tone::Plain,
        });
        let summary = prompt.or_else(|| self.0.iter().find_map(|variant| variant.of(members)));
        let Summary { text, tone } =
            summary.unwrap_or_else(|| Summary { text: in_words(event_type), tone: Tone::Plain });
        let has_failed = tone == Tone::Plain && members.is("succeeded", &Value::Bool(false));
        Summary { text: cut(&text, TEXT_CHARS_MAX).into_owned(), tone: if has_failed { Tone::Failed } else { tone } }
    }
}

impl Variant {
    fn of(&self, members: &Members<'_>) -> Option<Summary> {
        let applies = self.when.iter().all(|(name, value)| members.is(name, value));
        let text = self.template.written(members).filter(|text| applies && !text.trim().is_empty())?;
        Some(Summary { text, tone: self.tone })
    }
}

/// A name of a type as words: `deploy.roll_back` is `Deploy roll back`.
fn in_words(event_type: &str) -> String {
    let words = crate::foreign::visible(event_type).replace(['.', '_', '-', '/'], " ");
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = cut(&words, NAME_CHARS_MAX);
    let mut characters = words.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => "Event".to_owned(),
    }
}

/// The beginning of a text, with an ellipsis if it is longer.
pub(super) fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => Cow::Owned(format!("{}…", text[..end].trim_end())),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;
    use crate::consent::ConsentLevel;
    use crate::registry::Registry;

    const BELOW_FULL: [ConsentLevel; 2] = [ConsentLevel::Off, ConsentLevel::MetadataOnly];

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            other => panic!("{other}"),
        }
    }

    fn sentence(event_type: &str, level: ConsentLevel, payload: Value) -> String {
        Registry::built_in().unwrap().summary(event_type, level, &object(payload), &NoNames).sentence()
    }

    #[test]
    fn every_built_in_type_has_a_sentence_for_any_payload() {
        let registry = Registry::built_in().unwrap();
        let empty = Members { payload: &Map::new(), level: ConsentLevel::Off, content: &[], names: &NoNames };
        for (name, kind) in &registry.types {
            let without_members = kind.summaries.0.iter().find_map(|variant| variant.of(&empty));
            assert!(without_members.is_some(), "{name} has no summary that needs no members");
        }
    }

    #[test]
    fn an_event_is_a_sentence() {
        for (event_type, payload, expected) in [
            ("skill.invoked", json!({ "activity": "session_started", "skill": "session" }), "Session started"),
            (
                "skill.invoked",
                json!({ "activity": "tool_finished", "skill": "Bash", "duration_ms": 412.0 }),
                "Ran Bash · 0.4 s",
            ),
            (
                "skill.invoked",
                json!({ "activity": "tool_finished", "skill": "Bash", "succeeded": false, "exit_status": 101, "duration_ms": 95 }),
                "Ran Bash · exit status 101 · 95 ms · failed",
            ),
            (
                "skill.invoked",
                json!({ "activity": "file_edited", "skill": "Edit", "succeeded": true }),
                "Edited a file",
            ),
            (
                "skill.invoked",
                json!({ "activity": "subagent_started", "skill": "subagent", "subagent": "Explore" }),
                "Subagent Explore started",
            ),
            ("skill.invoked", json!({ "activity": "other", "skill": "unknown", "hook": "NewHook" }), "Hook NewHook"),
            ("skill.invoked", json!({ "skill": "review", "version": "1.2" }), "Ran review 1.2"),
            ("skill.invoked", json!({}), "Ran a tool"),
            ("llm.completed", json!({ "activity": "prompt_submitted", "model": "gpt-5.2" }), "Prompt"),
            (
                "llm.completed",
                json!({ "model": "gpt-5.2", "input_tokens": 9893, "output_tokens": 484, "duration_ms": 3120 }),
                "gpt-5.2 · 9,893 → 484 tokens · 3.1 s",
            ),
            ("llm.completed", json!({ "activity": "completed", "model": "gpt-5.5" }), "gpt-5.5 answered"),
            ("llm.completed", json!({ "activity": "completed" }), "Answered"),
            ("llm.failed", json!({ "model": "gpt-5.5", "error_kind": "rate_limit" }), "gpt-5.5 · rate_limit · failed"),
            (
                "security.finding",
                json!({ "activity": "permission_requested", "skill": "Bash" }),
                "Asked for permission · Bash · waiting",
            ),
            (
                "security.finding",
                json!({ "rule": "exfiltration", "severity": "critical" }),
                "Critical finding · exfiltration · alert",
            ),
            (
                "security.blocked",
                json!({ "activity": "permission_denied", "skill": "Bash" }),
                "Permission denied · Bash · blocked",
            ),
            ("memory.recalled", json!({ "results": 1, "duration_ms": 41 }), "Searched the memory · 1 result · 41 ms"),
            ("squad.task_completed", json!({ "task_id": "t", "succeeded": false }), "Completed a task · failed"),
            (
                "consent.changed",
                json!({ "level": "full", "previous_level": "off", "machine_uuid": null, "lane": "llm", "set_by": "agent", "reason": null }),
                "Consent for Model calls: off → full, set by an agent",
            ),
            (
                "consent.changed",
                json!({ "level": "off", "previous_level": null, "machine_uuid": "019b76da-a800-7a67-8a14-94a3f41b0634", "lane": null, "set_by": "computer" }),
                "Consent for all lanes on one computer: not set → off, set by a computer",
            ),
            (
                "consent.changed",
                json!({ "level": "off", "set_by": "person", "pause": "began", "paused_until": "2026-01-31T12:30:00.000Z" }),
                "Recording paused until 31 January 2026, 12:30 UTC, by a person",
            ),
            ("deploy.roll_back-done", json!({ "succeeded": false }), "Deploy roll back done · failed"),
            ("", json!({}), "Event"),
        ] {
            assert_eq!(sentence(event_type, ConsentLevel::MetadataOnly, payload), expected);
        }
    }

    #[test]
    fn content_makes_a_sentence_longer_at_full_only() {
        let bash = json!({ "activity": "tool_finished", "skill": "Bash", "input": { "command": "cargo  test\n-q" }, "duration_ms": 1834 });
        assert_eq!(sentence("skill.invoked", ConsentLevel::Full, bash.clone()), "Ran Bash · cargo test -q · 1.8 s");
        assert_eq!(sentence("skill.invoked", ConsentLevel::MetadataOnly, bash), "Ran Bash · 1.8 s");
        let edited = json!({ "activity": "file_edited", "skill": "Edit", "file_path": "/home/ada/engine/src/mill.rs" });
        assert_eq!(sentence("skill.invoked", ConsentLevel::Full, edited), "Edited mill.rs");
        let prompt = json!({ "activity": "prompt_submitted", "prompt": ["Compute", "the number"] });
        assert_eq!(sentence("security.blocked", ConsentLevel::Full, prompt.clone()), "Prompt · Compute the number");
        assert_eq!(sentence("security.blocked", ConsentLevel::Off, prompt), "Prompt");
    }

    /// Each type, with each of its activities, at each level below `full`.
    #[test]
    fn no_content_is_in_a_sentence_below_full() {
        const SECRET: &str = "ZEBRA";
        let registry = Registry::built_in().unwrap();
        let activities = [
            "prompt_submitted",
            "completed",
            "failed",
            "tool_started",
            "tool_finished",
            "file_edited",
            "session_started",
            "session_ended",
            "subagent_started",
            "subagent_ended",
            "compacting",
            "compacted",
            "instructions_loaded",
            "permission_requested",
            "permission_denied",
            "agent_invoked",
            "agent_created",
            "other",
            "none",
        ];
        let hooks = ["cwd", "file_path", "error", "edits", "reason_text", "system_instructions", "input", "output"];
        let values =
            [json!(SECRET), json!([SECRET]), json!({ "command": SECRET }), json!(format!("{SECRET}/{SECRET}"))];
        let mut full = 0;
        for (name, kind) in &registry.types {
            for activity in activities {
                for value in &values {
                    let mut payload =
                        object(json!({ "activity": activity, "skill": "Bash", "model": "m", "duration_ms": 1 }));
                    for content in kind.content_fields.iter().map(String::as_str).chain(hooks) {
                        payload.insert(content.to_owned(), value.clone());
                    }
                    for level in BELOW_FULL {
                        let summary = registry.summary(name, level, &payload, &NoNames);
                        assert!(!summary.text.contains(SECRET), "{name} {activity} {level}: {}", summary.text);
                    }
                    let summary = registry.summary(name, ConsentLevel::Full, &payload, &NoNames);
                    full += usize::from(summary.text.contains(SECRET));
                }
            }
        }
        assert!(full > 50, "only {full} sentences have content at full, so this test looks at the wrong members");
    }

    #[test]
    fn an_operators_content_field_is_content_in_its_own_summary() {
        let file = "[[event]]\nevent_type = \"deploy.done\"\nlane = \"skill\"\ncontent_fields = [\"branch\"]\n\
            summary = \"Deployed[ · {branch}] to {where?production}\"\n";
        let registry = Registry::from_file(file).unwrap();
        let payload = object(json!({ "branch": "secret-feature", "where": "staging" }));
        let text = |level| registry.summary("deploy.done", level, &payload, &NoNames).text;
        assert_eq!(text(ConsentLevel::Full), "Deployed · secret-feature to staging");
        assert_eq!(text(ConsentLevel::MetadataOnly), "Deployed to staging");
        assert_eq!(registry.title("deploy.done").text, "Deployed to production");
    }

    #[test]
    fn a_file_without_a_summary_keeps_the_built_in_one_or_names_the_type() {
        for mode in ["extend", "replace"] {
            let file = format!(
                "mode = \"{mode}\"\n[[event]]\nevent_type = \"skill.invoked\"\nlane = \"skill\"\n\
                [[event]]\nevent_type = \"deploy.done\"\nlane = \"skill\"\n"
            );
            let registry = Registry::from_file(&file).unwrap();
            assert_eq!(registry.title("skill.invoked").text, "Ran a tool");
            assert_eq!(registry.title("deploy.done").text, "Deploy done");
        }
    }

    #[test]
    fn a_summary_that_is_no_template_is_refused_with_its_text() {
        for (text, fault) in [
            ("", "no text"),
            ("a [b", "a [ without ]"),
            ("a [b]", "without a member"),
            ("a {b", "a { without }"),
            ("a } b", "a bracket"),
            ("a [{b} [c]]", "a bracket"),
            ("a {}", "without the name"),
            ("a {b c}", "without the name"),
            ("a {b?}", "an empty noun"),
            ("a {b:}", "an empty noun"),
            ("a \u{202e}b", "cannot be seen"),
        ] {
            let text = serde_json::to_string(text).unwrap();
            let file = format!("[[event]]\nevent_type = \"a.b\"\nlane = \"skill\"\nsummary = {text}\n");
            let error = Registry::from_file(&file).unwrap_err().to_string();
            assert!(error.contains("a.b") && error.contains(fault), "{text}: {error}");
        }
        let tone = "[[event]]\nevent_type = \"a.b\"\nlane = \"skill\"\nsummary = [{ text = \"x\", tone = \"loud\" }]\n";
        assert!(Registry::from_file(tone).is_err());
    }

    #[test]
    fn names_of_the_reader_replace_ids() {
        struct Ada;
        impl SummaryNames for Ada {
            fn name_of(&self, member: &str, _: &str) -> Option<String> {
                match member {
                    "machine_uuid" => Some("Ada's \u{202e}laptop".to_owned()),
                    "set_by" => Some("you".to_owned()),
                    _ => None,
                }
            }
        }
        let payload = object(json!({ "level": "off", "machine_uuid": "x", "set_by": "person", "lane": "rsi" }));
        let summary =
            Registry::built_in().unwrap().summary("consent.changed", ConsentLevel::MetadataOnly, &payload, &Ada);
        assert_eq!(summary.text, "Consent for Self-review on Ada's laptop: not set → off, set by you");
    }

    proptest! {
        #[test]
        fn any_payload_is_a_short_line(
            text: String,
            hidden in "[\u{0}-\u{9f}\u{200b}-\u{2069}\u{fff9}-\u{fffb}]{0,20}",
            long in "[a-zé\u{301} ]{0,900}",
            number: f64,
            place in 0..16_usize,
            level in 0..3_usize,
        ) {
            let registry = Registry::built_in().unwrap();
            let name = registry.names().nth(place).unwrap().to_owned();
            let level = [ConsentLevel::Off, ConsentLevel::MetadataOnly, ConsentLevel::Full][level];
            let member = |value: &str| json!(value);
            let payload = object(json!({
                "skill": member(&text), "model": member(&hidden), "prompt": member(&long), "duration_ms": number, "level": member(&hidden),
                "recipient": [long, hidden], "rule": member(&long), "results": number, "score": number, "input": { "command": text },
            }));
            for event_type in [&name, &text, &hidden] {
                let summary = registry.summary(event_type, level, &payload, &NoNames);
                prop_assert!(!summary.text.trim().is_empty());
                prop_assert!(summary.text.chars().count() <= TEXT_CHARS_MAX + 1);
                prop_assert_eq!(crate::foreign::visible(&summary.text), summary.text);
            }
        }
    }
}
