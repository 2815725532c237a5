//! Extracts the main content of a page as Markdown.
//!
//! 1. `tree` parses the page within limits.
//! 2. `dom_smoothie` finds the main content. If it finds very little, the whole body is used: missing text could not be
//!    found by a search.
//! 3. Links become absolute, or plain text if they lead nowhere; `htmd` writes Markdown.
//!
//! The Markdown writer is recursive, so this runs on a thread with a large stack.

use std::panic::{AssertUnwindSafe, catch_unwind};

use dom_query::{Document, NodeRef, Selection};
use dom_smoothie::{Config, Readability};
use htmd::element_handler::Handlers;
use htmd::options::{BulletListMarker, HeadingStyle, HrStyle, Options};
use htmd::{Element, HtmlToMarkdown};
use url::Url;

use crate::error::{ExtractError, short};
use crate::settings::ExtractSettings;
use crate::{text, tree};

/// Main content with fewer letters is discarded if the page has [`TIMES_MORE`] times as many.
const MAIN_CHARS_MIN: usize = 250;

/// See [`MAIN_CHARS_MIN`].
const TIMES_MORE: usize = 3;

/// Elements without text content.
const NO_TEXT: &str = "script, style, noscript, template, iframe, object, embed, svg, canvas, audio, video, select, textarea, input, button";

/// Element in which `dom_smoothie` leaves the main content.
const ARTICLE: &str = "#readability-page-1";

/// Elements around the main content of most pages.
const SURROUNDINGS: &str =
    "nav, footer, aside, [role=navigation], [role=banner], [role=contentinfo], [hidden], [aria-hidden=true]";

/// Extracts title and Markdown. Requires a thread with a large stack.
pub(super) fn read(
    html: &str,
    url: Option<&str>,
    settings: &ExtractSettings,
) -> Result<(Option<String>, String), ExtractError> {
    catch_unwind(AssertUnwindSafe(|| convert(html, url, settings)))
        .unwrap_or_else(|_| Err(ExtractError::Failed("the HTML library gave up".to_owned())))
}

fn convert(
    html: &str,
    url: Option<&str>,
    settings: &ExtractSettings,
) -> Result<(Option<String>, String), ExtractError> {
    let document = tree::parse(html, settings)?;
    let base = base(&document, url);
    let whole = document.clone();
    let mut readability = Readability::with_document(document, None, Some(Config::default()))
        .map_err(|error| ExtractError::Failed(short(&error.to_string())))?;
    // The title is taken from the whole page, so it is available without main content.
    let (title, has_main) = match readability.parse() {
        Ok(article) => (article.title, true),
        Err(_) => (readability.get_article_title().to_string(), false),
    };
    let article = readability.doc.select_single(ARTICLE);
    let main = match article.nodes().first().filter(|_| has_main) {
        Some(article) => markdown(article, base.as_ref()),
        None => String::new(),
    };
    let title = Some(title).filter(|title| !title.trim().is_empty());
    if letters(&main) >= MAIN_CHARS_MIN {
        return Ok((title, main));
    }
    whole.select(SURROUNDINGS).remove();
    let body = whole.body().unwrap_or_else(|| whole.root());
    let whole = markdown(&body, base.as_ref());
    let is_most = letters(&main) * TIMES_MORE >= letters(&whole);
    Ok((title, if is_most { main } else { whole }))
}

/// The base URL of relative links (HTML, section 4.2.3).
fn base(document: &Document, url: Option<&str>) -> Option<Url> {
    let url = url.and_then(|url| Url::parse(url).ok());
    let element = document.select_single("base[href]");
    let href = element.attr("href");
    // The extraction library would otherwise resolve links with this element, in its own way.
    document.select("base").remove();
    match (href, url) {
        (Some(href), Some(url)) => url.join(&href).ok().or(Some(url)),
        (Some(href), None) => Url::parse(&href).ok(),
        (None, url) => url,
    }
}

