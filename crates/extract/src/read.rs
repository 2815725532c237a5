//! Converts bytes to Markdown in the current process.

use domain::memory::{MemoryType, note_title, short_title};
use serde::{Deserialize, Serialize};

use crate::error::{ExtractError, short};
use crate::format::ContentFormat;
use crate::settings::ExtractSettings;
use crate::stack::on_large_stack;
use crate::{charset, html, pdf, text};

/// Extracted content of a page or a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extracted {
    /// Title of at most [`domain::memory::TITLE_CHARS_MAX`] characters.
    pub title: Option<String>,
    /// Main content as Markdown; never empty.
    pub markdown: String,
    /// `page` for HTML, `document` for everything else.
    pub kind: MemoryType,
}

/// Extracts `body`. `charset` comes from the response header; `url` is the base of relative links.
///
/// CPU-bound, and possibly endless for malicious pages and PDFs: servers use [`super::Extractor`].
pub fn extract(
    media_type: &str,
    charset: Option<&str>,
    body: &[u8],
    url: Option<&str>,
    settings: &ExtractSettings,
) -> Result<Extracted, ExtractError> {
    let work = || extract_here(media_type, charset, body, url, settings);
    match ContentFormat::of(media_type) {
        Some(ContentFormat::Html) => {
            on_large_stack(work).unwrap_or_else(|error| Err(ExtractError::Failed(error.to_string())))
        }
        _ => work(),
    }
}

/// Extracts on the current thread, which must have a stack that is large enough for a page.
pub(super) fn extract_here(
    media_type: &str,
    charset: Option<&str>,
    body: &[u8],
    url: Option<&str>,
    settings: &ExtractSettings,
) -> Result<Extracted, ExtractError> {
    let format = ContentFormat::of(media_type).ok_or_else(|| ExtractError::Unsupported(short(media_type)))?;
    let decoded = || charset::decode(body, charset, matches!(format, ContentFormat::Html | ContentFormat::Xml), url);
    let (title, markdown) = match format {
        ContentFormat::Html => html::read(&decoded(), url, settings)?,
        ContentFormat::Pdf => pdf::read(body)?,
        ContentFormat::Text => (None, text::plain(&decoded())?),
        ContentFormat::Markdown => (None, text::markdown(&decoded())?),
        ContentFormat::Json => (None, text::json(&decoded())?),
        ContentFormat::Xml => text::xml(&decoded())?,
    };
    if !markdown.chars().any(char::is_alphanumeric) {
        return Err(ExtractError::Empty);
    }
    if markdown.len() > settings.markdown_bytes_max {
        return Err(ExtractError::TooLarge(settings.markdown_bytes_max));
    }
    let named = title.as_deref().and_then(short_title);
    let from_text = || if format == ContentFormat::Json { None } else { note_title(&markdown) };
    let title = named.or_else(from_text).or_else(|| url.and_then(file_name));
    let kind = if format == ContentFormat::Html { MemoryType::Page } else { MemoryType::Document };
    Ok(Extracted { title, markdown, kind })
}

/// The last segment of the URL's path, as a title for files without one.
fn file_name(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    url.path_segments()?.rfind(|segment| !segment.is_empty()).and_then(short_title)
}

#[cfg(test)]
mod tests {
    use domain::item::Fault;
    use proptest::prelude::*;

    use super::*;

    fn read(media_type: &str, body: &str) -> Result<Extracted, ExtractError> {
        extract(media_type, None, body.as_bytes(), Some("https://example.com/a/file.txt"), &ExtractSettings::default())
    }

    #[test]
    fn every_type_that_is_fetched_is_read() {
        for (media_type, body, title, markdown) in [
            ("text/plain; charset=utf-8", "Hello\r\nworld", "Hello", "Hello\nworld"),
            ("Text/Markdown", "# Hi\n\n* there", "Hi", "# Hi\n\n* there"),
            ("application/ld+json", r#"{"a":[1,"x y"]}"#, "file.txt", "{\n  \"a\": [\n    1,\n    \"x y\"\n  ]\n}"),
            ("application/atom+xml", "<feed><title>News</title><p>a&amp;b</p></feed>", "News", "News\n\na&b"),
        ] {
            let extracted = read(media_type, body).unwrap();
            assert_eq!((extracted.title.as_deref(), extracted.markdown.as_str()), (Some(title), markdown));
            assert_eq!(extracted.kind, MemoryType::Document);
        }
        let page = read("application/xhtml+xml", "<title>Boats and their many sails</title><p>Some words").unwrap();
        assert_eq!((page.title.as_deref(), page.kind), (Some("Boats and their many sails"), MemoryType::Page));
        assert_eq!(page.markdown, "Some words");
    }

    #[test]
    fn what_cannot_be_remembered_says_why() {
        assert_eq!(read("image/png", "x").unwrap_err().fault(), Fault::UnsupportedType);
        for (media_type, body) in [
            ("text/html", "<html><body><script>let words = 1</script></body></html>"),
            ("text/html", ""),
            ("text/plain", " \n\t"),
            ("text/xml", "<a><b/></a>"),
            ("application/json", "{}"),
        ] {
            assert_eq!(read(media_type, body).unwrap_err().fault(), Fault::EmptyContent, "{media_type} {body}");
        }
        assert_eq!(read("application/pdf", "%PDF-1.4 nonsense").unwrap_err().fault(), Fault::ExtractFailed);
        assert_eq!(read("text/plain", &"\0\u{1}".repeat(50)).unwrap_err().fault(), Fault::ExtractFailed);
        let long = "words ".repeat(ExtractSettings::default().markdown_bytes_max / 6 + 1);
        assert_eq!(read("text/plain", &long).unwrap_err().fault(), Fault::TooLarge);
    }

    #[test]
    fn errors_survive_the_way_out_of_the_worker() {
        let all = [
            ExtractError::Empty,
            ExtractError::Unsupported("a/b".into()),
            ExtractError::TooLarge(3),
            ExtractError::TooManyAttributes(4),
            ExtractError::Failed("x".into()),
        ];
        for error in all {
            let written = serde_json::to_string(&error).unwrap();
            assert_eq!(serde_json::from_str::<ExtractError>(&written).unwrap(), error);
        }
    }

    const TYPES: [&str; 6] =
        ["text/html", "text/plain", "text/markdown", "application/json", "text/xml", "application/pdf"];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..400), kind in 0..TYPES.len()) {
            let _ = extract(TYPES[kind], None, &body, None, &ExtractSettings::default());
        }

        #[test]
        fn no_markup_makes_it_panic_or_leave_a_script(
            body in "(<(/?)(p|div|a|b|table|td|svg|math|template|script|style|select|li|pre|h1|img|br|noscript|title)( href=\"(x|javascript:y|//z)\")?>|text|&#0;|&amp|<!--|-->|\\PC){0,40}",
            charset in prop::option::of("(utf-8|utf-16|iso-8859-1|big5|x)"),
        ) {
            let page = format!("<p>hello<script>secret()</script><style>secret</style>{body}");
            let read = extract("text/html", charset.as_deref(), page.as_bytes(), Some("https://example.com/"), &ExtractSettings::default());
            if let Ok(extracted) = read {
                prop_assert!(!extracted.markdown.contains("secret"), "{}", extracted.markdown);
                prop_assert!(!extracted.markdown.contains("javascript:"), "{}", extracted.markdown);
            }
        }
    }
}
