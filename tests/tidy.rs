//! Structure of the source tree: a crate names only crates below it, every route has its rule and its test, the configuration file is
//! complete, both migration folders agree. The modules below check imports, errors, language, names, the schema of the configuration, and
//! the samples for balancers.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod tidy {
    mod config_schema;
    mod deploy;
    mod errors;
    mod futures;
    mod growth;
    mod imports;
    mod language;
    mod metrics;
    mod names;
    mod routes;
    mod tokens;
}

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use actors::ActorKind;
use app::config::Settings;
use app::config::live::{SettingEffect, effect_of};
use app::config::reading::{environment_name, paths, read, schema};

fn root() -> PathBuf {
    // Not the folder in which this was built: build products may be shared by several checkouts.
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The path as people write it: from the root of the repository.
fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Files of a folder and its subfolders with these extensions. Hidden folders, build products and packages of other tools are left out.
fn files_in(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !["node_modules", "target", "data", "corpus"].contains(&&*name) {
                found.extend(files_in(&path, extensions));
            }
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|it| extension == *it)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn files(extensions: &[&str]) -> Vec<PathBuf> {
    files_in(&root(), extensions)
}

/// The crates of the product, bottom up.
const FLOORS: [&str; 16] = [
    "http-client",
    "domain",
    "hooks",
    "wire",
    "client",
    "proofs",
    "extract",
    "commands",
    "store",
    "statistics",
    "knowledge",
    "supervision",
    "actors",
    "app",
    "api",
    "web",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    files_in(folder, &["rs"])
}

/// Sources of the shipped crates, without tests, benches and examples.
fn product_sources() -> Vec<PathBuf> {
    let is_product = |path: &PathBuf| {
        let path = relative(path);
        !["tests/", "benches/", "examples/"].iter().any(|folder| path.contains(folder))
    };
    sources(&root()).into_iter().filter(is_product).collect()
}

#[test]
fn every_floor_names_only_floors_below_it() {
    let below: [(&str, &[&str]); 17] = [
        ("http-client", &[]),
        ("domain", &[]),
        ("hooks", &["domain"]),
        ("wire", &["domain"]),
        ("client", &["http-client", "domain", "wire"]),
        ("proofs", &["domain"]),
        ("extract", &["domain"]),
        ("commands", &["domain", "hooks", "wire", "client", "proofs", "extract"]),
        ("store", &["domain"]),
        ("statistics", &["http-client", "domain", "proofs", "store"]),
        ("knowledge", &["http-client", "domain", "extract", "store"]),
        ("supervision", &[]),
        ("actors", &["http-client", "domain", "store", "proofs", "extract", "statistics", "knowledge", "supervision"]),
        (
            "app",
            &[
                "http-client",
                "domain",
                "wire",
                "store",
                "proofs",
                "extract",
                "statistics",
                "knowledge",
                "supervision",
                "actors",
            ],
        ),
        ("api", &["domain", "wire", "store", "proofs", "extract", "statistics", "knowledge", "actors", "app"]),
        ("web", &["domain", "wire", "proofs", "statistics", "knowledge", "actors", "app", "api"]),
        (".", &FLOORS),
    ];
    for (floor, allowed) in below {
        let folder = if ["actors", "."].contains(&floor) { floor.to_owned() } else { format!("crates/{floor}") };
        let manifest: toml::Table = toml::from_str(&text(&format!("{folder}/Cargo.toml"))).unwrap();
        let named = manifest["dependencies"].as_table().unwrap();
        for other in FLOORS {
            assert!(!named.contains_key(other) || allowed.contains(&other), "{floor} must not know {other}");
        }
    }
}

/// Handlers see services. What some also ask directly is listed in ARCHITECTURE.md.
#[test]
fn handlers_see_only_the_listed_parts_beside_services() {
    let state = text("crates/api/src/state.rs");
    let seen: Vec<&str> = state
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.split_once(" = app."))
        .map(|(part, _)| part)
        .collect();
    let rule = text("ARCHITECTURE.md");
    let rule = rule.lines().skip_while(|line| !line.starts_with("2. ")).take_while(|line| !line.starts_with("3. "));
    let rule: String = rule.collect();
    for part in seen {
        assert!(rule.contains(&format!("`{part}`")), "rule 2 of ARCHITECTURE.md does not name {part}");
    }
}

#[test]
fn the_ground_floor_does_no_io_and_waits_for_nothing() {
    for path in sources(&root().join("crates/domain/src")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for banned in ["std::fs", "std::net", "tokio", "async fn", "std::env"] {
            assert!(!code.contains(banned), "{}: {banned}", path.display());
        }
    }
}

#[test]
fn panics_unwind_in_every_profile() {
    let manifest: toml::Table = toml::from_str(&text("Cargo.toml")).unwrap();
    for (name, profile) in manifest["profile"].as_table().unwrap() {
        let panic = profile.get("panic").map(|value| value.as_str().unwrap());
        assert!(panic.is_none_or(|panic| panic == "unwind"), "supervision catches panics: {name}");
    }
    assert!(std::panic::catch_unwind(|| panic!("caught")).is_err());
}

#[test]
fn the_configuration_file_is_the_defaults() {
    let settings =
        read("config.toml", &text("config.toml"), std::iter::empty()).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(settings, Settings::default());
}

