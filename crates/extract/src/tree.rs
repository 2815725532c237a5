//! Parses a page within limits.
//!
//! HTML parsers are quadratic in the depth of the tree and in the attributes of an element. The page is therefore
//! parsed in small steps, between which depth and size of the tree and the attributes of an unfinished tag are checked.
//! A page is truncated where it gets too deep or too large, and rejected if an element has too many attributes.

use std::cell::Cell;

use dom_query::{Document, NodeRef};
use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, StartTag, Tag, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts, TreeSink};

use crate::error::ExtractError;
use crate::settings::ExtractSettings;

/// Bytes between two checks. The shortest start tag has three bytes, so the depth grows by at most about 700 per step.
const STEP_BYTES: usize = 2048;

/// Parses `html` into a tree.
pub(super) fn parse(html: &str, settings: &ExtractSettings) -> Result<Document, ExtractError> {
    let too_many = || Err(ExtractError::TooManyAttributes(settings.attributes_max));
    let tokenizer = Tokenizer::new(CountingBuilder::new(settings.attributes_max), TokenizerOpts::default());
    let (input, sink) = (BufferQueue::default(), &tokenizer.sink);
    let mut open_tag = OpenTag::default();
    let mut unseen = 0;
    for piece in pieces(html) {
        let tokens_before = sink.tokens.get();
        feed(&tokenizer, &input, piece);
        // An unfinished tag started in this piece, or in an earlier one after which no token was completed.
        let continues = sink.tokens.get() == tokens_before;
        open_tag.read(piece, continues);
        if sink.has_too_many.get() || (continues && open_tag.attributes > settings.attributes_max) {
            return too_many();
        }
        unseen += piece.len();
        if unseen >= STEP_BYTES {
            unseen = 0;
            let tree = &sink.inner.sink.tree;
            if tree.len() > settings.nodes_max || newest_depth(&tree.root()) > settings.depth_max {
                break;
            }
        }
    }
    tokenizer.end();
    if tokenizer.sink.has_too_many.get() {
        return too_many();
    }
    Ok(tokenizer.sink.inner.sink.finish())
}

fn feed(tokenizer: &Tokenizer<CountingBuilder>, input: &BufferQueue, piece: &str) {
    input.push_back(StrTendril::from(piece));
    // Scripts are not run and the encoding is known, so the tokenizer can always resume.
    while !matches!(tokenizer.feed(input), TokenizerResult::Done) {}
}

