//! Extracts the text of a PDF. The library panics and loops on some files, so outside of tests this runs in the worker
//! process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, Object, PlainTextOutput, output_doc};

use crate::error::{ExtractError, short};
use crate::text;

pub(super) fn read(body: &[u8]) -> Result<(Option<String>, String), ExtractError> {
    let read = catch_unwind(AssertUnwindSafe(|| parse(body)));
    let (title, text) =
        read.unwrap_or_else(|_| Err("the PDF library gave up".to_owned())).map_err(ExtractError::Failed)?;
    Ok((title, paragraphs(&text)))
}

fn parse(body: &[u8]) -> Result<(Option<String>, String), String> {
    let mut document = Document::load_mem(body).map_err(|error| short(&error.to_string()))?;
    if document.is_encrypted() {
        // Many PDFs are encrypted with an empty password, only to forbid printing.
        document.decrypt("").map_err(|_| "it is locked with a password".to_owned())?;
    }
    let mut text = String::new();
    output_doc(&document, &mut PlainTextOutput::new(&mut text)).map_err(|error| short(&error.to_string()))?;
    Ok((title(&document), text))
}

/// The title in the information dictionary (ISO 32000-1, section 14.3.3).
fn title(document: &Document) -> Option<String> {
    let information = match document.trailer.get(b"Info").ok()? {
        Object::Reference(id) => document.get_object(*id).ok()?.as_dict().ok()?,
        Object::Dictionary(dictionary) => dictionary,
        _ => return None,
    };
    let title = pdf_extract::decode_text_string(information.get(b"Title").ok()?).ok()?;
    // Default titles of word processors.
    let says_nothing = title.trim().is_empty() || title.trim().eq_ignore_ascii_case("untitled");
    Some(title).filter(|_| !says_nothing)
}

/// Trims lines and collapses runs of empty lines.
fn paragraphs(text: &str) -> String {
    let cleaned = text::clean(text);
    let mut out = String::with_capacity(cleaned.len());
    for line in cleaned.lines().map(str::trim) {
        if !line.is_empty() || !out.ends_with("\n\n") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handwritten PDF of one page with a valid cross-reference table.
    fn pdf(title: &str, line: &str) -> Vec<u8> {
        let content = format!("BT /F1 24 Tf 72 700 Td ({line}) Tj ET");
        let objects = [
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"
                .to_owned(),
            format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
            format!("<< /Title ({title}) >>"),
        ];
        let mut file = vec!["%PDF-1.4\n".to_owned()];
        let mut table = vec![format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1)];
        for (number, object) in objects.iter().enumerate() {
            table.push(format!("{:010} 00000 n \n", file.concat().len()));
            file.push(format!("{} 0 obj\n{object}\nendobj\n", number + 1));
        }
        let start = file.concat().len();
        file.append(&mut table);
        file.push(format!("trailer\n<< /Size {} /Root 1 0 R /Info 6 0 R >>\n", objects.len() + 1));
        file.push(format!("startxref\n{start}\n%%EOF\n"));
        file.concat().into_bytes()
    }

    #[test]
    fn a_pdf_has_its_text_and_its_title() {
        let (title, text) = read(&pdf("On boats", "Sails and oars")).unwrap();
        assert_eq!((title.as_deref(), text.as_str()), (Some("On boats"), "Sails and oars"));
        assert_eq!(read(&pdf("untitled", "Sails")).unwrap().0, None);
    }

    #[test]
    fn broken_files_are_errors() {
        let whole = pdf("On boats", "Sails and oars");
        for cut in (0..whole.len()).step_by(7) {
            let _ = read(&whole[..cut]);
            let mut damaged = whole.clone();
            damaged[cut] ^= 0x15;
            let _ = read(&damaged);
        }
        assert!(matches!(read(&whole[..whole.len() / 2]), Err(ExtractError::Failed(_))));
        assert!(matches!(read(b""), Err(ExtractError::Failed(_))));
    }

    #[test]
    fn empty_lines_count_once() {
        assert_eq!(paragraphs("\n\na\nb \n\n\n\nc\u{c}d\n"), "a\nb\n\nc\n\nd");
    }
}
