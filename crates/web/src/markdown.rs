//! Markdown as HTML for a page.
//!
//! The text of a memory is foreign: a web page or a program wrote it. The output contains only elements that this file writes, and every text
//! and attribute is escaped. HTML in the text is shown as text; pictures are named and not loaded; links lead to http, https and mailto only.
//! A document of this project is written the same way, with its own links and with an id for each heading.

use std::fmt::Write;

use domain::foreign::visible;
use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};
use url::Url;

/// Maximum depth of nested elements. Deeper content is shown without its element.
const DEPTH_MAX: usize = 24;

/// The HTML of a text. Its headings start below the `h1` of the page and skip no level.
pub(crate) fn html(markdown: &str) -> String {
    let mut page = Writer::default();
    for event in parser(markdown) {
        page.event(event);
    }
    page.html
}

/// A document of this project.
#[derive(Debug)]
pub(crate) struct Document {
    /// The HTML below the title.
    pub html: String,
    /// The text below the title, then one section for each further heading.
    pub sections: Vec<DocumentSection>,
}

/// A heading of a document and the text up to the next one.
#[derive(Debug)]
pub(crate) struct DocumentSection {
    /// The heading; for the first section the title of the document.
    pub heading: String,
    /// The id of the heading.
    pub anchor: String,
    /// Level of the heading: 1 for the title.
    pub level: usize,
    /// The words without their marks.
    pub text: String,
}

/// A document that begins with its title. `link` returns the target of a link; a link without a target is shown as text.
pub(crate) fn document(markdown: &str, link: impl Fn(&str) -> Option<String>) -> Document {
    let mut page = Writer::default();
    let mut sections: Vec<DocumentSection> = Vec::new();
    let mut events = parser(markdown).peekable();
    while let Some(event) = events.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let level = level as usize;
                let inside = |event: &Event<'_>| !matches!(event, Event::End(TagEnd::Heading(_)));
                let inside: Vec<Event<'_>> = std::iter::from_fn(|| events.next_if(inside)).collect();
                let heading: String = inside.iter().filter_map(words_of).collect();
                let anchor = anchor(&heading);
                if sections.is_empty() {
                    events.next();
                } else {
                    page.heading(level.saturating_sub(1), Some(&anchor));
                    for event in inside {
                        page.event(event);
                    }
                }
                sections.push(DocumentSection { heading, anchor, level, text: String::new() });
            }
            Event::Start(Tag::Link { dest_url, .. }) => match link(&dest_url) {
                Some(target) => page.anchor(&target),
                None => page.push("", ""),
            },
            event => {
                if let Some(section) = sections.last_mut() {
                    section.text.push_str(words_of(&event).unwrap_or_default());
                }
                page.event(event);
            }
        }
    }
    for section in &mut sections {
        section.text = one_line(&section.text);
    }
    Document { html: page.html, sections }
}

/// The id of a heading: letters, digits, `-` and `_` in lower case, with `-` for each space, as sites that show repositories make it.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// The words of an event: its text, or the space that its element stands for.
fn words_of<'e>(event: &'e Event<'_>) -> Option<&'e str> {
    match event {
        Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => Some(text),
        Event::SoftBreak | Event::HardBreak | Event::Rule => Some(" "),
        Event::End(tag) if is_block(*tag) => Some(" "),
        _ => None,
    }
}

/// The words of a text without its marks, in one line: for excerpts.
pub(crate) fn plain(markdown: &str) -> String {
    let mut words = String::with_capacity(markdown.len());
    for event in parser(markdown) {
        words.push_str(words_of(&event).unwrap_or_default());
    }
    one_line(&words)
}

fn one_line(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn parser(markdown: &str) -> Parser<'_> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS)
}

fn is_block(tag: TagEnd) -> bool {
    !matches!(tag, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image)
}

/// Whether a link may be followed: an absolute URL of these schemes. A relative URL would lead to a page of this server.
///
/// A browser parses `https:account` on a page of https as a path (URL standard, state "scheme"), and elsewhere as a host. A URL is absolute
/// if it is the same on pages of both schemes.
fn is_followed(url: &str) -> bool {
    let on = |page: &str| Url::parse(page).and_then(|page| page.join(url)).ok();
    let is_known = |target: &Url| ["http", "https", "mailto"].contains(&target.scheme());
    let target = on("https://page.invalid/a/b").filter(is_known);
    target.is_some()
        && target == on("http://page.invalid/c/d")
        && !url.chars().any(|character| character.is_control() || character.is_whitespace())
}

