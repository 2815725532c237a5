//! Parses the verdict in the response of a language model.

use domain::filter::{FilterVerdict, VerdictBy};
use domain::memory::short_title;
use serde::Deserialize;

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: String,
}

#[derive(Deserialize)]
struct ModelAnswer {
    keep: bool,
    categories: Option<Vec<String>>,
    reason: Option<String>,
}

/// The verdict in a response body. Keeps only categories of the account, in its spelling.
pub(super) fn verdict(body: &[u8], categories: &[String]) -> Option<FilterVerdict> {
    let completion: Completion = serde_json::from_slice(body).ok()?;
    let model_answer = model_answer(&completion.choices.first()?.message.content)?;
    let named = model_answer.categories.unwrap_or_default();
    let is_named = |category: &&String| named.iter().any(|name| name.trim().to_lowercase() == category.to_lowercase());
    Some(FilterVerdict {
        keep: model_answer.keep,
        categories: categories.iter().filter(is_named).cloned().collect(),
        // Shortened like a title, because lists show it.
        reason: model_answer.reason.as_deref().and_then(short_title).unwrap_or_default(),
        by: VerdictBy::Llm,
    })
}

/// Extracts the JSON object, since models often add a code fence or a sentence.
fn model_answer(content: &str) -> Option<ModelAnswer> {
    let (start, end) = (content.find('{')?, content.rfind('}')?);
    serde_json::from_str(content.get(start..=end)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(content: &str) -> Option<FilterVerdict> {
        let body = json!({"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]});
        verdict(&serde_json::to_vec(&body).unwrap(), &["News".to_owned(), "Boats".to_owned()])
    }

    #[test]
    fn a_verdict_is_found_in_its_wrapping() {
        let bare = r#"{"keep": false, "categories": ["boats", "Spam", " NEWS "], "reason": "About\nplanes"}"#;
        for content in [bare.to_owned(), format!("```json\n{bare}\n```"), format!("Sure! {bare} I hope this helps.")] {
            let verdict = read(&content).unwrap();
            assert_eq!((verdict.keep, verdict.by, verdict.reason.as_str()), (false, VerdictBy::Llm, "About planes"));
            assert_eq!(verdict.categories, ["News", "Boats"]);
        }
        assert!(read(r#"{"keep": true}"#).unwrap().keep);
    }

    #[test]
    fn anything_else_is_no_verdict() {
        for content in ["", "keep", "{}", r#"{"keep": "yes"}"#, "}{", r#"{"keep": true"#, r#"[{"keep": 1}]"#] {
            assert_eq!(read(content), None, "{content}");
        }
        for body in ["", "[]", "{}", r#"{"choices": []}"#, r#"{"choices": [{"message": {"content": null}}]}"#] {
            assert_eq!(verdict(body.as_bytes(), &[]), None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(content in "(\\{|\\}|\"keep\":true|```|\\PC){0,30}", body in any::<Vec<u8>>()) {
            let _ = (read(&content), verdict(&body, &[]));
        }
    }
}
