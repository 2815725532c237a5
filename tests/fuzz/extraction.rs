//! Pages and PDFs. Pages are read in this process, where a panic is seen; PDFs in the worker, because their library may loop.

use std::time::Duration;

use bytes::Bytes;
use extract::{ExtractError, ExtractSettings, Extractor, RawContent, WorkerCommand, extract};

#[test]
fn html_soak() {
    let words = &[
        "<p>",
        "</p>",
        "<b>",
        "<i>",
        "<a href=\"",
        "javascript:x",
        "<table>",
        "<tr><td>",
        "<select>",
        "<template>",
        "<svg>",
        "<math>",
        "<style>",
        "<title>",
        "<script>",
        "</script>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "&#x",
        "&amp",
        "<base href=\"//[\">",
        "<plaintext>",
        "<body a=1>",
        "<html b>",
        "<frameset>",
        "<foreignObject>",
        "\0",
        "\u{feff}",
        "<li>",
        "<pre>\n",
        "<meta charset=utf-16>",
        "<br/>",
        "<h1>",
        "<ol start=-9>",
    ];
    let settings = ExtractSettings { nodes_max: 5000, ..ExtractSettings::default() };
    fuzz::run("html", words, |page| {
        match extract("text/html", None, page, Some("https://example.com/a/b"), &settings) {
            Ok(extracted) => assert!(!extracted.markdown.contains("](javascript:"), "{}", extracted.markdown),
            Err(ExtractError::Failed(why)) => panic!("the library gave up: {why}"),
            Err(_) => {}
        }
    });
}

#[test]
fn pdf_soak() {
    let words = &[
        "obj",
        "endobj",
        "stream",
        "endstream",
        "<<",
        ">>",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        "/Type",
        "/Length 0",
        "/Filter/FlateDecode",
        "/Kids[2 0 R]",
        "1 0 R",
        "2 0 R",
        "5 0 R",
        "99999999",
        "-1",
        "xref",
        "trailer",
        "startxref",
        "BT",
        "ET",
        "Tj",
        "TJ",
        "q",
        "Q",
        "cm",
        "Do",
        "/ToUnicode 4 0 R",
        "/Encoding/Identity-H",
        "/Subtype/Type0",
        "/Subtype/Type3",
        "/Prev 0",
        "/Encrypt<<>>",
    ];
    let program = env!("CARGO_BIN_EXE_attache").into();
    let command = WorkerCommand { program, args: vec!["extract-worker".into()] };
    let settings = ExtractSettings { timeout: Duration::from_secs(5), ..ExtractSettings::default() };
    let extractor = Extractor::new(command, settings.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    fuzz::run("pdf", words, |file| {
        let body = Bytes::copy_from_slice(file);
        let source = RawContent { media_type: "application/pdf".into(), charset: None, url: None, body };
        // Extraction may fail with any error, but it ends, and returns only text.
        let read = runtime.block_on(extractor.extract(source, &"account".parse().unwrap()));
        match read {
            Ok(extracted) => {
                assert!(extracted.markdown.len() <= settings.markdown_bytes_max);
                assert!(!extracted.markdown.contains('\0'));
            }
            Err(error) => assert!(error.to_string().len() < 500, "{error}"),
        }
    });
}