#[derive(Default)]
struct Writer {
    html: String,
    /// The closing tags of the open elements; empty for an element that is not written.
    open: Vec<&'static str>,
    /// Level of the last heading.
    level: usize,
    /// How the columns of the open table are aligned, and the column of the next cell.
    columns: Vec<Alignment>,
    column: usize,
    /// Number of tables so far.
    tables: usize,
    in_head: bool,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(code) => {
                self.html.push_str("<code>");
                self.text(&code);
                self.html.push_str("</code>");
            }
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>\n"),
            Event::TaskListMarker(done) => self.html.push_str(if done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(name) | Event::InlineMath(name) | Event::DisplayMath(name) => self.text(&name),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let (begin, end): (&str, &'static str) = match tag {
            Tag::Paragraph => ("<p>", "</p>\n"),
            Tag::Heading { level, .. } => return self.heading(level as usize, None),
            Tag::BlockQuote(_) => ("<blockquote>\n", "</blockquote>\n"),
            // The language of the block is not shown.
            Tag::CodeBlock(_) => (
                "<pre tabindex=\"0\"><code>",
                "</code></pre>
",
            ),
            Tag::List(Some(first)) => return self.numbered(first),
            Tag::List(None) => ("<ul>\n", "</ul>\n"),
            Tag::Item => ("<li>", "</li>\n"),
            Tag::Table(columns) => return self.table(columns),
            Tag::TableHead => {
                (self.in_head, self.column) = (true, 0);
                ("<thead><tr>", "</tr></thead><tbody>\n")
            }
            Tag::TableRow => {
                self.column = 0;
                ("<tr>", "</tr>\n")
            }
            Tag::TableCell => return self.cell(),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<del>", "</del>"),
            Tag::Link { dest_url, .. } => return self.link(&dest_url),
            Tag::Image { .. } => ("<span class=\"muted\">[Picture: ", "]</span>"),
            _ => ("", ""),
        };
        self.push(begin, end);
    }

    /// Opens an element, unless it is too deep.
    fn push(&mut self, begin: &str, end: &'static str) {
        let is_shown = self.open.len() < DEPTH_MAX;
        self.html.push_str(if is_shown { begin } else { "" });
        self.open.push(if is_shown { end } else { "" });
    }

    fn end(&mut self, tag: TagEnd) {
        if tag == TagEnd::TableHead {
            self.in_head = false;
        }
        if let Some(end) = self.open.pop() {
            self.html.push_str(end);
        }
    }

    fn heading(&mut self, level: usize, id: Option<&str>) {
        const ENDS: [&str; 5] = ["</h2>\n", "</h3>\n", "</h4>\n", "</h5>\n", "</h6>\n"];
        self.level = level.clamp(1, ENDS.len()).min(self.level + 1);
        let mut begin = format!("<h{}", self.level + 1);
        if let Some(id) = id {
            begin.push_str(" id=\"");
            escape(&mut begin, id);
            begin.push('"');
        }
        begin.push('>');
        self.push(&begin, ENDS[self.level - 1]);
    }

    fn numbered(&mut self, first: u64) {
        let begin = if first == 1 { "<ol>\n".to_owned() } else { format!("<ol start=\"{first}\">\n") };
        self.push(&begin, "</ol>\n");
    }

    /// A table that can be scrolled. The names of regions of a page must differ.
    fn table(&mut self, columns: Vec<Alignment>) {
        self.columns = columns;
        self.tables += 1;
        let label = format!("aria-label=\"Table {}\"", self.tables);
        let begin = format!("<div class=\"scroll\" role=\"region\" {label} tabindex=\"0\"><table>\n");
        self.push(&begin, "</tbody></table></div>\n");
    }

