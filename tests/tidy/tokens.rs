//! Rust source as tokens, as far as these tests need it: identifiers, `::`, and single characters. Comments are left out; a string is the
//! token `"`.

/// The tokens of a source file, without the modules under `#[cfg(test)]`.
pub fn tokens(source: &str) -> Vec<String> {
    without_tests(&all(source))
}

fn all(source: &str) -> Vec<String> {
    let text: Vec<char> = source.chars().collect();
    let at = |place: usize| text.get(place).copied().unwrap_or_default();
    let mut tokens = Vec::new();
    let mut place = 0;
    while place < text.len() {
        let letter = at(place);
        if letter == '/' && at(place + 1) == '/' {
            place += text[place..].iter().take_while(|letter| **letter != '\n').count();
        } else if letter == '/' && at(place + 1) == '*' {
            let end = (place + 2..text.len()).find(|end| at(*end) == '*' && at(end + 1) == '/');
            place = end.map_or(text.len(), |end| end + 2);
        } else if let Some(end) = string_end(&text, place) {
            tokens.push("\"".to_owned());
            place = end;
        } else if letter.is_alphanumeric() || letter == '_' {
            let length = text[place..].iter().take_while(|letter| letter.is_alphanumeric() || **letter == '_').count();
            tokens.push(text[place..place + length].iter().collect());
            place += length;
        } else if letter == ':' && at(place + 1) == ':' {
            tokens.push("::".to_owned());
            place += 2;
        } else {
            tokens.extend((!letter.is_whitespace()).then(|| letter.to_string()));
            place += 1;
        }
    }
    tokens
}

/// Where the string or character literal ends that begins here.
fn string_end(text: &[char], place: usize) -> Option<usize> {
    let at = |place: usize| text.get(place).copied().unwrap_or_default();
    let prefix = match (at(place), at(place + 1)) {
        ('b', 'r') => 2,
        ('r' | 'b', _) => 1,
        _ => 0,
    };
    let begins_word = place > 0 && (at(place - 1).is_alphanumeric() || at(place - 1) == '_');
    if prefix > 0 && begins_word {
        return None;
    }
    let hashes = text[(place + prefix).min(text.len())..].iter().take_while(|letter| **letter == '#').count();
    let quote = place + prefix + hashes;
    let is_raw = prefix > 0 && (at(place) == 'r' || at(place + 1) == 'r');
    if is_raw && at(quote) == '"' {
        let closes = |end: &usize| at(*end) == '"' && (1..=hashes).all(|offset| at(end + offset) == '#');
        return (quote + 1..text.len()).find(closes).map(|end| end + 1 + hashes);
    }
    if hashes > 0 || is_raw {
        return None;
    }
    let delimiter = at(quote);
    // A lifetime has a quote too, but none at its end.
    let is_character = delimiter == '\'' && (at(quote + 1) == '\\' || at(quote + 2) == '\'');
    if delimiter != '"' && !is_character {
        return None;
    }
    let mut end = quote + 1;
    while end < text.len() && at(end) != delimiter {
        end += if at(end) == '\\' { 2 } else { 1 };
    }
    Some(end + 1)
}

/// Where the group ends that this bracket opens: the place after its closing bracket.
pub fn group_end(tokens: &[String], open: usize) -> usize {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}

fn without_tests(tokens: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut place = 0;
    while place < tokens.len() {
        let is = |offset: usize, expected: &str| tokens.get(place + offset).is_some_and(|token| token == expected);
        if is(0, "#") && is(1, "[") && is(2, "cfg") {
            let end = group_end(tokens, place + 1);
            let tests = tokens[place..end].iter().any(|token| token == "test")
                && !tokens[place..end].iter().any(|token| token == "not");
            let mut item = end;
            while tokens.get(item).is_some_and(|token| token == "#") {
                item = group_end(tokens, item + 1);
            }
            if tests
                && tokens.get(item).is_some_and(|token| token == "mod")
                && tokens.get(item + 2).is_some_and(|token| token == "{")
            {
                place = group_end(tokens, item + 2);
                continue;
            }
        }
        kept.push(tokens[place].clone());
        place += 1;
    }
    kept
}

#[test]
fn comments_strings_and_tests_are_left_out() {
    let source = r##"
        // use crate::a;
        use crate::b::{self, c as d}; /* use crate::e; */
        const TEXT: &str = "use crate::f; \" \\";
        const RAW: &[u8] = br#"use "crate::g";"#;
        fn h<'a>(i: &'a str) -> char { '"' }
        #[cfg(test)]
        #[expect(dead_code)]
        mod tests { use crate::j; }
    "##;
    let found = tokens(source).join(" ");
    assert_eq!(
        found,
        "use crate :: b :: { self , c as d } ; const TEXT : & str = \" ; const RAW : & [ u8 ] = \" ; \
         fn h < ' a > ( i : & ' a str ) - > char { \" }"
    );
}