fn markdown(root: &NodeRef<'_>, base: Option<&Url>) -> String {
    let root = Selection::from(*root);
    root.select(NO_TEXT).remove();
    for link in root.select("a[href]").nodes() {
        match link.attr("href").and_then(|href| absolute(&href, base)) {
            Some(address) => link.set_attr("href", &address),
            None => link.remove_attr("href"),
        }
        link.remove_attr("title");
    }
    for image in root.select("img").nodes() {
        // An image without a description adds nothing to search.
        let address = image.attr("src").and_then(|src| absolute(&src, base));
        match address.filter(|_| image.attr("alt").is_some_and(|alt| !alt.trim().is_empty())) {
            Some(address) => image.set_attr("src", &address),
            None => image.remove_from_parent(),
        }
        image.remove_attr("title");
        // The Markdown writer would take it for the address of the image.
        image.remove_attr("href");
    }
    text::clean(&written(&root.html())).trim_matches('\n').to_owned()
}

/// Writes HTML as Markdown. The writer parses the text again and may build another tree than the sanitised one, so every address is checked
/// again before it is written.
fn written(html: &str) -> String {
    let options = Options {
        heading_style: HeadingStyle::Atx,
        hr_style: HrStyle::Dashes,
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let writer = HtmlToMarkdown::builder()
        .options(options)
        .skip_tags(vec!["head", "title", "script", "style"])
        .add_handler(vec!["a"], |handlers: &dyn Handlers, link: Element<'_>| {
            if leads_outside(&link) { handlers.fallback(link) } else { Some(handlers.walk_children(link.node)) }
        })
        .add_handler(vec!["img"], |handlers: &dyn Handlers, image: Element<'_>| {
            if leads_outside(&image) { handlers.fallback(image) } else { Some(String::new().into()) }
        })
        .build();
    // Writing to a string does not fail; if the library returned an error, the page would count as empty.
    writer.convert(html).unwrap_or_default()
}

/// Whether all addresses of an element are of pages or mailboxes.
fn leads_outside(element: &Element<'_>) -> bool {
    let mut addresses = element.attrs.iter().filter(|attribute| matches!(&*attribute.name.local, "href" | "src"));
    addresses.all(|address| absolute(&address.value, None).is_some())
}

/// The absolute URL of a link to another page; `None` for scripts, data and fragments.
fn absolute(href: &str, base: Option<&Url>) -> Option<String> {
    let href = href.trim();
    if href.starts_with('#') {
        return None;
    }
    let url = match base {
        Some(base) => base.join(href).ok()?,
        None => Url::parse(href).ok()?,
    };
    matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.into())
}

