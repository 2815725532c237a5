//! Extraction in a real worker process: valid content is extracted, malicious content is stopped.

use std::time::Duration;

use bytes::Bytes;
use domain::ids::UserAccountId;
use domain::item::Fault;
use extract::{ExtractError, ExtractSettings, Extracted, Extractor, RawContent, WorkerCommand};

fn extractor(settings: ExtractSettings) -> Extractor {
    let program = env!("CARGO_BIN_EXE_extract-worker").into();
    Extractor::new(WorkerCommand { program, args: vec![] }, settings)
}

#[expect(clippy::unwrap_used, reason = "it is an account")]
fn account() -> UserAccountId {
    "account".parse().unwrap()
}

async fn read(media_type: &str, body: impl Into<Bytes>, settings: ExtractSettings) -> Result<Extracted, ExtractError> {
    let source = RawContent {
        media_type: media_type.into(),
        charset: Some("utf-8".into()),
        url: Some("https://example.com/boats".into()),
        body: body.into(),
    };
    extractor(settings).extract(source, &account()).await
}

#[tokio::test]
async fn a_page_is_read_in_a_process_of_its_own() {
    let body = "<title>All about boats and sails</title><p>Grüße an <a href=/sea>die See</a></p>";
    let extracted = read("text/html", body, ExtractSettings::default()).await.unwrap();
    assert_eq!(extracted.markdown, "Grüße an [die See](https://example.com/sea)");
    assert_eq!(extracted.title.as_deref(), Some("All about boats and sails"));
}

#[tokio::test]
async fn refusals_come_through() {
    for (media_type, body, fault) in [
        ("text/html", "<p></p>", Fault::EmptyContent),
        ("application/pdf", "%PDF-1.7 no", Fault::ExtractFailed),
        ("text/html", &*"<p>many words".repeat(100), Fault::TooLarge),
    ] {
        let settings = ExtractSettings { markdown_bytes_max: 1000, ..ExtractSettings::default() };
        assert_eq!(read(media_type, body.to_owned(), settings).await.unwrap_err().fault(), fault, "{media_type}");
    }
}

#[tokio::test]
async fn a_page_of_ten_mebibytes_ends_within_its_bounds() {
    // Large pages consist mostly of data in attributes.
    let paragraph = format!("<p data-x='{}'>Some words of a large page, <b>many</b> times.</p>\n", "x".repeat(1000));
    let body = paragraph.repeat(10 * 1024 * 1024 / paragraph.len());
    let settings = ExtractSettings { timeout: Duration::from_mins(1), ..ExtractSettings::default() };
    let markdown = read("text/html", body, settings).await.unwrap().markdown;
    assert!(markdown.matches("Some words of a large page, **many** times.").count() > 9000);
}

#[tokio::test]
async fn a_page_of_a_million_attributes_is_refused_and_costs_no_time() {
    let attributes = (0..1_000_000).map(|number| format!(" a{number}=1")).collect::<Vec<_>>().concat();
    let settings = ExtractSettings { timeout: Duration::from_mins(1), ..ExtractSettings::default() };
    for page in [format!("<p{attributes}>words"), format!("<p>words</p{attributes}"), "<body a=1>".repeat(400_000)] {
        let error = read("text/html", page, settings.clone()).await.err();
        assert_eq!(error, Some(ExtractError::TooManyAttributes(settings.attributes_max)));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_page_that_eats_memory_is_ended_by_the_system() {
    // The parser reopens unclosed elements in each paragraph, so that a few bytes become many nodes.
    let open = (0..400).map(|number| format!("<b id={number}>")).collect::<Vec<_>>().concat();
    let body = format!("<p>{open}{}", "<p>x".repeat(20_000));
    let unbounded = ExtractSettings {
        nodes_max: usize::MAX,
        memory_bytes_max: 256 * 1024 * 1024,
        timeout: Duration::from_mins(1),
        ..ExtractSettings::default()
    };
    let bounded = ExtractSettings { nodes_max: 20_000, ..unbounded.clone() };
    assert!(read("text/html", body.clone(), bounded).await.is_ok());
    let error = read("text/html", body, unbounded).await.err();
    assert!(matches!(&error, Some(ExtractError::Failed(why)) if why.contains("ended")), "{error:?}");
}
