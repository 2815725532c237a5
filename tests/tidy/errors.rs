//! Errors keep their causes: a message does not repeat its source, a log line prints the whole chain, and no failed conversion becomes a
//! default value in silence.

use super::tokens::{group_end, tokens};
use crate::{product_sources, relative};

/// Conversions of data that may use the default value on failure: the expressions of each reason. May only get shorter.
const DEFAULTS: &[(&str, &[&str])] = &[
    (
        "strings, numbers and lists of them always serialise",
        &[
            "serde_json::to_string(&begins)",
            "serde_json::to_string(&missing)",
            "serde_json::to_string(&numbers)",
            "serde_json::to_string(&pairs)",
            "serde_json::to_string(&recorders)",
            "serde_json::to_string(&sources)",
            "serde_json::to_string(&stems)",
            "serde_json::to_string(computers)",
            "serde_json::to_string(senders)",
            "serde_json::to_string(sources)",
            "serde_json::to_string(new.spaces)",
            "serde_json::to_string(spaces)",
        ],
    ),
    (
        "types of this repository with text keys always serialise",
        &[
            "serde_json::to_string(&halt)",
            "serde_json::to_string(&line)",
            "serde_json::to_string(&note)",
            "serde_json::to_string(line)",
            "serde_json::to_string(&settings)",
            "serde_json::to_string(outcome)",
            "serde_json::to_string(settings)",
            "serde_json::to_string(value)",
            "serde_json::to_string(verdict)",
            "serde_json::to_value(Settings::default())",
            "serde_json::to_value(entries)",
            "serde_json::to_value(schema)",
            "serde_json::to_vec(&errand)",
            "serde_json::to_vec(body)",
        ],
    ),
    ("texts without nesting are always a query", &["serde_urlencoded::to_string(self)"]),
    ("an unreadable form has no grant type, which is refused", &["serde_urlencoded::from_bytes(&body)"]),
    (
        "a body that is no object has no members, which is refused",
        &["serde_json::from_slice(body).ok().and_then(Members::of)"],
    ),
    (
        "the example is sealed in the same expression",
        &["serde_json::from_slice(&seal(members,&Position::genesis(0)).body)"],
    ),
];

/// Messages that repeat their source. `domain::reasons` prints the chain of causes where an error leaves the program.
const REPEATS_MAX: usize = 0;

/// One `#[error("…")]` with the item that it belongs to.
struct Message {
    text: String,
    item: String,
}

fn messages(source: &str) -> Vec<Message> {
    let mut found = Vec::new();
    for (start, _) in source.match_indices("#[error(\"") {
        let rest = &source[start + "#[error(\"".len()..];
        let Some(end) = rest.find("\")]").or_else(|| rest.find(")]")) else { continue };
        let after = &rest[end..];
        // The item ends with its fields, or with a comma if it has none.
        let item_end = after.find("#[error(").unwrap_or(after.len());
        found.push(Message { text: rest[..end].to_owned(), item: after[..item_end].to_owned() });
    }
    found
}

/// The first group of brackets of an item: its fields.
fn fields(item: &str) -> &str {
    let body = item.trim_start_matches(|letter| letter != ']').trim_start_matches(']');
    // Attributes and comments between the message and the item.
    let lines = body
        .lines()
        .skip_while(|line| line.trim().is_empty() || line.trim().starts_with("//") || line.trim().starts_with('#'));
    let Some(first) = lines.clone().next() else { return "" };
    let start = first.as_ptr() as usize - body.as_ptr() as usize;
    let body = &body[start..];
    let Some(open) = body.find(['(', '{', ',', ';']).filter(|open| body[*open..].starts_with(['(', '{'])) else {
        return "";
    };
    let close = if body[open..].starts_with('(') { ')' } else { '}' };
    let mut depth = 0;
    for (place, letter) in body[open..].char_indices() {
        if "([{".contains(letter) {
            depth += 1;
        } else if ")]}".contains(letter) {
            depth -= 1;
        }
        if depth == 0 && letter == close {
            return &body[open + 1..open + place];
        }
    }
    ""
}

/// The names or positions of the fields that are the source.
fn source_names(fields: &str) -> Vec<String> {
    let (mut parts, mut depth, mut part) = (Vec::new(), 0_i32, String::new());
    for letter in fields.chars() {
        depth += i32::from("([{<".contains(letter)) - i32::from(")]}>".contains(letter));
        if letter == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(letter);
        }
    }
    parts.push(part);
    let name = |(position, part): (usize, &String)| {
        let code: String = part.lines().filter(|line| !line.trim().starts_with("//")).collect::<Vec<_>>().join("\n");
        let named = code.rsplit(']').next().unwrap_or_default().split(':').next().unwrap_or_default().trim();
        let named =
            named.trim_start_matches("pub(crate)").trim_start_matches("pub(super)").trim_start_matches("pub").trim();
        let is_named = code.contains(": ") && named.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        let name = if is_named { named.to_owned() } else { position.to_string() };
        (code.contains("#[source]") || code.contains("#[from]") || name == "source").then_some(name)
    };
    parts.iter().enumerate().filter_map(name).collect()
}