fn letters(markdown: &str) -> usize {
    markdown.chars().filter(|character| character.is_alphanumeric()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::on_large_stack;

    fn read(html: &str) -> (Option<String>, String) {
        let url = Some("https://example.com/a/b?c#d");
        on_large_stack(|| super::read(html, url, &ExtractSettings::default())).unwrap().unwrap()
    }

    fn markdown_of(html: &str) -> String {
        read(html).1
    }

    #[test]
    fn addresses_become_absolute_or_disappear() {
        let page = |href: &str| format!("<p>Read <a href=\"{href}\" title=no>the text</a> now</p>");
        for (href, written) in [
            ("../x?y", "[the text](https://example.com/x?y)"),
            ("//other.example/", "[the text](https://other.example/)"),
            ("mailto:a@example.com", "[the text](mailto:a@example.com)"),
            ("#top", "the text"),
            ("javascript:alert(1)", "the text"),
            (" JaVa\tScript:alert(1)", "the text"),
            ("data:text/html,x", "the text"),
            ("http://[", "the text"),
        ] {
            assert_eq!(markdown_of(&page(href)), format!("Read {written} now"), "{href}");
        }
        let based = format!("<base href=\"/deep/\">{}", page("x"));
        assert_eq!(markdown_of(&based), "Read [the text](https://example.com/deep/x) now");
        let lost = super::read(&page("x"), None, &ExtractSettings::default()).unwrap().1;
        assert_eq!(lost, "Read the text now");
    }

    #[test]
    fn images_are_kept_for_their_words() {
        let page = "<p>See <img src=boat.png alt='A boat' title=x> and <img src=dot.png><img src='data:image/png;base64,AA' alt=x></p>";
        assert_eq!(markdown_of(page), "See ![A boat](https://example.com/a/boat.png) and");
        let two = "<p><img src=boat.png alt='A boat' href=javascript:alert(1)>";
        assert_eq!(markdown_of(two), "![A boat](https://example.com/a/boat.png)");
    }

    /// A serialised tree may parse to another one, with an unchecked address.
    #[test]
    fn the_writer_checks_addresses_itself() {
        for (html, markdown) in [
            ("<a href='javascript:alert(1)'>a <b>link</b></a>", "a **link**"),
            ("<a href='https://example.com/'>a link</a>", "[a link](https://example.com/)"),
            ("<p>a</p><img src='data:image/png;base64,AA' alt=b>", "a"),
            ("<img src='https://example.com/x' alt=b href='javascript:alert(1)'>", ""),
            ("<img src='https://example.com/x' alt=b>", "![b](https://example.com/x)"),
        ] {
            assert_eq!(written(html).trim(), markdown, "{html}");
        }
    }

    #[test]
    fn elements_without_text_are_left_out() {
        let page = "<p>One</p><script>two()</script><style>three{}</style><template>four</template><svg><text>five</text>\
             <script>six</script></svg><noscript>seven</noscript><select><option>eight</select><textarea>nine</textarea>\
             <iframe>ten</iframe><object>eleven</object>";
        assert_eq!(markdown_of(page), "One");
    }

    #[test]
    fn a_page_without_an_article_is_taken_whole() {
        let link = |number| format!("<li><a href=/{number}>Link number {number}</a></li>");
        let links = (0..80).map(link).collect::<Vec<_>>().concat();
        let (title, markdown) = read(&format!("<title>All the links of it</title><ul>{links}</ul>"));
        assert_eq!(title.as_deref(), Some("All the links of it"));
        assert!(markdown.contains("- [Link number 79](https://example.com/79)"), "{markdown}");
    }

    #[test]
    fn structure_survives() {
        let page = "<article><h2>Boats</h2><p>Of <b>wood</b> &amp; <code>steel</code>.</p><ol><li>One<li>Two</ol>\
             <pre><code>let x = 1;\n  y</code></pre><table><tr><th>A<th>B<tr><td>1<td>2</table></article>";
        let markdown = markdown_of(page);
        for part in ["## Boats", "Of **wood** & `steel`.", "1. One\n2. Two", "```\nlet x = 1;\n  y\n```", "| 1 | 2 |"] {
            assert!(markdown.contains(part), "{part} in {markdown}");
        }
    }

    #[test]
    fn hostile_pages_end_and_keep_the_text_before() {
        let words = "<p>Some words that stand before everything else in here</p>";
        for (name, unit, count) in [
            ("nested elements", "<div>", 100_000),
            ("nested formatting", "<b>", 100_000),
            ("nested lists", "<ul><li>", 100_000),
            ("nested tables", "<table><tr><td>", 50_000),
            ("end tags", "</div></p></b>", 5000),
            ("comments", "<!-- x -->", 10_000),
            ("null bytes", "\0", 100_000),
            ("half entities", "&am", 10_000),
        ] {
            let markdown = markdown_of(&format!("{words}{}", unit.repeat(count)));
            assert!(markdown.starts_with("Some words"), "{name}");
        }
        // The tokenizer reads everything after an unclosed tag as its attributes.
        let open = format!("{words}{}", "<a ".repeat(20_000));
        let settings = ExtractSettings::default();
        let refused = on_large_stack(|| super::read(&open, None, &settings)).unwrap();
        assert_eq!(refused, Err(ExtractError::TooManyAttributes(settings.attributes_max)));
    }
}
