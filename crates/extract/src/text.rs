//! Extracts plain text, Markdown, JSON and XML.

use crate::error::ExtractError;

/// A file with more than one replacement or control character per this many characters is binary.
const FOREIGN_ONE_IN: usize = 100;

/// Maximum indentation of JSON, so that deep nesting does not inflate the text.
const INDENT_MAX: usize = 16;

/// Plain text with line feeds and without control characters.
pub(super) fn plain(text: &str) -> Result<String, ExtractError> {
    if is_binary(text) {
        return Err(ExtractError::Failed("it is binary, not text".to_owned()));
    }
    Ok(clean(text).trim_matches('\n').to_owned())
}

/// Markdown without front matter.
pub(super) fn markdown(text: &str) -> Result<String, ExtractError> {
    let text = plain(text)?;
    let body = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).map(|(_, body)| body);
    Ok(body.map_or_else(|| text.clone(), |body| body.trim_matches('\n').to_owned()))
}

/// JSON with one member or element per line. Invalid JSON keeps all its tokens in order.
pub(super) fn json(text: &str) -> Result<String, ExtractError> {
    let text = plain(text)?;
    let mut pretty = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut characters = text.chars().peekable();
    let line = |pretty: &mut String, depth: usize| {
        pretty.push('\n');
        pretty.extend(std::iter::repeat_n("  ", depth.min(INDENT_MAX)));
    };
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                pretty.push('"');
                while let Some(inner) = characters.next() {
                    pretty.push(inner);
                    match inner {
                        '"' => break,
                        '\\' => pretty.extend(characters.next()),
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                pretty.push(character);
                while characters.next_if(|next| next.is_whitespace()).is_some() {}
                let end = if character == '{' { '}' } else { ']' };
                if characters.next_if_eq(&end).is_some() {
                    pretty.push(end);
                } else {
                    depth += 1;
                    line(&mut pretty, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut pretty, depth);
                pretty.push(character);
            }
            ',' => {
                pretty.push(',');
                line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            // White space between values matters only in invalid JSON, such as NDJSON.
            '\n' if depth == 0 => pretty.push('\n'),
            blank if blank.is_whitespace() => {
                let is_word = |neighbour: char| neighbour.is_alphanumeric() || neighbour == '"';
                if pretty.ends_with(is_word) && characters.peek().is_some_and(|next| is_word(*next)) {
                    pretty.push(' ');
                }
            }
            other => pretty.push(other),
        }
    }
    Ok(pretty)
}

/// The text of XML elements, one paragraph each, and the first title. Also strips escaped markup, as in feeds.
pub(super) fn xml(text: &str) -> Result<(Option<String>, String), ExtractError> {
    if is_binary(text) {
        return Err(ExtractError::Failed("it is binary, not text".to_owned()));
    }
    let (title, outer) = strip(text);
    let inner = if outer.contains("</") || outer.contains("/>") { strip(&outer).1 } else { outer };
    let lines: Vec<String> = inner.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let paragraphs: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
    Ok((title, clean(&paragraphs.join("\n\n"))))
}

fn strip(text: &str) -> (Option<String>, String) {
    let mut out = String::with_capacity(text.len() / 2);
    let mut title = None;
    let mut title_start = None;
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        decode_entities(&rest[..start], &mut out);
        rest = &rest[start..];
        if let Some(data) = rest.strip_prefix("<![CDATA[") {
            let (data, after) = data.split_once("]]>").unwrap_or((data, ""));
            out.push_str(data);
            rest = after;
            continue;
        }
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        if !rest[1..].starts_with(|next: char| next.is_alphabetic() || matches!(next, '/' | '?' | '!' | '_')) {
            out.push('<');
            rest = &rest[1..];
            continue;
        }
        let (tag, after) = rest[1..].split_once('>').unwrap_or((&rest[1..], ""));
        rest = after;
        let name =
            tag.split(|character: char| character.is_whitespace() || character == '/').next().unwrap_or_default();
        if (name.eq_ignore_ascii_case("script") || name.eq_ignore_ascii_case("style")) && !tag.ends_with('/') {
            rest = skip_raw(rest, name);
        }
        match tag {
            "/title" => title = title.or_else(|| title_start.take().map(|start| out[start..].trim().to_owned())),
            _ if name == "title" && title_start.is_none() => title_start = Some(out.len() + 1),
            _ => {}
        }
        out.push('\n');
    }
    decode_entities(rest, &mut out);
    (title.filter(|title| !title.is_empty()), out)
}