    fn cell(&mut self) {
        let is_right = self.columns.get(self.column) == Some(&Alignment::Right);
        self.column += 1;
        match (self.in_head, is_right) {
            (true, false) => self.push("<th>", "</th>"),
            (true, true) => self.push("<th class=\"right\">", "</th>"),
            (false, false) => self.push("<td>", "</td>"),
            (false, true) => self.push("<td class=\"right\">", "</td>"),
        }
    }

    fn link(&mut self, url: &str) {
        if is_followed(url) { self.anchor(url) } else { self.push("", "") }
    }

    fn anchor(&mut self, url: &str) {
        let mut begin = String::from("<a href=\"");
        escape(&mut begin, url);
        begin.push_str("\" rel=\"noreferrer noopener nofollow\">");
        self.push(&begin, "</a>");
    }

    fn text(&mut self, text: &str) {
        for (nth, line) in text.split('\n').enumerate() {
            if nth > 0 {
                self.html.push('\n');
            }
            escape(&mut self.html, &visible(line));
        }
    }
}

/// Writes a text so that it is neither an element nor the end of an attribute.
fn escape(html: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '"' | '\'' => {
                // Writing to a `String` cannot fail.
                let _ = write!(html, "&#{};", u32::from(character));
            }
            other => html.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn common_markdown_has_its_elements() {
        let text = "# One\n\n### Two\n\nA *b* **c** ~~d~~ `e` [f](https://f.example/?a=1&b=2).\n\n- g\n- [x] h\n\n3. i\n\n> j\n\n---\n\n    k < l\n";
        let output = html(text);
        for part in [
            "<h2>One</h2>",
            "<h3>Two</h3>",
            "<em>b</em> <strong>c</strong> <del>d</del> <code>e</code>",
            "<a href=\"https://f.example/?a=1&#38;b=2\" rel=\"noreferrer noopener nofollow\">f</a>",
            "<li>☑ h</li>",
            "<ol start=\"3\">",
            "<blockquote>\n<p>j</p>",
            "<hr>",
            "<pre tabindex=\"0\"><code>k &#60; l\n</code></pre>",
        ] {
            assert!(output.contains(part), "{part}\n{output}");
        }
        let table = html("| a | b |\n|---|--:|\n| 1 | 2 |\n");
        assert!(table.contains("<thead><tr><th>a</th><th class=\"right\">b</th></tr></thead><tbody>"), "{table}");
        assert!(html("|a|\n|-|\n\n|b|\n|-|\n").contains("aria-label=\"Table 2\""));
        assert!(table.contains("<td>1</td><td class=\"right\">2</td>") && table.ends_with("</tbody></table></div>\n"));
    }

    #[test]
    fn a_document_has_its_title_its_anchors_and_its_own_links() {
        let text = "# The *title*\n\nA [b](b.md#c) and [d](../d.rs).\n\n## A `kill -9`, twice\n\ne\nf\n\n### Low\n\n## Last_one\n\n| g | h |\n|---|---|\n| i | j |\n";
        let Document { html, sections } =
            document(text, |link| link.strip_suffix(".md#c").map(|name| format!("{name}#c")));
        assert!(!html.contains("title"), "{html}");
        for part in [
            "<a href=\"b#c\" rel=\"noreferrer noopener nofollow\">b</a> and d.",
            "<h2 id=\"a-kill--9-twice\">A <code>kill -9</code>, twice</h2>",
            "<h3 id=\"low\">Low</h3>",
            "<h2 id=\"last_one\">Last_one</h2>",
        ] {
            assert!(html.contains(part), "{part}\n{html}");
        }
        let sections: Vec<_> = sections.iter().map(|one| (&one.heading[..], &one.anchor[..], &one.text[..])).collect();
        assert_eq!(
            sections,
            [
                ("The title", "the-title", "A b and d."),
                ("A kill -9, twice", "a-kill--9-twice", "e f"),
                ("Low", "low", ""),
                ("Last_one", "last_one", "g h i j"),
            ]
        );
    }

    #[test]
    fn foreign_text_stays_text() {
        for hostile in [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "a <b onclick=\"x()\">b</b>",
            "<!-- --><svg/onload=alert(1)>",
            "[a](javascript:alert(1))",
            "[a](JaVaScRiPt:alert(1))",
            "[a](<java\tscript:alert(1)>)",
            "[a](data:text/html;base64,PHNjcmlwdD4=)",
            "[a](vbscript:x)",
            "[a](//evil.example)",
            "[a](/account)",
            "[a](&#106;avascript:alert(1))",
            "![a](https://evil.example/pixel.png)",
            "![a](x\" onerror=\"alert(1))",
            "[a](https://x.example/\"onmouseover=\"alert(1))",
            "<javascript:alert(1)>",
            "[a]: javascript:alert(1)\n\n[a]",
            "```\"><script>alert(1)</script>\nx\n```",
            "| <script> |\n|---|\n| <img src=x> |",
            "\u{202e}<script>\u{2066}",
        ] {
            let output = html(hostile);
            let elements: Vec<&str> =
                output.split('<').skip(1).map(|rest| rest.split(['>', ' ']).next().unwrap_or_default()).collect();
            let written = [
                "p", "/p", "pre", "/pre", "code", "/code", "a", "/a", "span", "/span", "div", "/div", "table",
                "/table", "thead", "/thead", "tbody", "/tbody", "tr", "/tr", "th", "/th", "td", "/td",
            ];
            assert!(elements.iter().all(|element| written.contains(element)), "{hostile}\n{output}");
            assert!(
                !output.contains("href=\"j") && !output.contains("href=\"d") && !output.contains("href=\"/"),
                "{output}"
            );
            assert!(!output.contains("src=\"") && !output.contains('\u{202e}'), "{output}");
            // Only the renderer writes quotation marks of attributes.
            let allowed = output.matches(" href=\"").count() + output.matches(" rel=\"").count();
            let ours = output.matches("tabindex=\"").count()
                + output.matches("class=\"").count()
                + output.matches("role=\"").count()
                + output.matches("aria-label=\"").count();
            assert_eq!(output.matches('"').count(), 2 * (allowed + ours), "{output}");
        }
    }

    #[test]
    fn a_link_leads_to_the_same_place_from_every_page() {
        for followed in [
            "https://f.example",
            "HTTPS://f.example/a?b=c#d",
            "http://127.0.0.1:8080/x",
            "https:///f.example/",
            "https:\\\\f.example/",
            "mailto:ada@example.com",
        ] {
            assert!(is_followed(followed), "{followed}");
        }
        for relative in [
            "https:account",
            "http:account",
            "https:/device?user_code=WDJB-MJHT",
            "http:/device",
            "HTTPS:\\device",
            "https:",
            "https:?x",
            "https:#x",
            "https:.",
            "//evil.example",
            "\\\\evil.example",
            "account",
            "/account",
            "?x",
            "#x",
            "",
            "https://",
            "ftp://f.example/",
            "blob:https://f.example/x",
            "htt\tps://f.example/",
        ] {
            assert!(!is_followed(relative), "{relative}");
        }
        assert!(!html("[x](https:account) <https:/device?user_code=WDJB-MJHT>").contains("href"));
    }

    #[test]
    fn a_deep_text_is_shown_without_its_depth() {
        let output = html(&format!("{} deep", ">".repeat(5000)));
        assert!(output.matches("<blockquote>").count() <= DEPTH_MAX && output.contains("deep"));
        assert_eq!(output.matches("<blockquote>").count(), output.matches("</blockquote>").count());
    }

    #[test]
    fn excerpts_have_no_marks() {
        let text = "# Roses\n\nPrune *in* **March**:\n\n- [cut](https://x.example)\n- `tie`\n\n![bud](b.png)";
        assert_eq!(plain(text), "Roses Prune in March: cut tie bud");
    }

    proptest! {
        #[test]
        fn elements_are_closed_and_text_has_no_marks_of_html(text in "[a-z<>&\"'`*_\\[\\]()!#|\\-\\n\\\\ :/=]{0,200}") {
            let output = html(&text);
            for element in ["p", "em", "strong", "del", "code", "pre", "ul", "ol", "li", "a", "blockquote", "table", "tr"] {
                let begin = output.matches(&format!("<{element}>")).count() + output.matches(&format!("<{element} ")).count();
                prop_assert_eq!(begin, output.matches(&format!("</{element}>")).count());
            }
            prop_assert!(!output.contains("<script") && !output.contains("<img"));
        }
    }
}