/// Splits `html` into pieces of at most one step, each with its only `<` at the start.
fn pieces(html: &str) -> impl Iterator<Item = &str> {
    let mut rest = html;
    std::iter::from_fn(move || {
        let step = &rest[..rest.floor_char_boundary(STEP_BYTES.min(rest.len()))];
        let end = step.bytes().skip(1).position(|byte| byte == b'<').map_or(step.len(), |at| at + 1);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Depth of the parser's current node, the last child of the last child.
fn newest_depth(root: &NodeRef<'_>) -> usize {
    std::iter::successors(root.last_child(), NodeRef::last_child).count()
}

/// A tree builder that counts tokens and attributes.
struct CountingBuilder {
    inner: TreeBuilder<<Document as TreeSink>::Handle, Document>,
    attributes_max: usize,
    /// Number of tokens, without errors.
    tokens: Cell<usize>,
    /// Attributes of all `<html>` and `<body>` tags, which are merged into one element each.
    merged: Cell<usize>,
    has_too_many: Cell<bool>,
}

impl CountingBuilder {
    fn new(attributes_max: usize) -> Self {
        let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
        let inner = TreeBuilder::new(Document::default(), options);
        Self { inner, attributes_max, tokens: Cell::new(0), merged: Cell::new(0), has_too_many: Cell::new(false) }
    }

    fn count(&self, tag: &Tag) {
        let is_merged = tag.kind == StartTag && matches!(&*tag.name, "html" | "body");
        if is_merged {
            self.merged.set(self.merged.get() + tag.attrs.len());
        }
        if tag.attrs.len().max(self.merged.get()) > self.attributes_max {
            self.has_too_many.set(true);
        }
    }
}

impl TokenSink for CountingBuilder {
    type Handle = <Document as TreeSink>::Handle;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Self::Handle> {
        match &token {
            Token::ParseError(_) => {}
            Token::TagToken(tag) => {
                self.tokens.set(self.tokens.get() + 1);
                self.count(tag);
                if self.has_too_many.get() {
                    return TokenSinkResult::Continue;
                }
            }
            _ => self.tokens.set(self.tokens.get() + 1),
        }
        self.inner.process_token(token, line)
    }

    fn end(&self) {
        self.inner.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.inner.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Counts the attributes of an unfinished tag (HTML, sections 13.2.5.6 to 13.2.5.40).
#[derive(Debug, Default)]
struct OpenTag {
    place: TagState,
    attributes: usize,
    /// Whether the last piece completed no token, so that the next one continues it.
    is_pending: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum TagState {
    #[default]
    Outside,
    Opened,
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Quoted(u8),
    Unquoted,
}

impl OpenTag {
    fn read(&mut self, piece: &str, continues: bool) {
        let begins = !(continues && self.is_pending);
        let after_bracket = piece.strip_prefix('<').filter(|_| begins);
        if begins {
            let place = if after_bracket.is_some() { TagState::Opened } else { TagState::Outside };
            *self = Self { place, ..Self::default() };
        }
        self.is_pending = continues;
        for byte in after_bracket.unwrap_or(piece).bytes() {
            self.place = self.after(byte);
        }
    }

    fn after(&mut self, byte: u8) -> TagState {
        match (self.place, byte) {
            (TagState::Opened, b'/') => TagState::Opened,
            (TagState::Opened, byte) if byte.is_ascii_alphabetic() => TagState::TagName,
            (TagState::Quoted(quote), byte) if quote == byte => TagState::BeforeName,
            (quoted @ TagState::Quoted(_), _) => quoted,
            (TagState::Outside | TagState::Opened, _) | (_, b'>') => TagState::Outside,
            (TagState::BeforeValue, quote @ (b'"' | b'\'')) => TagState::Quoted(quote),
            (TagState::Name | TagState::AfterName, b'=') => TagState::BeforeValue,
            (TagState::Name, byte) if byte.is_ascii_whitespace() => TagState::AfterName,
            (place @ (TagState::AfterName | TagState::BeforeValue), byte) if byte.is_ascii_whitespace() => place,
            (TagState::Unquoted | TagState::TagName | TagState::BeforeName, byte) if byte.is_ascii_whitespace() => {
                TagState::BeforeName
            }
            (TagState::TagName | TagState::BeforeName | TagState::Name | TagState::AfterName, b'/') => {
                TagState::BeforeName
            }
            (TagState::BeforeValue | TagState::Unquoted, _) => TagState::Unquoted,
            (TagState::TagName, _) => TagState::TagName,
            (TagState::Name, _) => TagState::Name,
            (TagState::BeforeName | TagState::AfterName, _) => {
                self.attributes += 1;
                TagState::Name
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(count: usize) -> String {
        (0..count).map(|number| format!(" a{number}=1")).collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_tree_stays_within_bounds() {
        let settings = ExtractSettings { nodes_max: 1000, depth_max: 50, ..ExtractSettings::default() };
        let wide = parse(&"<p>x".repeat(100_000), &settings).unwrap();
        assert!(wide.tree.len() < 1000 + STEP_BYTES);
        let deep = parse(&"<i>".repeat(100_000), &settings).unwrap();
        assert!(newest_depth(&deep.tree.root()) < 50 + STEP_BYTES);
        let whole = parse(&"<p>é</p>".repeat(100), &ExtractSettings::default()).unwrap();
        assert_eq!(whole.text().chars().filter(|character| *character == 'é').count(), 100);
    }

    #[test]
    fn the_attributes_of_an_element_are_bounded() {
        let settings = ExtractSettings { attributes_max: 100, ..ExtractSettings::default() };
        let (few, many) = (attributes(100), attributes(101));
        for honest in [
            format!("<p{few}>x"),
            format!("<p{few}>x<p{few}>y"),
            format!("<p a=\"{many}\" b='{many}'>x"),
            format!("<!-- <p{many}> -->x"),
            format!("<script>if (a <b{many}) </script>x"),
            format!("<style><b{many}</style>x"),
            format!("<textarea><b{many}></textarea>x"),
            format!("<p{few}><title><b{many}></title>"),
            format!("a < b {many} x"),
            format!("<p><![CDATA[<b{many}]]>x"),
        ] {
            assert!(parse(&honest, &settings).is_ok(), "{honest}");
        }
        for hostile in [
            format!("<p{many}>"),
            format!("<p{many}"),
            format!("</p{many}"),
            format!("<{many}<p{many}"),
            format!("<p a='<b' {many}"),
            format!("<p {}", "a/".repeat(2000)),
            format!("<p {}", "a=b\tc=\"<\"d='>'e=>".replace('>', "").repeat(2000)),
            format!("<svg><style><p{many}>"),
            format!("<svg><title><p{many}"),
            format!("<html{few}><body{few}>"),
            "<body a>".to_owned() + &(0..101).map(|number| format!("<body b{number}>")).collect::<Vec<_>>().concat(),
        ] {
            let parsed = parse(&hostile, &settings).err();
            assert_eq!(parsed, Some(ExtractError::TooManyAttributes(100)), "{hostile}");
        }
    }

    #[test]
    fn a_tag_of_which_no_end_is_seen_is_left_early() {
        // The parser stops at the limit, regardless of the length of the input.
        let settings = ExtractSettings::default();
        let page = format!("<p{}", attributes(1_000_000));
        assert_eq!(parse(&page, &settings).err(), Some(ExtractError::TooManyAttributes(settings.attributes_max)));
    }

    #[test]
    fn pieces_are_the_page() {
        for page in ["", "<", "a<b", "<<<é<", &"é".repeat(5000), &"<p>é ".repeat(5000)] {
            assert_eq!(pieces(page).collect::<String>(), *page);
            assert!(
                pieces(page).all(|piece| piece.len() <= STEP_BYTES && !piece.bytes().skip(1).any(|byte| byte == b'<'))
            );
        }
    }
}