#[test]
fn a_message_does_not_repeat_its_source() {
    let mut faults = Vec::new();
    for path in product_sources() {
        let source = std::fs::read_to_string(&path).unwrap();
        for message in messages(&source) {
            for name in source_names(fields(&message.item)) {
                let shown = ["}", ":"].iter().any(|end| message.text.contains(&format!("{{{name}{end}")));
                // Arguments after the text, as in `#[error("{}", source)]`.
                let as_argument = message.text.split("\", ").nth(1).is_some_and(|arguments| {
                    arguments
                        .split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
                        .any(|word| word == name)
                });
                if shown || as_argument {
                    faults.push(format!("{}: #[error(\"{}\")]", relative(&path), message.text));
                }
            }
        }
    }
    assert_eq!(
        faults.len(),
        REPEATS_MAX,
        "these messages repeat their source, which the chain of causes prints again:\n{}",
        faults.join("\n")
    );
}

#[test]
fn a_log_line_prints_the_whole_chain() {
    let mut faults = Vec::new();
    for path in product_sources() {
        let source = std::fs::read_to_string(&path).unwrap();
        for (at, line) in source.lines().enumerate() {
            for (_, rest) in line.match_indices("error = %").map(|(place, mark)| (place, &line[place + mark.len()..])) {
                let value = rest.split(',').next().unwrap_or_default();
                if !["reasons(", "causes("].iter().any(|adapter| value.contains(adapter)) {
                    faults.push(format!("{}:{}: error = %{value}", relative(&path), at + 1));
                }
            }
            // The short form of a field prints only the message of the error.
            if ["(%error,", " %error,", "(?error,", " ?error,"].iter().any(|field| line.contains(field)) {
                faults.push(format!("{}:{}: {}", relative(&path), at + 1, line.trim()));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "print an error with its causes, `error = domain::reasons(&error)`, so that its causes are in the line:\n{}",
        faults.join("\n")
    );
}

/// Start of the chain of calls that ends before `end`: `a::b(c).d()?` of the tokens.
fn chain_start(tokens: &[String], end: usize) -> usize {
    let mut start = end;
    while start > 0 {
        let token = tokens[start - 1].as_str();
        if matches!(token, ")" | "]" | "}") {
            let mut open = start - 1;
            let opens =
                |place: usize| matches!(tokens[place].as_str(), "(" | "[" | "{") && group_end(tokens, place) == start;
            while open > 0 && !opens(open) {
                open -= 1;
            }
            // A block starts a separate chain.
            if tokens[open] == "{" {
                return start;
            }
            start = open;
        } else if token == ">" {
            let mut depth = 0_usize;
            let mut open = start - 1;
            loop {
                depth += usize::from(tokens[open] == ">");
                depth -= usize::from(tokens[open] == "<");
                if depth == 0 || open == 0 {
                    break;
                }
                open -= 1;
            }
            // `::<T>`, and not a comparison.
            if open == 0 || tokens[open - 1] != "::" {
                return start;
            }
            start = open;
        } else if matches!(token, "." | "::" | "?")
            || token.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
        {
            if matches!(token, "return" | "else" | "in" | "match" | "if" | "move") {
                return start;
            }
            start -= 1;
        } else {
            return start;
        }
    }
    start
}

#[test]
fn a_failed_conversion_is_no_default() {
    let mut faults = Vec::new();
    for path in product_sources() {
        let tokens = tokens(&std::fs::read_to_string(&path).unwrap());
        for end in (1..tokens.len()).filter(|end| tokens[*end] == "unwrap_or_default" && tokens[end - 1] == ".") {
            let chain = &tokens[chain_start(&tokens, end - 1)..end - 1];
            let library = chain.first().is_some_and(|first| {
                ["serde_json", "serde_urlencoded", "serde_json_canonicalizer", "toml"].contains(&first.as_str())
            });
            let parses = chain.windows(2).any(|pair| pair[0] == "." && pair[1] == "parse");
            let text = chain.concat();
            if (library || parses) && !DEFAULTS.iter().any(|(_, listed)| listed.contains(&text.as_str())) {
                faults.push(format!("{}: {text}", relative(&path)));
            }
        }
    }
    faults.sort();
    assert!(
        faults.is_empty(),
        "return the error, or list the expression with a reason in tests/tidy/errors.rs:\n{}",
        faults.join("\n")
    );
}

#[test]
fn a_source_is_found_by_its_attribute_or_name() {
    let source = r#"
        #[error("cannot read {name}: {source}")]
        Read { name: String, #[source] source: io::Error },
        #[error("{0}")]
        /// A cause.
        Other(#[from] OtherError),
        #[error("{0} of {1}")]
        Both(String, Vec<(u8, u8)>),
    "#;
    let found: Vec<Vec<String>> = messages(source).iter().map(|message| source_names(fields(&message.item))).collect();
    assert_eq!(found, [vec!["source".to_owned()], vec!["0".to_owned()], vec![]]);
    let code = tokens("let x = a + serde_json::from_str::<T>(&b(c)).ok().unwrap_or_default();");
    let end = code.iter().position(|token| token == "unwrap_or_default").unwrap();
    assert_eq!(code[chain_start(&code, end - 1)..end - 1].concat(), "serde_json::from_str::<T>(&b(c)).ok()");
}