/// The text after the end tag of a script or style element.
fn skip_raw<'t>(text: &'t str, name: &str) -> &'t str {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("</") {
        if after.get(..name.len()).is_some_and(|end| end.eq_ignore_ascii_case(name)) {
            return after.split_once('>').map_or("", |(_, after)| after);
        }
        rest = after;
    }
    ""
}

fn decode_entities(text: &str, out: &mut String) {
    /// Maximum length of an entity's name, such as `#x10FFFF`.
    const NAME_MAX: usize = 8;
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let name = rest.as_bytes().iter().take(NAME_MAX + 2).position(|byte| *byte == b';').map(|end| &rest[1..end]);
        if let Some(character) = name.and_then(entity) {
            out.push(character);
            rest = rest.split_once(';').map_or("", |(_, after)| after);
        } else {
            out.push('&');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        _ => {
            let number = name.strip_prefix('#')?;
            let hex = number.strip_prefix(['x', 'X']).map(|hex| u32::from_str_radix(hex, 16));
            char::from_u32(hex.unwrap_or_else(|| number.parse()).ok()?)
        }
    }
}

/// Converts line ends to line feeds and removes control characters.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' => {
                characters.next_if_eq(&'\n');
                out.push('\n');
            }
            '\n' | '\t' => out.push(character),
            '\u{c}' => out.push_str("\n\n"),
            other if other.is_control() || other == '\u{feff}' => {}
            other => out.push(other),
        }
    }
    out
}

fn is_binary(text: &str) -> bool {
    let foreign = |character: &char| {
        *character == char::REPLACEMENT_CHARACTER
            || (character.is_control() && !matches!(character, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}'))
    };
    text.chars().filter(foreign).count() * FOREIGN_ONE_IN > text.chars().count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_text_loses_only_what_cannot_be_read() {
        let text = format!("\u{feff}one\r\n\ttwo\rthree\0{}", "x".repeat(200));
        assert_eq!(plain(&text).unwrap(), format!("one\n\ttwo\nthree{}", "x".repeat(200)));
        assert!(plain("\u{fffd}\0\u{1}ab").is_err());
    }

    #[test]
    fn front_matter_is_not_content() {
        assert_eq!(markdown("---\ntitle: x\n---\n\n# Hello\n").unwrap(), "# Hello");
        assert_eq!(markdown("---\nnot closed\n").unwrap(), "---\nnot closed");
    }

    #[test]
    fn json_is_indented_and_never_lost() {
        assert_eq!(
            json(r#"{"b": {}, "a":[true , "x, {y}\""]}"#).unwrap(),
            "{\n  \"b\": {},\n  \"a\": [\n    true,\n    \"x, {y}\\\"\"\n  ]\n}"
        );
        assert_eq!(json("{\"a\":1}\n{\"a\":2}").unwrap(), "{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}");
        assert!(json(&"[".repeat(100_000)).unwrap().len() < 100_000 * 40);
        assert_eq!(json("{\"open").unwrap(), "{\n  \"open");
    }

    #[test]
    fn of_xml_the_text_remains() {
        let feed = "<?xml version='1.0'?><rss><channel><title>My &#x26; news</title><!-- no --><item><title>One</title>\
             <description>&lt;p&gt;Hi <b>there</b>&lt;/p&gt;</description><content><![CDATA[<em>a</em>\n & b]]></content>\
             <script>alert(1)</script></item></channel></rss>";
        let (title, text) = xml(feed).unwrap();
        assert_eq!(title.as_deref(), Some("My & news"));
        assert_eq!(text, "My & news\n\nOne\n\nHi\n\nthere\n\na\n\n& b");
        for broken in ["<", "a < b & c", "<a", "<![CDATA[x", "<!-- x", "<script>x", "&#99999999;", "&;"] {
            let (_, text) = xml(broken).unwrap();
            assert!(text.len() <= broken.len(), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn every_word_of_json_remains(words in prop::collection::vec("[a-z0-9]{1,5}", 1..8)) {
            let value = serde_json::json!({"k": words, "n": {"m": [[]]}});
            let pretty = json(&value.to_string()).unwrap();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&pretty).unwrap(), value);
        }

        #[test]
        fn xml_never_panics(text in "(<|>|&|;|/|!|-|\\[CDATA\\[|\\]\\]|script|title|#x?[0-9]|\\PC){0,60}") {
            let _ = xml(&text);
        }
    }
}
