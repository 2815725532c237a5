//! `attache search`: the best first, for a person and for a program.

use blackbox::flow;
use blackbox::process::Home;

#[tokio::test(flavor = "multi_thread")]
async fn search_results_are_printed_with_their_chunk_or_as_json() {
    let home = Home::new();
    let _server = flow::library(&home).await;
    let (friends, bloom) = ("They are old friends of people. ".repeat(12), "before they bloom ".repeat(12));
    let long = format!("# Roses\n\n{friends}Prune them in March, {bloom}");
    std::fs::write(home.dir.path().join("roses.md"), long).unwrap();
    std::fs::write(home.dir.path().join("tides.md"), "# Tides\u{1b}[31m\n\nThe moon pulls the sea.").unwrap();
    home.run(&["add", "roses.md", "tides.md"]).said();
    let output = home.run(&["search", "when", "do", "I", "prune", "in", "March?"]);
    let said = output.said();
    assert!(said.starts_with(" 1. Roses\n    "), "{said}");
    assert!(
        said.contains("    fits well  ") && said.contains("/knowledge/memories/") && !said.contains("# Roses"),
        "{said}"
    );
    // The part around the words that were looked for.
    assert!(said.contains("    … ") && said.contains("Prune") && said.contains("March"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100) && !said.contains('\u{1b}'), "{said}");
    assert!(home.run(&["search", "moon"]).said().contains("Tides [31m"));
    let value = home.run(&["search", "roses", "--limit", "1", "--json"]).json();
    assert_eq!(value["results"].as_array().unwrap().len(), 1);
    for member in ["id", "title", "url", "content", "similarity", "createdAt", "type", "chunks"] {
        assert!(!value["results"][0][member].is_null(), "{member}");
    }
    assert_eq!(home.run(&["search", "roses", "--threshold", "1"]).said(), "no results");
    assert!(!home.run(&["search", "roses", "--chunks", "0"]).said().contains("friends"));
    home.run(&["search", "roses", "--threshold", "2"]).refused(1, &["invalid_request", "threshold"]);
    home.run(&["search", "roses", "--limit", "51"]).refused(2, &["--limit"]);
    home.run(&["search"]).refused(2, &["QUERY"]);
}
