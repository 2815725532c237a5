//! Rust source as tokens, as far as these tests need it: identifiers, numbers, `::`, and single characters. Comments are left out; the text
//! of a string or a character is replaced by the token `"`.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The tokens of a source file, without the modules under `#[cfg(test)]`.
pub fn tokens(source: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    flatten(source.parse().unwrap(), &mut tokens);
    without_tests(&tokens)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<String>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(open.to_owned());
                flatten(group.stream(), tokens);
                tokens.push(close.to_owned());
            }
            TokenTree::Ident(name) => tokens.push(name.to_string()),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                tokens.push(if text.contains(['"', '\'']) { "\"".to_owned() } else { text });
            }
            TokenTree::Punct(sign) => {
                let is_path = |next: &TokenTree| matches!(next, TokenTree::Punct(next) if next.as_char() == ':');
                let path =
                    sign.as_char() == ':' && sign.spacing() == Spacing::Joint && trees.next_if(is_path).is_some();
                tokens.push(if path { "::".to_owned() } else { sign.to_string() });
            }
        }
    }
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