#[test]
fn the_configuration_file_shows_every_setting_with_its_environment_name() {
    let file = text("config.toml");
    let mut section = String::new();
    let mut shown = BTreeSet::new();
    for line in file.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((assignment, variable)) = line.rsplit_once(" # ATTACHE_") {
            let key = assignment.trim_start_matches("# ").split(" = ").next().unwrap();
            let path = format!("{section}.{key}");
            let mark = match effect_of(&path) {
                Some(SettingEffect::Live) => ", live",
                Some(SettingEffect::Reload) => ", reload",
                _ => "",
            };
            assert_eq!(format!("ATTACHE_{variable}"), format!("{}{mark}", environment_name(&path)), "{line}");
            assert!(shown.insert(path), "{line} occurs twice");
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "no environment name: {line}");
        }
    }
    // A kind of actor lists only its own values; it inherits the others from [actors].
    let kinds = ActorKind::ALL.iter().map(|kind| kind.name());
    let inherited = |path: &str| kinds.clone().any(|kind| path.starts_with(&format!("actors.{kind}.")));
    for path in paths(&schema()) {
        assert!(shown.contains(&path) || inherited(&path), "{path} is missing in config.toml");
    }
}

/// The names after `before` in the lines of a text, up to `after`.
fn names<'t>(text: &'t str, before: &str, after: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| Some(line.strip_prefix(before)?.split_once(after)?.0)).collect()
}

#[test]
fn every_kind_of_actor_is_configured_documented_and_wired() {
    let kinds: Vec<&str> = ActorKind::ALL.iter().map(|kind| kind.name()).collect();
    let file = text("config.toml");
    let sections: Vec<&str> = names(&file, "[actors.", "]").into_iter().filter(|name| *name != "restart").collect();
    let configurable: Vec<&str> =
        ActorKind::ALL.iter().filter(|kind| kind.is_configurable()).map(|kind| kind.name()).collect();
    assert_eq!(sections, configurable, "sections of config.toml");
    let document = text("docs/operations.md");
    let table = document.split("## Actors\n").nth(1).unwrap().split("\n## ").next().unwrap();
    assert_eq!(names(table, "| `", "`"), kinds, "rows of docs/operations.md");
    let sources = sources(&root().join("crates/app/src"));
    let wiring: String = sources
        .iter()
        .filter(|path| !path.ends_with("config/actors.rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for kind in ActorKind::ALL {
        let row = format!("| `{kind}` | {} |", kind.description());
        assert!(table.contains(&row), "docs/operations.md lacks the row {row}");
        assert!(
            wiring.contains(&format!("ActorKind::{kind:?}")),
            "no ActorKind::{kind:?} in crates/app/src: add the child in supervised.rs"
        );
    }
}

#[test]
fn both_migration_folders_have_the_same_files() {
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    for (sqlite, postgres) in [
        ("migrations/sqlite", "migrations/postgres"),
        ("migrations/statistics/sqlite", "migrations/statistics/postgres"),
    ] {
        assert!(!names(sqlite).is_empty());
        assert_eq!(names(sqlite), names(postgres));
    }
}

/// Engines such as Citus refuse an index and another command in one string, and a migration is one string.
#[test]
fn a_migration_of_the_log_on_postgresql_is_one_command() {
    let commands = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().filter(|line| !line.starts_with("--") && line.trim_end().ends_with(';')).count()
    };
    let mut migrations = files_in(&root().join("migrations/statistics/postgres"), &["sql"]);
    assert!(commands(&migrations.remove(0)) > 10, "the first one makes all tables, before any of them is distributed");
    for migration in migrations {
        assert_eq!(commands(&migration), 1, "{}", migration.display());
    }
}

/// Main database and log share connections to PostgreSQL, with both schemas in the search path. The statements of the log name the schema
/// of a table that exists in both.
#[test]
fn facts_and_log_have_no_other_table_of_the_same_name() {
    let tables = |folder: &str| -> BTreeSet<String> {
        let files = std::fs::read_dir(root().join(folder)).unwrap();
        let text: String = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        let made = text.split("CREATE TABLE ").skip(1);
        made.map(|rest| rest.trim_start_matches("IF NOT EXISTS ").split([' ', '(']).next().unwrap().to_owned())
            .collect()
    };
    let (facts, log) = (tables("migrations/postgres"), tables("migrations/statistics/postgres"));
    assert!(facts.len() > 30 && log.len() > 5, "{facts:?} {log:?}");
    let both: Vec<_> = facts.intersection(&log).collect();
    assert_eq!(both, ["installation"]);
}

#[test]
fn every_route_is_named_in_a_black_box_test() {
    let mut files = sources(&root().join("tests/api"));
    files.extend(sources(&root().join("tests/harness/blackbox")));
    let tests: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for route in api::routes().into_iter().chain(api::knowledge_routes()) {
        let fixed = route.path.split("/{").next().unwrap();
        assert!(tests.contains(fixed), "no test mentions {} {}", route.method, route.path);
    }
}

#[test]
fn every_page_is_visited_in_a_browser() {
    let tests: String =
        sources(&root().join("tests/browser")).iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for page in web::routes() {
        let fixed = page.path.split("/{").next().unwrap();
        assert!(fixed == "/assets" || tests.contains(fixed), "no browser visits {} {}", page.method, page.path);
    }
}

#[test]
fn every_dependency_of_the_workspace_has_a_reason() {
    let manifest = text("Cargo.toml");
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    for line in section.lines().filter(|line| line.contains(" = ") && !line.contains("path = ")) {
        assert!(line.split(" # ").nth(1).is_some_and(|reason| reason.len() >= 4), "{line}");
    }
}
