//! `attache search`: the best first, for a person and for a program.

use crate::flow;
use crate::process::Home;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_is_shown_with_its_passage_or_given_as_it_came() {
    let home = Home::new();
    let _server = flow::library(&home).await;
    let long = format!(
        "# Roses\n\n{}Prune roses in March, when the forsythia is in bloom.",
        "Roses are old friends of gardeners. ".repeat(20)
    );
    std::fs::write(home.dir.path().join("roses.md"), long).unwrap();
    std::fs::write(home.dir.path().join("tides.md"), "# Tides\u{1b}[31m\n\nThe moon pulls the sea.").unwrap();
    home.run(&["add", "roses.md", "tides.md"]).said();
    let done = home.run(&["search", "when", "do", "I", "prune", "my", "roses?"]);
    let said = done.said();
    assert!(said.starts_with(" 1. Roses\n    "), "{said}");
    assert!(
        said.contains('█') && said.contains("/v1/memories/") && said.contains("    Roses are old friends"),
        "{said}"
    );
    assert!(said.lines().all(|line| line.chars().count() <= 100) && !said.contains('\u{1b}'), "{said}");
    assert!(home.run(&["search", "moon"]).said().contains("Tides [31m"));
    let found = home.run(&["search", "roses", "--limit", "1", "--json"]).json();
    assert_eq!(found["results"].as_array().unwrap().len(), 1);
    for member in ["id", "title", "url", "content", "similarity", "createdAt", "type", "chunks"] {
        assert!(!found["results"][0][member].is_null(), "{member}");
    }
    assert_eq!(home.run(&["search", "roses", "--threshold", "1"]).said(), "nothing found");
    assert!(!home.run(&["search", "roses", "--passages", "0"]).said().contains("friends"));
    home.run(&["search", "roses", "--threshold", "2"]).refused(1, &["invalid_request", "threshold"]);
    home.run(&["search", "roses", "--limit", "51"]).refused(2, &["--limit"]);
    home.run(&["search"]).refused(2, &["QUERY"]);
}
